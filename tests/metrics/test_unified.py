from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sfumato.attacks.base import Bounds, Values
from sfumato.attacks.metrics.privacy import column_privacy, component_privacy, nearest_row_privacy, unified_privacy
from sfumato.attacks.metrics.score import gains, score_guess, usual_interval
from sfumato.attacks.metrics.scored import Truth
from sfumato.table import Column, Encoding, Schema


def test_weights_by_hand():
    """Mean 1: equal weights change nothing. Published: sum 1, which multiplies by the number of columns."""
    p = [0.1, 0.2, 0.6]
    assert unified_privacy(p) == pytest.approx((0.1, 0.3))
    assert unified_privacy(p, [2, 2, 2]) == pytest.approx((0.1, 0.3))
    assert unified_privacy(p, [2, 2, 2], published=True) == pytest.approx((0.3, 0.9))
    # A column that matters twice as much counts as half as private: w = (.75, .75, 1.5)
    assert unified_privacy(p, [1, 1, 2]) == pytest.approx((0.1 / 0.75, (0.1 / 0.75 + 0.2 / 0.75 + 0.4) / 3))


def test_constant_columns_hide_nothing_and_do_not_count():
    X = np.column_stack([np.linspace(0, 1, 50), np.full(50, 0.3)])
    found = column_privacy(X, X * 0, Encoding.unit(2))
    assert found[0] == pytest.approx(X[:, 0].var())
    assert np.isnan(found[1])
    assert unified_privacy(found).minimum == found[0]
    assert np.isnan(unified_privacy([np.nan]).average)


def test_a_guess_worse_than_the_mean_is_capped_unless_published():
    X = np.random.default_rng(0).random((500, 2))
    own = X.var(axis=0)
    assert_allclose(column_privacy(X, 1 - X, Encoding.unit(2)), own)
    assert_allclose(column_privacy(X, 1 - X, Encoding.unit(2), cap=False), 4 * own)


def test_categories_count_half_their_slots_and_missing_numbers_do_not_count():
    columns = (
        Column("colour", "categorical", categories=("red", "green")),
        Column("b", "numeric", low=0, high=1, missing=True),
    )
    encoding = Encoding(Schema(columns))
    X = np.array([[1, 0, 0.2, 0], [0, 1, 0.8, 0], [1, 0, 0.5, 1], [0, 1, 0.5, 1]])
    guess = np.column_stack([np.full((4, 2), 0.5), [0.2, 0.8, 0.0, 1.0], np.zeros(4)])
    assert_allclose(column_privacy(X, guess, encoding), [0.25, 0.0], atol=1e-12)


def test_orderings_of_components_by_brute_force():
    rng = np.random.default_rng(1)
    X = rng.random((300, 4))
    C = X @ rng.normal(size=(4, 4))
    C = (C - C.mean(axis=0)) / C.std(axis=0)
    for published in (True, False):
        minima, averages = [], []
        for order in permutations(range(4)):
            sigma = []
            for i, j in enumerate(order):
                x = X[:, i]
                scale = 1.0 if published else x.std()
                vod = min(np.var(sign * scale * C[:, j] - x) for sign in (-1, 1))
                sigma.append(np.sqrt(vod if published else min(vod, x.var())))
            minima.append(min(sigma))
            averages.append(np.mean(sigma))
        found = component_privacy(X, C, published=published)
        assert found.minimum == pytest.approx(min(minima))
        if published:  # the ordering with the lowest minimum: 3! of 4! have it
            likeliest = np.isclose(minima, min(minima))
            assert likeliest.sum() == 6
            assert found.average == pytest.approx(np.array(averages)[likeliest].mean())
            assert found.average > min(averages) + 0.01
        else:
            assert found.average <= min(averages) + 1e-12


def test_published_ica_figures_call_a_perfect_recovery_private():
    """A balanced 0/1 column, recovered exactly, scores .50 as published and 0 when measured properly."""
    x = (np.arange(1000) % 2).astype(float)[:, None]
    component = (x - 0.5) * 2
    assert component_privacy(x, -component, published=True).minimum == pytest.approx(0.5)
    assert component_privacy(x, -component).minimum == pytest.approx(0, abs=1e-7)


def test_fewer_components_than_columns_leave_the_mean():
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.random((200, 2)), np.full(200, 0.5)])
    found = component_privacy(X, X[:, :1])
    assert found.minimum == pytest.approx(0, abs=1e-7)
    assert found.average == pytest.approx(X[:, 1].std() / 2)
    assert np.isnan(component_privacy(X[:, 2:], X[:, :1]).minimum)


def test_as_published_columns_in_excess_of_the_components_are_left_out():
    """Three columns, two components: of the six ways to pair them, two hold the smallest entry."""
    rng = np.random.default_rng(3)
    X, C = rng.random((200, 3)), rng.normal(size=(200, 2))
    C = (C - C.mean(axis=0)) / C.std(axis=0)
    sigma = np.array([[min(np.std(sign * C[:, j] - X[:, i]) for sign in (-1, 1)) for j in range(2)] for i in range(3)])
    ways = np.array([[sigma[i, 0], sigma[j, 1]] for i, j in permutations(range(3), 2)])
    likeliest = ways[np.isclose(ways.min(axis=1), ways.min())]
    assert len(likeliest) == 2
    assert component_privacy(X, C, published=True) == pytest.approx((ways.min(), likeliest.mean()))


def test_weights_of_components():
    X = np.random.default_rng(2).random((200, 2))
    plain, weighted = component_privacy(X, X[:, :1] * 0), component_privacy(X, X[:, :1] * 0, [1, 3])
    assert plain.average == pytest.approx(X.std(axis=0).mean())
    assert weighted.average == pytest.approx((X[:, 0].std() / 0.5 + X[:, 1].std() / 1.5) / 2)


def test_the_nearest_original_row_measures_condensation():
    X = np.random.default_rng(0).random((300, 3))
    assert nearest_row_privacy(X, X) == (0, 0)
    near, far = (nearest_row_privacy(X, X + s * np.random.default_rng(1).normal(size=X.shape)) for s in (0.01, 0.05))
    assert 0.005 < near.minimum <= near.average < 0.015
    assert near.average < far.average
    assert nearest_row_privacy(np.column_stack([X, X[:, 0] * 0]), np.column_stack([X + 0.1, X[:, 0] * 0])).minimum == 0


def test_every_guess_of_values_reports_unified_privacy_with_the_weights_of_the_schema():
    encoding = Encoding(
        Schema((Column("a", "numeric", low=0, high=1, weight=3.0), Column("b", "numeric", low=0, high=1)))
    )
    X = np.random.default_rng(0).random((400, 2))
    details = score_guess(Values(np.full_like(X, 0.5), details={"runs": 2.0}), Truth(X, encoding, rows=X)).details
    a, b = X.var(axis=0)
    assert details["unified_min"] == pytest.approx(min(a / 1.5, b / 0.5))
    assert details["unified_avg"] == pytest.approx((a / 1.5 + b / 0.5) / 2)
    assert details["sigma_min"] == pytest.approx(np.sqrt(min(a, b)))
    assert details["runs"] == 2


def test_intervals_are_scored_by_what_they_leave_out():
    X = np.array([[0.2], [0.5], [0.9]])
    guess = Bounds(np.array([[0.1], [0.5], [0.0]]), np.array([[0.3], [0.5], [0.5]]), 0)
    result = score_guess(guess, Truth(X, Encoding.unit(1), rows=X, targets=X))
    assert result.score == pytest.approx((0.8 + 1.0 + 0.0) / 3), "a wrong interval tells nothing"
    assert result.details["bounds_hold"] == pytest.approx(2 / 3)
    assert result.baseline <= 1


def test_the_usual_interval_is_the_best_for_everybody():
    values = np.concatenate([np.full(80, 0.4), np.random.default_rng(0).random(20)])[:, None]
    low, high = usual_interval(values, Encoding.unit(1).groups[0])
    assert (low, high) == (0.4, 0.4)
    assert gains(values, low, high)[0].mean() >= 0.8
