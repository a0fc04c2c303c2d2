from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from sfumato.table.neighbours.nearest import nearest, nearest_without
from sfumato.table.neighbours.tiles import Placed


def brute_force(queries, rows, k):
    """Direct differences, ties by lowest index: the definition."""
    squares = ((queries[:, None, :] - rows[None]) ** 2).sum(axis=2)
    index = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return np.sqrt(np.take_along_axis(squares, index, axis=1)), index


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("among_them", [False, True])
def test_nearest_is_brute_force(k, among_them, workers):
    rng = np.random.default_rng(k)
    rows = rng.standard_normal((1_300, 4))
    queries = rows if among_them else rng.standard_normal((400, 4))
    distances, indices = nearest(queries, rows, k, workers=workers)
    expected, index = brute_force(queries, rows, k)
    assert (indices == index).all()
    np.testing.assert_allclose(distances, expected, rtol=1e-14)


@pytest.mark.parametrize("k", [1, 3])
def test_rows_that_were_laid_out_in_another_order_have_the_same_nearest(k):
    """Many rows lie on each query, so that the order in which they are met would show; asked twice, and further out."""
    rng = np.random.default_rng(1)
    rows, order = rng.integers(0, 3, (3_000, 4)) / 10, rng.permutation(3_000)
    placed = Placed(rows, order=order, keep=True)
    for queries in (rows[:50], rows[:50] + 0.05, 100 * rows[:50]):
        for mine, plain in zip(nearest(queries, rows, k, placed=placed), nearest(queries, rows, k), strict=True):
            assert (mine == plain).all()


@pytest.mark.parametrize("k", [1, 3])
def test_ties_go_to_the_lowest_index(k):
    """On a lattice nearly every distance is tied, and rounding of products would pick any of them."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, (1_500, 5)) / 10
    expected, index = brute_force(rows, rows, k)
    distances, indices = nearest(rows, rows, k)
    assert (indices == index).all()
    assert distances == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("k", [1, 4])
def test_groups_of_columns_are_left_out_as_if_they_were_not_there(k):
    rng = np.random.default_rng(1)
    groups = [slice(0, 1), slice(1, 5), slice(5, 7), slice(7, 8)]
    wide = np.array([1e6, 1, 1, 1, 1, 1, 1, 1e-6])  # one column outweighs all others, whose products then say little
    for rows in (rng.standard_normal((2_300, 8)), rng.integers(0, 3, (1_500, 8)) / 10, rng.random((1_100, 8)) * wide):
        queries = rows[:300] + 0.1
        for group, found in zip(groups, nearest_without(queries, rows, groups, k), strict=True):
            expected = nearest(np.delete(queries, group, axis=1), np.delete(rows, group, axis=1), k)
            assert all((one == other).all() for one, other in zip(found, expected, strict=True))


def test_close_rows_far_from_the_origin_are_told_apart():
    rng = np.random.default_rng(2)
    rows = 1e8 + np.concatenate([1e-3 * rng.standard_normal((1_500, 3)), [[1e6, 0, 0]]])
    queries = rows[:200] + 1e-5
    _, indices = nearest(queries, rows)
    assert (indices == brute_force(queries, rows, 1)[1]).all()


def test_identical_rows_are_found_at_distance_zero():
    rows = np.tile([[0.1, 0.2]], (1_200, 1))
    distances, indices = nearest(rows[:5], rows, k=2)
    assert (distances == 0).all()
    assert indices.tolist() == [[0, 1]] * 5


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 6), st.sampled_from([1e-150, 1e-3, 1.0, 1e12]))
def test_answers_do_not_depend_on_the_other_queries(seed, n, d, unit):
    rng = np.random.default_rng(seed)
    rows, queries = unit * rng.standard_normal((n, d)).round(1), unit * rng.standard_normal((9, d)).round(1)
    together = nearest(queries, rows, k=min(3, n))
    for i in range(9):
        alone = nearest(queries[i : i + 1], rows, k=min(3, n))
        assert (alone[0] == together[0][i]).all()
        assert (alone[1] == together[1][i]).all()


def test_threads_of_blas_are_restored_after_overlapping_calls():
    before = [pool["num_threads"] for pool in threadpool_info()]
    X = np.random.default_rng(3).standard_normal((1_500, 3))
    calls = [threading.Thread(target=nearest, args=(X, X), kwargs={"workers": 2}) for _ in range(4)]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    assert [pool["num_threads"] for pool in threadpool_info()] == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 0}, "'k' parameter"),
        ({"k": 5}, "between 1 and 4"),
        ({"queries": np.zeros((2, 3))}, "columns of the rows"),
        ({"workers": 0}, "'workers' parameter"),
    ],
)
def test_wrong_arguments_are_named(change, words):
    arguments = {"queries": np.zeros((4, 2)), "rows": np.zeros((4, 2))} | change
    with pytest.raises(ValueError, match=words):
        nearest(**arguments)
