"""Discriminants on vectors: moments come back without bias, shrinkage follows the signal, and the model travels."""

import numpy as np
import pytest

from sfumato.core.errors import UsageError
from sfumato.learn.classifiers.factory import make_classifier
from sfumato.learn.classifiers.private_discriminant import (
    FeatureMoments,
    PrivateDiscriminant,
    _own_covariance,
    _shrunk_covariance,
    _shrunk_deviations,
    moments_of,
)
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.training import AutoClassifier, fit_on_parts
from sfumato.mechanisms import make_mechanism
from sfumato.table import Column, Encoding, Schema

PUBLIC = {"source": "public", "reason": "the form"}
MIXED = Encoding(
    Schema(
        (
            Column("flat", "numeric", low=1.0, high=1.0, **PUBLIC),
            Column("a", "numeric", low=0.0, high=1.0, **PUBLIC),
            Column("b", "numeric", low=0.0, high=1.0, missing=True, **PUBLIC),
            Column("c", "numeric", low=0.0, high=1.0, **PUBLIC),
            Column("d", "categorical", categories=("x", "y", "z"), **PUBLIC),
        )
    )
)


def people(n, seed=0, signal=1.0):
    """a and c go together within the classes: only a discriminant that knows it uses their difference."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    common = rng.normal(0, 0.15, n)
    X = np.zeros((n, MIXED.width))
    X[:, 0] = 0.5
    X[:, 1] = np.clip(0.5 + common + 0.07 * signal * y + rng.normal(0, 0.04, n), 0, 1)
    X[:, 2] = np.clip(rng.normal(0.5 + 0.05 * signal * y, 0.15), 0, 1)
    missing = rng.random(n) < 0.1
    X[missing, 2], X[:, 3] = 0.5, missing
    X[:, 4] = np.clip(0.5 + common - 0.07 * signal * y + rng.normal(0, 0.04, n), 0, 1)
    X[np.arange(n), 5 + np.where(rng.random(n) < 0.2, y, rng.integers(0, 3, n))] = 1.0
    return X, y


def released(n, name="staged-release", epsilon=12.0, seed=0, **options):
    X, y = people(n, seed)
    mechanism = make_mechanism(name, {"epsilon_record": epsilon, "noise": "float", **options})
    return mechanism.release(X, y, np.random.default_rng(seed + 1), encoding=MIXED), mechanism.recipe_


@pytest.fixture(scope="module")
def staged():
    return released(12_000)


def test_moments_of_vectors_are_those_of_the_features(staged):
    block, recipe = staged
    space, found = moments_of(Part(block.X, block.y, recipe), 2)
    X, y = people(40_000, seed=5)
    f = space.of(X)
    for code in (0, 1):
        true = f[y == code].mean(axis=0)
        away = (found.means[code] - true) / np.sqrt(found.variances[code])
        assert np.abs(away).max() < 5
        assert np.sqrt((away**2).mean()) < 2.2
    off = ~np.eye(space.width, dtype=bool)
    away = (found.together - f.T @ f / len(f))[off] / np.sqrt(found.variances_together[off])
    assert np.sqrt((away**2).mean()) == pytest.approx(1.0, abs=0.5)


def test_it_uses_how_columns_go_together(staged):
    block, recipe = staged
    model = PrivateDiscriminant().fit(block.X, block.y, sources=recipe)
    X, y = people(4_000, seed=9)
    assert (model.predict(X) == y).mean() > 0.85  # single columns tell 70%
    assert model.n_features_in_ == MIXED.width
    assert model.quadratic_
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_the_default_learner_takes_it_for_staged_releases(staged):
    block, recipe = staged
    model = AutoClassifier().fit(block.X, block.y, sources=recipe)
    assert model.chosen_ == "private-discriminant"
    X, y = people(4_000, seed=9)
    assert (model.predict(X) == y).mean() > 0.85


@pytest.mark.parametrize("name", ["square-wave", "additive-noise"])
def test_it_reads_columns_too(name):
    block, recipe = released(12_000, name, 16.0)
    X, y = people(4_000, seed=9)
    assert (PrivateDiscriminant().fit(block.X, block.y, sources=recipe).predict(X) == y).mean() > 0.75


def test_sites_with_guides_of_their_own_add_up():
    """Three sites are better than one, and nearly as good as one release of all their rows."""
    X, y = people(4_000, seed=9)

    def right(model):
        return (model.predict(X) == y).mean()

    sites = [released(700, epsilon=10.0, seed=seed) for seed in (20, 21, 22)]
    Z, seen = np.vstack([block.X for block, _ in sites]), np.concatenate([block.y for block, _ in sites])
    model = AutoClassifier().fit(Z, seen, sources=[recipe for _, recipe in sites], part=np.repeat([0, 1, 2], 700))
    alone = [PrivateDiscriminant().fit(block.X, block.y, sources=recipe) for block, recipe in sites]
    assert right(model) > np.mean([right(one) for one in alone]) + 0.02
    block, recipe = released(2_100, epsilon=10.0, seed=23)
    assert right(model) > right(PrivateDiscriminant().fit(block.X, block.y, sources=recipe)) - 0.05
    several = model.classifier_
    assert len(several.members_) == 3
    assert several.evidence_ == pytest.approx(sum(member.evidence_ for member in several.members_))
    assert not alone[0].members_


def test_other_learners_refuse_sites_with_guides_of_their_own():
    parts = []
    for seed in (20, 21):
        block, recipe = released(200, seed=seed)
        parts.append(Part(block.X, block.y, recipe))
    with pytest.raises(UsageError, match="guides of their own"):
        fit_on_parts(make_classifier("forest"), parts)


def test_what_is_averaged_is_shrunk_as_all_of_it_demands():
    """Three equally precise estimates, each shrunk for three, are on average the estimate from all, shrunk once."""
    rng = np.random.default_rng(0)
    vectors, values, noise = np.eye(60), np.ones(60), np.full((2, 60), 0.5)
    true = rng.normal(0, 0.7, 60) * np.array([[1], [-1]])
    seen = [true + rng.normal(0, np.sqrt(0.5), true.shape) for _ in range(3)]
    averaged = np.mean([_shrunk_deviations(one, noise, values, vectors, 3.0)[0] for one in seen], axis=0)
    at_once, _ = _shrunk_deviations(np.mean(seen, axis=0), noise / 3, values, vectors)
    np.testing.assert_allclose(averaged, at_once, atol=0.12)
    timid = np.mean([_shrunk_deviations(one, noise, values, vectors)[0] for one in seen], axis=0)
    assert np.abs(timid - at_once).max() > 0.3


def test_randomized_labels_are_undone():
    block, recipe = released(12_000)
    keep = 0.8
    seen = np.where(np.random.default_rng(0).random(len(block.y)) < keep, block.y, 1 - block.y)
    model = PrivateDiscriminant().fit(block.X, seen, sources=recipe, label_keep=keep)
    exact = PrivateDiscriminant().fit(block.X, block.y, sources=recipe)
    np.testing.assert_allclose(model.means_, exact.means_, atol=0.08)  # those of the labels as seen are .6 of these
    X, y = people(4_000, seed=9)
    assert (model.predict(X) == y).mean() > 0.77


def moments(m=6, seed=0, strong=0.3, noise=0.01):
    rng = np.random.default_rng(seed)
    together = np.eye(m)
    together[0, 1] = together[1, 0] = strong
    seen = together + rng.normal(0, np.sqrt(noise), (m, m))
    seen = (seen + seen.T) / 2
    return FeatureMoments(np.zeros((2, m)), np.ones((2, m)), seen, np.full((m, m), noise / 2))


def test_covariances_are_shrunk_as_far_as_they_are_chance():
    silent, _ = _shrunk_covariance(moments(strong=0.0, noise=0.05))
    assert np.abs(silent - np.eye(6)).max() < 0.15
    loud, trust = _shrunk_covariance(moments(strong=0.9, noise=1e-4))
    assert loud[0, 1] > 0.85
    assert trust > 0.9
    np.testing.assert_array_equal(np.diag(loud), 1.0)


def test_deviations_are_shrunk_by_their_noise():
    vectors, values = np.eye(4), np.ones(4)
    seen = np.array([[0.5, -0.4, 0.6, -0.5], [-0.5, 0.4, -0.6, 0.5]])
    kept, much = _shrunk_deviations(seen, np.full((2, 4), 1e-4), values, vectors)
    np.testing.assert_allclose(kept, seen, rtol=0.02)
    lost, little = _shrunk_deviations(0.1 * seen, np.full((2, 4), 1.0), values, vectors)
    assert np.abs(lost).max() < 0.03
    assert little < 0 < 20 < much


def test_a_classs_covariance_stays_one_and_within_bounds():
    within = np.diag([1.0, 2.0])
    root = np.diag(1 / np.sqrt([1.0, 2.0]))
    same = _own_covariance(within, np.full((2, 2), 0.1), within, root)
    np.testing.assert_allclose(same, within, atol=1e-9)
    wild = _own_covariance(np.diag([100.0, -5.0]), np.full((2, 2), 1e-6), within, root)
    np.testing.assert_allclose(np.diag(wild), [4.0, 0.5], rtol=1e-3)


def test_what_it_cannot_read_is_said():
    X, y = people(200)
    rotated = make_mechanism("random-rotation", {})
    block = rotated.release(X, y, np.random.default_rng(0), encoding=MIXED)
    with pytest.raises(UsageError, match="mixes them"):
        PrivateDiscriminant().fit(block.X, y, sources=rotated.recipe_)
    with pytest.raises(UsageError, match="noise of a known law"):
        PrivateDiscriminant().fit(X, y)
