"""Empirical-Bayes naive Bayes: counts through channels, shrinkage that follows the signal, mixed columns and labels."""

import numpy as np
import pytest

from sfumato.channels import Additive
from sfumato.core.errors import UsageError
from sfumato.learn.classifiers.empirical_bayes import (
    ColumnFit,
    EmpiricalBayesNaiveBayes,
    Prior,
    Seen,
    States,
    choose_prior,
    functions,
    outcomes_of,
    pooled,
)
from sfumato.learn.classifiers.factory import make_classifier
from sfumato.mechanisms import make_mechanism
from sfumato.noise import Laplace
from sfumato.table import Column, Encoding, Schema

PUBLIC = {"source": "public", "reason": "the form"}
MIXED = Encoding(
    Schema(
        (
            Column("a", "numeric", low=0.0, high=1.0, **PUBLIC),
            Column("b", "numeric", low=0.0, high=1.0, missing=True, **PUBLIC),
            Column("c", "integer", low=0, high=9, **PUBLIC),
            Column("d", "categorical", categories=("x", "y", "z"), missing=True, **PUBLIC),
            Column("e", "numeric", low=2.0, high=2.0, **PUBLIC),
        )
    )
)


def people(n, seed=0, signal=1.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = np.zeros((n, MIXED.width))
    X[:, 0] = np.clip(rng.normal(0.4 + 0.2 * signal * y, 0.15), 0, 1)
    X[:, 1] = np.clip(rng.normal(0.6 - 0.2 * signal * y, 0.15), 0, 1)
    missing = rng.random(n) < 0.2
    X[missing, 1], X[:, 2] = 0.5, missing
    X[:, 3] = np.clip(np.rint(rng.normal(4 + 2 * signal * y, 1.5)), 0, 9) / 9
    category = np.where(rng.random(n) < 0.3 * signal, y, rng.integers(0, 4, n))
    X[np.arange(n), 4 + category] = 1.0
    X[:, 8] = 0.5
    return X, y


def trained(name, parameters, n=6_000, seed=0, signal=1.0):
    X, y = people(n, seed, signal)
    mechanism = make_mechanism(name, parameters)
    block = mechanism.release(X, y, np.random.default_rng(seed + 1), encoding=MIXED)
    return make_classifier("empirical-bayes-naive-bayes").fit(block.X, block.y, sources=mechanism.recipe_), mechanism


RELEASES = {
    "square wave, some columns": ("square-wave", {"epsilon_record": 4.0}),
    "square wave, all columns": ("square-wave", {"epsilon_record": 10.0, "columns": 4}),
    "laplace": ("additive-noise", {"epsilon_record": 8.0}),
    "components": ("principal-laplace", {"basis": "identity", "epsilon_record": 8.0}),
}


@pytest.mark.parametrize("release", RELEASES)
def test_it_learns_through_every_channel(release):
    X, y = people(4_000, seed=9)
    model, mechanism = trained(*RELEASES[release])
    found = (model.predict(mechanism.embed(X)) == y).mean()
    assert found > 0.8  # the true distributions give .88, the commonest class .5


def test_without_signal_it_is_shrunk_to_the_prior():
    model, _ = trained("square-wave", {"epsilon_record": 2.0}, n=3_000, signal=0.0)
    X, _ = people(2_000, seed=9)
    assert np.abs(model.predict_proba(X)[:, 1] - 0.5).max() < 0.15
    assert model.spread_ <= 0.05 or model.share_ <= 0.3


def test_a_pooled_distribution_comes_back_through_noise():
    rng = np.random.default_rng(0)
    states = States(0, 1, 32)
    x = np.where(rng.random(40_000) < 0.6, rng.normal(0.3, 0.06, 40_000), rng.normal(0.75, 0.05, 40_000)).clip(0, 1)
    z = x + rng.laplace(0, 0.1, len(x))
    outcomes = outcomes_of(Additive(Laplace(0.1)), slice(0, 1), states)
    np.testing.assert_allclose(outcomes.transition.sum(axis=0), 1.0)
    seen = Seen(outcomes.counts(z[:, None], np.zeros(len(z), dtype=int), 1), outcomes.transition)
    pool = pooled([seen], np.full(32, 0.5))
    true = np.bincount((x * 32).astype(int).clip(0, 31), minlength=32) / len(x)
    blurred = np.bincount((z * 32).astype(int).clip(0, 31), minlength=32) / len(z)
    assert np.abs(pool - true).sum() < 0.35 * np.abs(blurred - true).sum()


def test_functions_are_orthonormal_and_lines_in_the_ranks():
    pool = np.random.default_rng(0).dirichlet(np.ones(33))
    for parts, k in ((33, 2), (32, 3), (0, 32)):
        phi = functions(pool, parts)
        assert phi.shape == (33, k)
        np.testing.assert_allclose(phi.T @ (pool[:, None] * phi), np.eye(k), atol=1e-8)
        np.testing.assert_allclose(pool @ phi, 0.0, atol=1e-8)
    rank = np.cumsum(pool) - pool / 2
    assert abs(np.corrcoef(functions(pool, 33)[:, 0], rank)[0, 1]) > 1 - 1e-9


def some_column(seed=0):
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(12), 8).T
    counts = rng.multinomial(400, rng.dirichlet(np.ones(12)), 2).astype(float)
    pool = rng.dirichlet(np.full(8, 3.0))
    return ColumnFit.of([Seen(counts, transition)], pool, 8)


def test_score_and_information_are_derivatives_of_the_likelihood():
    fit, h = some_column(), 1e-5
    (seen,) = fit.seen

    def likelihood(code, a):
        return seen.counts[code] @ np.log(seen.transition @ fit._tilted(np.array(a)))

    def expected(a):
        q = seen.transition @ fit.pool
        return float(seen.counts[0].sum() * (q @ np.log(seen.transition @ fit._tilted(np.array(a)))))

    for code in (0, 1):
        for k, step in enumerate(np.eye(2) * h):
            slope = (likelihood(code, step) - likelihood(code, -step)) / (2 * h)
            assert fit.score[code, k] == pytest.approx(slope, rel=1e-4, abs=1e-4)
    curve = -(expected([h, 0]) - 2 * expected([0, 0]) + expected([-h, 0])) / h**2
    assert fit.information[0, 0, 0] == pytest.approx(curve, rel=1e-3)


def test_the_evidence_is_the_integral_over_the_prior():
    """Brute force over a grid of coefficients of one class, for the quadratic likelihood that Laplace assumes."""
    fit, prior = some_column(1), Prior(0.3, 0.3, 1.0)
    grid = np.linspace(-4, 4, 401)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    points = np.stack([a.ravel(), b.ravel()], axis=1)
    variances, total = fit.variances(prior), 0.0
    for code in (0, 1):
        quadratic = points @ fit.score[code] - 0.5 * np.einsum("pk,kl,pl->p", points, fit.information[code], points)
        density = np.exp(-0.5 * (points**2 / variances).sum(axis=1)) / (2 * np.pi * np.sqrt(variances.prod()))
        total += np.log((np.exp(quadratic) * density).sum() * (grid[1] - grid[0]) ** 2)
    assert fit.evidence(prior) == pytest.approx(total / 2, rel=1e-3)


def test_the_steps_reach_the_posterior_mode():
    fit, prior = some_column(2), Prior(0.5, 0.3, 1.0)
    (seen,) = fit.seen
    penalty = 1 / fit.variances(prior)
    for code, a in enumerate(fit.coefficients(prior)):

        def value(x, code=code):
            return seen.counts[code] @ np.log(seen.transition @ fit._tilted(x)) - 0.5 * (penalty * x**2).sum()

        steps = np.random.default_rng(0).normal(0, 0.05, (200, 2))
        assert value(a) >= max(value(a + step) for step in steps) - 0.02


def test_parts_with_their_own_noise_are_one_estimate():
    X, y = people(8_000)
    mechanisms = [make_mechanism("square-wave", {"epsilon_record": e}) for e in (2.0, 6.0)]
    halves = [slice(0, 4_000), slice(4_000, None)]
    blocks = [
        one.release(X[half], y[half], np.random.default_rng(3), encoding=MIXED)
        for one, half in zip(mechanisms, halves, strict=True)
    ]
    Z, part = np.vstack([block.X for block in blocks]), np.repeat([0, 1], 4_000)
    model = EmpiricalBayesNaiveBayes().fit(Z, y, sources=[one.recipe_ for one in mechanisms], part=part)
    X, y = people(3_000, seed=9)
    assert (model.predict(X) == y).mean() > 0.8


def test_randomized_labels_are_undone():
    X, y = people(8_000)
    mechanism = make_mechanism("square-wave", {"epsilon_record": 6.0})
    block = mechanism.release(X, y, np.random.default_rng(3), encoding=MIXED)
    keep = 0.75
    seen = np.where(np.random.default_rng(4).random(len(y)) < keep, y, 1 - y)
    model = EmpiricalBayesNaiveBayes().fit(block.X, seen, sources=mechanism.recipe_, label_keep=keep)
    naive = EmpiricalBayesNaiveBayes().fit(block.X, seen, sources=mechanism.recipe_)
    X, y = people(3_000, seed=9)
    assert (model.predict(X) == y).mean() > 0.78

    def loss(fitted):
        return -np.log(np.maximum(fitted.predict_proba(X)[np.arange(len(y)), y], 1e-12)).mean()

    assert loss(model) < loss(naive)


def test_rows_without_noise_and_releases_that_cannot_be_read():
    X, y = people(3_000)
    numbers = X[:, [0, 3]]
    assert (EmpiricalBayesNaiveBayes().fit(numbers, y).predict(numbers) == y).mean() > 0.8
    rotated = make_mechanism("random-rotation", {})
    block = rotated.release(X, y, np.random.default_rng(0), encoding=MIXED)
    with pytest.raises(UsageError, match="secret key"):
        EmpiricalBayesNaiveBayes().fit(block.X, y, sources=rotated.recipe_)


def test_the_prior_that_is_chosen_follows_the_signal():
    strong = [some_column(seed) for seed in range(4)]
    assert choose_prior(strong).spread >= 0.05
    quiet = []
    for column in strong:
        (seen,) = column.seen
        even = np.tile(400 * (seen.transition @ column.pool), (2, 1))
        quiet.append(ColumnFit.of([Seen(even, seen.transition)], column.pool, 8))
    assert choose_prior(quiet).spread < choose_prior(strong).spread
