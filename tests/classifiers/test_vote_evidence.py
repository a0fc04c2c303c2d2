"""Votes never answer worse than the commonest class does, and still answer where they can."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from sfumato.attacks.metrics.privacy import proportion_interval
from sfumato.learn.classifiers import PerturbedClassifier, RadiusVote
from sfumato.learn.classifiers.distortion import FactorNoise, NoiseSummary
from sfumato.learn.classifiers.radius_vote import LEAST
from sfumato.mechanisms import AdditiveNoise, PrincipalLaplace

TESTED = 600


def drawn(kind: str, rows: int, columns: int, shares: list[float], seed: int):
    rng = np.random.default_rng(seed)
    k = len(shares)
    y = rng.choice(k, rows + TESTED, p=shares)
    X = rng.standard_normal((rows + TESTED, columns))
    if kind == "shift":
        X += 3 * rng.standard_normal((k, columns))[y] / np.sqrt(columns)
    elif kind == "spread":
        X = X * np.linspace(0.6, 1.6, k)[y][:, None] + 0.3 * rng.standard_normal((k, columns))[y]
    elif kind == "skew":
        X = np.exp(0.8 * X + 0.6 * y[:, None] * rng.uniform(0, 1, columns))
    return (X - X.min(0)) / np.ptp(X, axis=0), y


def errors(model: PerturbedClassifier, X, y) -> tuple[float, float]:
    """Error on plain rows, and that of always answering the commonest class of training."""
    model.fit(X[:-TESTED], y[:-TESTED])
    wrong = np.mean(model.predict(X[-TESTED:]) != y[-TESTED:])
    return float(wrong), float(np.mean(y[-TESTED:] != np.bincount(y[:-TESTED]).argmax()))


def test_votes_on_wdbc_are_no_worse_than_guessing():
    """Public bounds, additive noise, epsilon 4: error .626 where the commonest class errs in .374 of the rows."""
    X, y = load_breast_cancer(return_X_y=True)
    bounds = X.min(axis=0), X.max(axis=0)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(X))
        train, test = order[:400], order[400:]
        model = PerturbedClassifier(AdditiveNoise(epsilon_record=4.0), "radius-vote", bounds=bounds, random_state=seed)
        wrong = int(np.sum(model.fit(X[train], y[train]).predict(X[test]) != y[test]))
        commonest = np.mean(y[test] != np.bincount(y[train]).argmax())
        assert proportion_interval(wrong, len(test))[0] <= commonest


@pytest.mark.parametrize(
    ("kind", "rows", "columns", "shares"),
    [
        ("shift", 800, 8, [0.7, 0.3]),
        ("shift", 900, 10, [0.5, 0.25, 0.15, 0.1]),
        ("spread", 600, 10, [0.8, 0.1, 0.1]),
        ("spread", 700, 20, [0.4, 0.6]),
        ("skew", 500, 20, [0.63, 0.37]),
        ("nothing", 500, 10, [0.62, 0.38]),
    ],
)
def test_never_worse_than_the_commonest_class_beyond_the_interval(kind, rows, columns, shares):
    X, y = drawn(kind, rows, columns, shares, seed=rows)
    for mechanism in (AdditiveNoise, PrincipalLaplace):
        for epsilon in (1.0, 8.0, 40.0, 200.0):
            model = PerturbedClassifier(mechanism(epsilon_record=epsilon), "radius-vote", bounds=(0, 1), random_state=3)
            wrong, commonest = errors(model, X, y)
            assert proportion_interval(round(wrong * TESTED), TESTED)[0] <= commonest, (mechanism.name, epsilon)


@pytest.mark.parametrize(("shares", "most"), [([0.7, 0.3], 0.1), ([0.25] * 4, 0.25)])
def test_evidence_is_not_thrown_away(shares, most):
    X, y = drawn("shift", 1_500, 8, shares, seed=5)
    model = PerturbedClassifier(AdditiveNoise(epsilon_record=24.0), "radius-vote", bounds=(0, 1), random_state=1)
    wrong, commonest = errors(model, X, y)
    assert wrong < most < commonest
    assert not model.classifier_.answers_prior_


def test_where_votes_say_nothing_the_prior_answers():
    X, y = drawn("nothing", 500, 6, [0.7, 0.3], seed=2)
    model = PerturbedClassifier(AdditiveNoise(epsilon_record=4.0), "radius-vote", bounds=(0, 1), random_state=1).fit(
        X, y
    )
    assert (model.predict(X) == 0).all()
    nobody = RadiusVote().fit(X[:3], [0, 0, 1], noise=NoiseSummary([9.0] * 6, [243.0] * 6))
    assert nobody.answers_prior_
    np.testing.assert_allclose(nobody.predict_proba(X[:5]), np.tile([2 / 3, 1 / 3], (5, 1)))


@pytest.mark.parametrize("noise", [None, NoiseSummary([0.0], [0.0], answers=((0, 4, 0.5),))])
def test_nearest_rows_that_mislead_are_not_asked(noise):
    """Labels that have nothing to do with four categories, kept as they are or randomized: .42 wrong, else .3."""
    rng = np.random.default_rng(0)
    rows, y = np.eye(4)[rng.integers(0, 4, 600)], (rng.random(600) < 0.3).astype(int)
    if noise is not None:
        noise = NoiseSummary(np.zeros(4), np.zeros(4), answers=noise.answers)
    else:
        rows = rows + 0.1 * rng.standard_normal(rows.shape)
    model = RadiusVote().fit(rows, y, noise=noise)
    assert (model.predict(rows[:50] + 0.01) == 0).all()


@pytest.mark.parametrize("published", [True, False])
def test_a_row_that_is_left_out_does_not_vote_nor_count(published):
    """Against the definition: added noise, factors and rows on the same place, one query at a time."""
    rng = np.random.default_rng(4)
    rows, codes, part = rng.uniform(1, 2, (60, 3)), np.arange(60) % 3, np.repeat([0, 1], 30)
    rows[7] = rows[40]
    factors = FactorNoise(np.array([0]), np.zeros(1), np.ones(1), np.full(1, 0.3), np.full(1, 0.2))
    summaries = [NoiseSummary([0.0, 0.1, 0.1], [0.1] * 3, factors=factors), NoiseSummary([0.1] * 3, [0.1] * 3)]
    model = RadiusVote(prior_correction=not published).fit(rows, codes, noise=summaries, part=part)
    asked = np.array([3, 7, 12, 33, 40, 59])
    places = rows[asked] + np.array([0, 0, 0.1, 0.2, 0, 0.3])[:, None]
    found, _ = model._shares(places, asked)
    for place, own, votes in zip(places, asked, found, strict=True):
        others = np.arange(60) != own
        mean, noise = model.mean_noise_[part], model.row_noise_
        squares = ((place - rows) ** 2).sum(axis=1)
        exact = others & (squares == 0) & (mean == 0)
        squares = squares - noise + mean
        weights = np.where(squares <= model.squared_radius_[part], 1 / np.maximum(squares, LEAST * mean + 1e-300), 0)
        heard = np.bincount(codes[others], weights[others], minlength=3)
        if not published:
            heard /= np.bincount(codes[others], minlength=3)
        if exact.any():
            heard = np.bincount(codes[exact], minlength=3)
        np.testing.assert_allclose(votes, heard / heard.sum(), rtol=1e-8)


def test_the_nearest_of_a_row_that_is_left_out_are_others():
    rows, codes = np.array([[0.0], [1.0], [1.1], [5.0]]), np.array([0, 1, 1, 0])
    model = RadiusVote(fallback_neighbours=2).fit(rows, codes)
    found, empty = model._shares(rows, np.arange(4))
    np.testing.assert_allclose(found[0], [0, 1])
    np.testing.assert_allclose(found[3], [0, 1])
    assert empty == 4


def test_noise_is_taken_off_as_it_is_on_plain_rows():
    """Mean votes of noisy rows, drawn together and widened again, are those of plain rows; the variance nearly."""
    rng = np.random.default_rng(6)
    y = rng.integers(0, 2, 6_000)
    X = rng.standard_normal((6_000, 5)) + 1.5 * np.array([[1, 0, 0, 0, 0], [-1, 0, 0, 0, 0]])[y]
    Z = X + rng.normal(0, 3, X.shape)
    summary = NoiseSummary([9.0] * 5, [243.0] * 5)
    model = RadiusVote().fit(Z[:4_000], y[:4_000], noise=summary)
    means, variances, beliefs = model.evidence_
    heard = model.vote_shares(X[4_000:])
    plain = np.array([heard[y[4_000:] == c].mean(axis=0) for c in range(2)])
    np.testing.assert_allclose(means, plain, atol=0.15 * np.abs(plain - plain.mean(axis=0)).max())
    inside = np.mean([heard[y[4_000:] == c].var(axis=0).sum() for c in range(2)])
    assert 0.7 * inside < variances.mean() < 2.5 * inside  # of released rows it is more than ten times as large
    assert beliefs.max() > 0.99
    assert summary.widening(Z) == pytest.approx(np.sqrt(Z.var(axis=0).sum() / X.var(axis=0).sum()), rel=0.05)
