"""Radius votes on releases whose values were multiplied: the moments, the votes, and what they are good for."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from sfumato.learn.classifiers import PerturbedClassifier, RadiusVote
from sfumato.learn.classifiers.distortion import FactorNoise, NoiseSummary, noise_summary
from sfumato.learn.classifiers.radius_vote import LEAST
from sfumato.mechanisms import MultiplicativeNoise, NoisyOperator
from sfumato.noise import Streams
from sfumato.release.write_release import Layout, make_card
from sfumato.table import Column, Encoding, Schema

LAWS = {
    "uniform 1 to 3": (2.0, 1 / 3, 1 / 5, lambda rng, shape: rng.uniform(1, 3, shape)),
    "normal": (1.0, 0.16, 3 * 0.4**4, lambda rng, shape: 1 + 0.4 * rng.standard_normal(shape)),
    "laplace": (1.0, 0.18, 24 * 0.3**4, lambda rng, shape: 1 + rng.laplace(0, 0.3, shape)),
}


def factors(law: str, columns: int, origin: float = 0.0) -> FactorNoise:
    mean, variance, fourth, _ = LAWS[law]
    full = [np.full(columns, value) for value in (origin, mean, variance, fourth)]
    return FactorNoise(np.arange(columns), *full)


def correlated(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.exp(0.3 * rng.standard_normal((n, 1)) + 0.2 * rng.standard_normal((n, 3)))


@pytest.mark.parametrize("law", LAWS)
def test_distortion_by_simulation(law):
    """Accepts the mean and variance that the release alone tells, and would reject either 30% off.

    Columns are correlated, and nothing is known of them but the release.
    """
    rng = np.random.default_rng(7)
    mean, *_, draw = LAWS[law]
    X, Y = correlated(rng, 400_000), correlated(rng, 400_000)
    Z = X * draw(rng, X.shape)
    noise = factors(law, 3)
    own = noise.of_rows(Z)
    D = ((Z - mean * Y) ** 2).sum(1) - own + own.mean() - mean**2 * ((X - Y) ** 2).sum(1)
    expected, variance = noise.distortion(Z)
    assert D.mean() == pytest.approx(expected, rel=0.02)
    assert D.var() == pytest.approx(variance, rel=0.05)


def test_own_noise_of_a_row_is_unbiased_whatever_its_values():
    rng = np.random.default_rng(1)
    for law, (_, variance, _, draw) in LAWS.items():
        for x in (0.5, 1.0, 4.0):
            Z = x * draw(rng, (200_000, 1))
            assert factors(law, 1).of_rows(Z).mean() == pytest.approx(variance * x**2, rel=0.03)


@pytest.mark.parametrize("workers", [1, 2])
def test_votes_are_those_of_the_corrected_distances(workers):
    """Against the definition, pair by pair; one column is additive, one has its zero elsewhere, a part is plain."""
    rng = np.random.default_rng(3)
    X = correlated(rng, 900)
    y = rng.integers(0, 3, 900)
    noise = FactorNoise(np.array([0, 2]), np.array([0.0, -1.0]), *np.array([[2.0, 2.0], [1 / 3, 1 / 3], [0.2, 0.2]]))
    Z = X.copy()
    Z[:, 0] *= rng.uniform(1, 3, 900)
    Z[:, 2] = (X[:, 2] + 1) * rng.uniform(1, 3, 900) - 1
    Z[:, 1] += rng.laplace(0, 0.2, 900)
    both = NoiseSummary([0.0, 0.08, 0.0], [0.0, 24 * 0.2**4, 0.0], factors=noise)
    part = np.repeat([0, 1], [600, 300])
    plain = NoiseSummary([0.1] * 3, [0.1] * 3)
    model = RadiusVote(workers=workers).fit(Z, y, noise=[both, plain], part=part)
    queries = 2 * correlated(rng, 40)
    own = np.where(part == 0, noise.of_rows(Z), 0.0)
    mean = np.where(part == 0, own[part == 0].mean(), 0.0)
    squares = ((queries[:, None] - Z[None]) ** 2).sum(2) - own + mean
    weights = np.where(squares <= model.squared_radius_[part], 1 / np.maximum(squares, LEAST * mean), 0.0)
    votes = weights @ (y[:, None] == np.arange(3)) / model.class_prior_
    assert votes.any(axis=1).all()
    np.testing.assert_allclose(model.vote_shares(queries), votes / votes.sum(1, keepdims=True), rtol=1e-8)


@pytest.mark.parametrize("law", ["uniform", "normal"])
def test_a_class_of_large_values_is_heard(law):
    """Malignant cells are larger, and so scattered more. Asking the nearest rows as if nothing had been multiplied, and
    one circle for all rows, both do far worse."""
    X, y = load_breast_cancer(return_X_y=True)
    X = X[:, (X > 0).all(axis=0)]
    found = []
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(X))
        test, train = order[:150], order[150:]
        bounds = X.min(0), X.max(0)
        model = PerturbedClassifier(MultiplicativeNoise(law, scale=0.5), "radius-vote", bounds, random_state=seed)
        model.fit(X[train], y[train])
        vote, queries = model.classifier_, model._embed(X[test])
        naive = RadiusVote().fit(vote.rows_, y[train])
        one_circle = RadiusVote(radius=float(vote.squared_radius_[0])).fit(vote.rows_, y[train])
        found.append([one.score(queries, y[test]) for one in (vote, naive, one_circle)])
    knowing, as_it_is, alike = np.mean(found, axis=0)
    assert knowing > 0.87
    assert max(as_it_is, alike) < 0.77


def fitted(mechanism, width=3):
    columns = tuple(
        Column(f"x{j}", "numeric", low=1.0 + j, high=9.0, source="public", reason="r") for j in range(width)
    )
    encoding = Encoding(Schema(columns))
    X = np.random.default_rng(0).random((200, width))
    mechanism.fit(X, None, encoding=encoding)
    return mechanism, mechanism.perturb(X, None, Streams.seeded(0).generator(0, b"", b"")).X, encoding


def test_card_and_mechanism_tell_the_same_factors():
    mechanism, Z, encoding = fitted(MultiplicativeNoise(low=1.0, high=3.0))
    card = make_card(Layout(mechanism, encoding), mechanism.guarantee(), rows=len(Z))
    for summary in (noise_summary(recipe, recipe.width) for recipe in (card.made_by(), mechanism.recipe_)):
        assert summary.factors is not None
        assert not summary.noise_variance.any()
        np.testing.assert_allclose(summary.factors.mean, 2.0)
        np.testing.assert_allclose(summary.factors.variance, 1 / 3)
        np.testing.assert_allclose(summary.factors.origin, [-1 / 8, -2 / 7, -3 / 6])


def test_added_noise_has_no_factors():
    mechanism, _, _ = fitted(NoisyOperator("additive", "normal", scale=0.3))
    summary = noise_summary(mechanism.recipe_, mechanism.recipe_.width)
    assert summary.factors is None
    assert (summary.noise_variance > 0).all()


def test_factors_without_variance_make_the_circle_hold_everything():
    mechanism, Z, _ = fitted(MultiplicativeNoise("student-t", scale=0.3, df=1.5))
    model = RadiusVote().fit(Z, np.arange(200) % 2, noise=noise_summary(mechanism.recipe_, mechanism.recipe_.width))
    assert model.squared_radius_[0] == np.inf
    assert np.isfinite(model.predict_proba(Z[:5] + 0.1)).all()
