"""Statistics add up like one pass, in any order, and survive JSON."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from sfumato.table.statistics import Moments, Statistics


def tables(rows=st.integers(2, 40), width=st.integers(1, 5)):
    shape = st.tuples(rows, width)
    return arrays(np.float64, shape, elements=st.floats(-1e3, 1e3, allow_nan=False, width=32))


@given(tables(), st.integers(0, 40))
def test_moments_merge_like_one_pass(X, cut):
    merged, whole = Moments.of(X[:cut]) + Moments.of(X[cut:]), Moments.of(X)
    assert merged.n == whole.n
    assert_allclose(merged.mean, whole.mean, atol=1e-9)
    assert_allclose(merged.covariance(), np.cov(X, rowvar=False).reshape(X.shape[1], -1), atol=1e-6, rtol=1e-9)
    assert_allclose([merged.low, merged.high], [X.min(0), X.max(0)])


@given(tables(), st.data())
def test_statistics_by_class_merge_in_any_order(X, data):
    y = data.draw(arrays(np.int64, len(X), elements=st.integers(0, 3)))
    order = data.draw(st.permutations(range(len(X))))
    cut = len(X) // 2
    left, right = Statistics.of(X[order[:cut]], y[order[:cut]]), Statistics.of(X[order[cut:]], y[order[cut:]])
    whole = Statistics.of(X, y)
    assert set(left + right) == set(whole) == set(right + left)
    for code in whole:
        assert_allclose((right + left)[code].scatter, whole[code].scatter, atol=1e-6, rtol=1e-9)
    assert_allclose((left + right).total.covariance(), Moments.of(X).covariance(), atol=1e-6, rtol=1e-9)


def test_a_large_mean_costs_no_digits():
    """The naive sum of squares loses everything at mean 1e8; centred blocks do not."""
    X = 1e8 + np.random.default_rng(0).normal(size=(10_000, 2))
    blocks = [Moments.of(part) for part in np.array_split(X, 7)]
    total = sum(blocks[1:], blocks[0])
    assert_allclose(total.covariance(), np.cov(X, rowvar=False), rtol=1e-6)


def test_no_rows_add_nothing_and_widths_must_agree():
    some = Statistics.of(np.eye(3))
    assert_allclose((Statistics.empty(3) + some).total.mean, some.total.mean)
    with pytest.raises(ValueError, match="2 and 3 columns"):
        Moments.empty(2) + Moments.empty(3)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("mean", [0.0, 20.0, 1e3, 1e5])
def test_moments_by_tiles_keep_their_digits_however_rows_lie_in_memory(mean, order):
    """Several tiles and a rest; a mean of 20 spreads is subtracted from squares, larger ones from the rows."""
    rng = np.random.default_rng(4)
    spread = rng.normal(size=(7001, 40))
    X = np.asarray(np.round(spread * 2**16) / 2**16 + mean, order=order)  # exact sums: the truth is known
    exact = X - mean
    found = Moments.of(X)
    assert_allclose(found.covariance(), np.cov(exact.T), rtol=0, atol=1e-11)
    assert_allclose(found.mean - mean, exact.mean(axis=0), rtol=0, atol=1e-14 * max(mean, 1) * 10)
    assert (found.low == X.min(axis=0)).all()
    assert (found.high == X.max(axis=0)).all()


def test_a_column_that_grows_late_is_centred_after_all():
    """The first rows promise a small mean, the others break it."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(4000, 3))
    X[256:, 1] = 1e6 + 1e-3 * X[256:, 1]
    whole, apart = Moments.of(X), Moments.of(X[:256]) + Moments.of(X[256:])
    assert_allclose(whole.scatter, apart.scatter, rtol=1e-9)


def test_a_constant_column_has_no_variance():
    X = np.column_stack([np.full(3000, 0.1), np.linspace(0, 1, 3000)])
    assert Moments.of(X).scatter[0].tolist() == pytest.approx([0, 0], abs=1e-12)
