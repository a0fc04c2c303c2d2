from __future__ import annotations

import pickle

import numpy as np
import pytest
import skops.io
from sklearn.datasets import load_breast_cancer
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from sfumato.learn.classifiers import NoiseSummary, RadiusVote


@parametrize_with_checks([RadiusVote(), RadiusVote(radius=2.0, prior_correction=False)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_laplace_distortion_is_the_papers():
    """The general form reduces to Eqs 12 and 13."""
    b, kept, dropped = np.array([0.3, 0.1]), np.array([2.0, 0.5]), np.array([0.2, 0.1, 0.05])
    laplace = NoiseSummary(2 * b**2, 24 * b**4, kept, dropped)
    mean, variance = laplace.distortion()
    assert mean == pytest.approx(2 * (b**2).sum() - 2 * dropped.sum())
    expected = 16 * (b**2 * kept).sum() + 20 * (b**4).sum() + 8 * (dropped**2).sum()
    assert variance == pytest.approx(expected)


@pytest.mark.parametrize("law", ["laplace", "normal", "uniform"])
def test_distortion_by_simulation(law):
    """Accepts the computed mean and variance of 200,000 pairs, and would reject either 30% off."""
    rng = np.random.default_rng(4)
    kept, dropped, sd = np.array([2.0, 1.0, 0.5]), np.array([0.3, 0.2]), np.array([0.9, 0.7, 0.5])
    shape = (200_000, 3)
    draw, fourth = {
        "laplace": (rng.laplace(0, np.sqrt(0.5), shape), 6.0),
        "normal": (rng.standard_normal(shape), 3.0),
        "uniform": (rng.uniform(-np.sqrt(3), np.sqrt(3), shape), 9 / 5),
    }[law]
    delta = draw * sd
    X, Y = (rng.standard_normal(shape) * np.sqrt(kept) for _ in range(2))
    U, V = (rng.standard_normal((200_000, 2)) * np.sqrt(dropped) for _ in range(2))
    D = ((X + delta - Y) ** 2).sum(1) - ((X - Y) ** 2).sum(1) - ((U - V) ** 2).sum(1)
    mean, variance = NoiseSummary(sd**2, fourth * sd**4, kept, dropped).distortion()
    error = np.sqrt(variance / len(D))
    spread = np.sqrt(((D - D.mean()) ** 4).mean() - D.var() ** 2) / np.sqrt(len(D))
    assert abs(D.mean() - mean) < 5 * error
    assert abs(D.var() - variance) < 5 * spread
    for wrong in (0.7, 1.3):
        assert abs(D.mean() - wrong * mean) > 5 * error
        assert abs(D.var() - wrong * variance) > 5 * spread


def test_unknown_variances_are_estimated_from_the_release():
    rng = np.random.default_rng(0)
    release = rng.normal(0, 2, (50_000, 2)) + rng.laplace(0, 1, (50_000, 2))
    summary = NoiseSummary([2.0, 100.0], [24.0, 24e4]).with_variances_of(release)
    assert summary.retained_variances == pytest.approx([4.0, 0.0], abs=0.2)


def test_noise_without_moments_makes_the_circle_hold_everything():
    rng = np.random.default_rng(0)
    rows, y = rng.standard_normal((50, 2)), np.repeat([0, 1], 25)
    for variance, fourth in ((np.inf, np.inf), (1.0, np.inf)):
        for n in (0.0, 2.0):
            radius = RadiusVote(n=n).fit(rows, y, noise=NoiseSummary([variance] * 2, [fourth] * 2)).squared_radius_[0]
            assert radius == (2.0 if np.isfinite(variance) and n == 0 else np.inf)


def clusters(n=3_000, noise=1.0, seed=0, weights=None):
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n + 300, p=weights)
    X = np.array([[0, 0, 0], [4, 0, 0], [0, 4, 0]])[y] + rng.standard_normal((n + 300, 3))
    Z = X[:n] + rng.laplace(0, noise, (n, 3))
    return Z, y[:n], X[n:], y[n:]


def test_as_published_is_the_brute_force_radius_vote_of_scikit_learn():
    Z, y, queries, _ = clusters()
    model = RadiusVote(prior_correction=False).fit(Z, y, noise=NoiseSummary([2.0] * 3, [24.0] * 3))
    peer = RadiusNeighborsClassifier(np.sqrt(model.squared_radius_[0]), weights=lambda d: 1 / d**2)
    peer.fit(Z, y)
    np.testing.assert_allclose(model.predict_proba(queries), peer.predict_proba(queries), rtol=1e-7)
    assert (model.predict(queries) == peer.predict(queries)).all()
    assert model.fallbacks_ == 0


def test_prior_correction_divides_votes_by_class_shares():
    Z, y, queries, _ = clusters(weights=[0.8, 0.1, 0.1])
    noise = NoiseSummary([2.0] * 3, [24.0] * 3)
    published = RadiusVote(prior_correction=False).fit(Z, y, noise=noise).predict_proba(queries)
    expected = published / np.bincount(y)
    corrected = RadiusVote().fit(Z, y, noise=noise).vote_shares(queries)
    np.testing.assert_allclose(corrected, expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)


def test_prior_correction_repairs_the_vote_on_wdbc():
    """b = .3 of the range on half of the principal components: published 62, corrected 87-90 (section 6.4)."""
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.min(0)) / np.ptp(X, axis=0)
    scores = (X - X.mean(0)) @ np.linalg.svd(X - X.mean(0), full_matrices=False)[2].T
    accuracy = {True: [], False: []}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(X))
        test, train = order[:57], order[57:]
        b = 0.3 * np.ptp(scores[train][:, :15], axis=0)
        Z = scores[train][:, :15] + rng.laplace(0, b, (len(train), 15))
        variances = scores[train].var(axis=0)
        noise = NoiseSummary(2 * b**2, 24 * b**4, variances[:15], variances[15:])
        for correction, found in accuracy.items():
            model = RadiusVote(prior_correction=correction).fit(Z, y[train], noise=noise)
            found.append(model.score(scores[test][:, :15], y[test]))
    assert 0.55 < np.mean(accuracy[False]) < 0.70
    assert 0.84 < np.mean(accuracy[True]) < 0.95


def test_without_noise_it_is_distance_weighted_five_nearest():
    Z, y, queries, _ = clusters()
    model = RadiusVote().fit(Z, y)
    peer = KNeighborsClassifier(5, weights=lambda d: 1 / d**2).fit(Z, y)
    np.testing.assert_allclose(model.predict_proba(queries), peer.predict_proba(queries), rtol=1e-7)
    assert (model.fallbacks_, model.fallback_rate_) == (300, 1.0)


def test_empty_circles_fall_back_and_are_counted():
    model = RadiusVote(radius=1.0, fallback_neighbours=1).fit([[0.0], [1.0], [9.0]], ["a", "a", "b"])
    assert model.predict([[0.5], [20.0], [5.5]]).tolist() == ["a", "b", "b"]
    assert (model.fallbacks_, model.fallback_rate_) == (2, pytest.approx(2 / 3))


def test_neglected_variance_can_make_the_radius_useless():
    model = RadiusVote(n=0, prior_correction=False)
    model.fit([[0.0], [1.0]], [0, 1], noise=NoiseSummary([0.1], [0.1], [1.0], [5.0]))
    assert model.squared_radius_[0] < 0
    assert model.predict([[0.9]]).tolist() == [1]
    assert model.fallbacks_ == 1


@pytest.mark.parametrize("radius", [None, 100.0])
def test_rows_on_the_query_decide_and_share_evenly(radius):
    rows = [[0.0], [0.0], [0.0], [0.1], [0.1]]
    model = RadiusVote(radius=radius).fit(rows, [0, 0, 1, 1, 1])
    np.testing.assert_allclose(model.predict_proba([[0.0], [0.1]]), [[2 / 3, 1 / 3], [0, 1]])


def test_equal_votes_go_to_the_first_class():
    assert RadiusVote(radius=4.0).fit([[1.0], [-1.0]], ["b", "a"]).predict([[0.0]]).tolist() == ["a"]


def test_parts_vote_within_their_own_radius():
    Z, y, queries, _ = clusters(n=600)
    part = np.repeat([0, 1], 300)
    noises = [NoiseSummary([2.0] * 3, [24.0] * 3), NoiseSummary([0.5] * 3, [1.5] * 3)]
    pooled = RadiusVote(prior_correction=False).fit(Z, y, noise=noises, part=part)
    alone = [
        RadiusVote(prior_correction=False).fit(Z[part == i], y[part == i], noise=noise)
        for i, noise in enumerate(noises)
    ]
    assert pooled.squared_radius_.tolist() == [model.squared_radius_[0] for model in alone]
    squares = ((queries[:, None] - Z[None]) ** 2).sum(axis=2)
    weights = np.where(squares <= pooled.squared_radius_[part], 1 / squares, 0)
    votes = weights @ (y[:, None] == np.arange(3))
    heard = votes.any(axis=1)
    expected = votes[heard] / votes[heard].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(pooled.predict_proba(queries)[heard], expected, rtol=1e-7)


def test_a_model_survives_skops():
    Z, y, queries, _ = clusters(n=300)
    model = RadiusVote().fit(Z, y, noise=NoiseSummary([2.0] * 3, [24.0] * 3))
    own = "sfumato.learn.classifiers.radius_vote.RadiusVote"
    assert set(skops.io.get_untrusted_types(data=skops.io.dumps(model))) <= {own}
    again = skops.io.loads(skops.io.dumps(model), trusted=[own])
    np.testing.assert_array_equal(again.predict_proba(queries), model.predict_proba(queries))


@pytest.mark.parametrize(
    ("parameters", "fit", "words"),
    [
        ({"n": np.nan}, {}, "'n' parameter"),
        ({"fallback_neighbours": 0}, {}, "'fallback_neighbours' parameter"),
        ({"radius": np.nan}, {}, "'radius' parameter"),
        ({}, {"noise": NoiseSummary([1.0, 1.0], [6.0, 6.0])}, "each of the 1 columns"),
        ({}, {"noise": [NoiseSummary([1.0], [6.0])] * 2}, "'part' parameter"),
        ({}, {"noise": [NoiseSummary([1.0], [6.0])], "part": [0, 1]}, "from 0 to 0"),
    ],
)
def test_wrong_arguments_are_named(parameters, fit, words):
    with pytest.raises(ValueError, match=words):
        RadiusVote(**parameters).fit([[0.0], [1.0]], [0, 1], **fit)


@pytest.mark.parametrize("wrong", [{"noise_variance": [-1.0]}, {"noise_fourth_moment": [1.0, 2.0]}])
def test_wrong_summaries_are_refused(wrong):
    with pytest.raises(ValueError, match="of a NoiseSummary"):
        NoiseSummary(**({"noise_variance": [1.0], "noise_fourth_moment": [6.0]} | wrong))


def test_what_was_laid_out_for_queries_is_made_anew_from_a_copy():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(300, 3)), rng.integers(2, size=300)
    model = RadiusVote(prior_correction=False, radius=1.0).fit(X, y)
    first, again = model.predict_proba(X + 0.1), model.predict_proba(X + 0.1)
    packed = pickle.dumps(model)
    assert (first == again).all()
    assert (pickle.loads(packed).predict_proba(X + 0.1) == first).all()
    assert len(packed) < 3 * X.nbytes
