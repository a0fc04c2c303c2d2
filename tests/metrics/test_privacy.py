"""Every formula against a second way."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.metrics import roc_auc_score

from sfumato.attacks.base import Posteriors, Property, truths
from sfumato.attacks.metrics import privacy
from sfumato.attacks.metrics.privacy import (
    auc,
    auc_interval,
    auc_within,
    breaches,
    falls,
    interval_width,
    mean_interval,
    proportion_interval,
    rises,
    root_mean_square,
    variance_of_difference,
    worst_records,
)
from sfumato.table import Column, Encoding, Schema

MIXED = Encoding(
    Schema(
        (
            Column("age", "integer", low=0, high=100),
            Column("colour", "categorical", categories=("red", "green", "blue")),
            Column("weight", "numeric", low=0, high=1, missing=True),
        )
    )
)


def test_interval_width_of_normal_noise_is_four_deviations():
    rng = np.random.default_rng(0)
    X = rng.random((200_000, 2))
    X[0], X[1] = 0, 1
    guess = X + rng.normal(scale=[0.1, 0.3], size=X.shape)
    assert_allclose(interval_width(X, guess), 2 * stats.norm.ppf(0.975) * np.array([0.1, 0.3]), rtol=0.02)
    assert_allclose(interval_width(10 * X, 10 * guess), interval_width(X, guess))
    assert_allclose(interval_width(X, guess, span=[2, 2]), interval_width(X, guess) / 2, rtol=1e-3)


def test_interval_width_forgives_a_constant_shift_and_a_constant_column():
    X = np.column_stack([np.linspace(0, 1, 50), np.full(50, 0.5)])
    assert_allclose(interval_width(X, X + 0.2), 0, atol=1e-12)


def test_vod_is_capped_at_what_guessing_the_mean_gives():
    rng = np.random.default_rng(0)
    X = rng.random((1000, 1))
    bad = X + rng.normal(scale=9, size=X.shape)
    assert variance_of_difference(X, bad)[0] == pytest.approx(np.var(X))
    assert variance_of_difference(X, bad, cap=False)[0] == pytest.approx(((bad - X) - (bad - X).mean()).var())
    assert variance_of_difference(X, np.full_like(X, X.mean()))[0] == pytest.approx(np.var(X))


def test_root_mean_square_in_raw_units():
    assert root_mean_square(np.zeros((2, 1)), np.array([[0.3], [0.4]]), 10.0)[0] == pytest.approx(np.sqrt(12.5))


def test_a_breach_is_a_near_number_the_right_category_or_the_right_emptiness():
    original = np.array([[0.5, 1, 0, 0, 0.2, 0], [0.5, 0, 1, 0, 0.5, 1], [0.5, 0, 0, 1, 0.9, 0]])
    guess = np.array([[0.55, 0.4, 0.3, 0.3, 0.24, 0.1], [0.56, 0.9, 0.1, 0, 0.1, 0.8], [0.45, 0, 0.4, 0.6, 0.9, 0.7]])
    assert breaches(original, guess, MIXED).tolist() == [[True, True, True], [False, False, True], [True, True, False]]


def test_whole_numbers_are_guessed_by_rounding():
    """Of a column of twos and ones nobody guesses 1.3; half-way between two values nothing is told."""
    columns = (
        Column("children", "integer", low=0, high=4),
        Column("stage", "ordinal", categories=("early", "middle", "late")),
        Column("dose", "numeric", low=0, high=4),
    )
    original = np.array([[0.25, 0.5, 0.25], [0.25, 0.5, 0.25], [0.25, 1.0, 0.25]])
    guess = np.array([[0.36, 0.3, 0.36], [0.375, 0.75, 0.375], [0.12, 0.76, 0.21]])
    found = breaches(original, guess, Encoding(Schema(columns)))
    assert found.tolist() == [[True, True, False], [False, False, False], [False, True, True]]


def test_worst_records_are_at_least_one_and_ties_keep_their_order():
    assert worst_records(np.array([0.1, 0.9, 0.9, 0.2]), share=0.5).tolist() == [1, 2]
    assert worst_records(np.array([0.1, 0.3]), share=0.001).tolist() == [1]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_auc_with_ties_against_scikit_learn(members, others):
    truth = [1] * len(members) + [0] * len(others)
    assert auc(members, others) == pytest.approx(roc_auc_score(truth, members + others))


def test_the_auc_interval_covers_and_is_not_too_wide():
    """Normal scores one deviation apart: the true AUC is Phi(1/sqrt 2); 95% of intervals hold it."""
    rng, true = np.random.default_rng(0), stats.norm.cdf(1 / np.sqrt(2))
    intervals = [auc_interval(rng.normal(1, 1, 80), rng.normal(0, 1, 120)) for _ in range(600)]
    covered = np.mean([low <= true <= high for low, high in intervals])
    assert 0.92 <= covered <= 0.97
    spread = np.std([(low + high) / 2 for low, high in intervals])
    assert np.mean([high - low for low, high in intervals]) == pytest.approx(2 * 1.96 * spread, rel=0.1)


def test_the_auc_within_classes_counts_pairs_of_one_class():
    """Against all pairs one by one; one class is the ordinary AUC; intervals of many small classes hold the truth."""
    rng, true = np.random.default_rng(1), stats.norm.cdf(1 / np.sqrt(2))
    members, scores, classes = np.arange(60) < 35, rng.integers(0, 9, 60).astype(float), rng.integers(0, 7, 60)
    pairs = [
        (scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j])
        for i in np.flatnonzero(members)
        for j in np.flatnonzero(~members)
        if classes[i] == classes[j]
    ]
    assert auc_within(scores, members, classes)[0] == pytest.approx(np.mean(pairs))
    area, interval = auc_within(scores, members, np.zeros(60))
    assert area == pytest.approx(auc(scores[members], scores[~members]))
    assert_allclose(interval, auc_interval(scores[members], scores[~members]))
    found = []
    for _ in range(400):
        classes = rng.integers(0, 40, 200)
        members = rng.random(200) < 0.6
        found.append(auc_within(rng.normal(size=200) + members + 5.0 * classes, members, classes)[1])
    assert 0.92 <= np.mean([low <= true <= high for low, high in found]) <= 0.98
    assert np.mean([high - low for low, high in found]) < 0.4


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (10, 10), (3, 17), (500, 1000)])
def test_wilsons_interval_against_scipy(hits, trials):
    theirs = stats.binomtest(hits, trials).proportion_ci(method="wilson")
    assert_allclose(proportion_interval(hits, trials), (theirs.low, theirs.high), atol=1e-12)


def test_the_interval_of_a_mean_against_the_normal_formula_and_at_the_ends():
    values = np.random.default_rng(0).random(400)
    low, high = mean_interval(values)
    assert_allclose((low + high) / 2, values.mean())
    assert_allclose(high - low, 2 * 1.959964 * stats.sem(values), rtol=1e-6)
    assert mean_interval(np.ones(50)) == proportion_interval(50, 50)
    assert mean_interval(np.zeros(50)).high > 0


def test_rises_and_falls_are_definition_1():
    prior, after = np.array([0.05, 0.05, 0.6, 0.6]), np.array([[0.5, 0.4, 0.05, 0.2]])
    assert rises(prior, after, 0.1, 0.5).tolist() == [[True, False, False, False]]
    assert falls(prior, after, 0.1, 0.5).tolist() == [[False, False, True, False]]


def test_only_beliefs_that_move_the_right_way_count():
    properties = (Property("high", 0, 0, 0.9, np.inf), Property("low", 0, 0, -np.inf, 0.6))
    guess = Posteriors(np.array([0.1, 0.6]), np.array([[0.8, 0.05], [0.8, 0.9]]), properties)
    moved, could = privacy.belief_moves(guess, truths(properties, np.array([[0.95], [0.3]])))
    assert moved.tolist() == [[True, True], [False, False]]
    assert could.tolist() == [[True, True], [False, False]]
