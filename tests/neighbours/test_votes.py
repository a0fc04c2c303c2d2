from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.table.neighbours.tiles import pair_squares
from sfumato.table.neighbours.votes import radius_votes


def all_squares(queries, rows):
    """Every pair by the difference formula, which is what decides who lies on the circle."""
    query_at, row_at = np.divmod(np.arange(len(queries) * len(rows)), len(rows))
    return pair_squares(queries, rows, query_at, row_at).reshape(len(queries), len(rows))


def brute_force(queries, rows, codes, n_classes, squared_radius):
    squares = all_squares(queries, rows)
    inside = (squares <= squared_radius) & (squares > 0)
    weight = np.where(inside, 1 / np.where(squares > 0, squares, 1), 0)
    member = codes[:, None] == np.arange(n_classes)
    return weight @ member, (squares == 0).astype(int) @ member


@pytest.mark.parametrize("share", [0.0, 1e-4, 0.003, 0.02, 0.3, 0.95, 1.0])
@pytest.mark.parametrize("workers", [1, 2])
def test_votes_are_brute_force_whether_the_circle_is_empty_sparse_or_full(share, workers):
    rng = np.random.default_rng(5)
    centres = rng.uniform(-3, 3, (4, 6))
    codes = rng.integers(0, 4, 5_000)
    rows = centres[codes] + rng.standard_normal((5_000, 6))
    queries = np.concatenate([centres[rng.integers(0, 4, 290)] + rng.standard_normal((290, 6)), rows[:10]])
    squared_radius = np.quantile(all_squares(queries[:50], rows), share)
    heard = radius_votes(queries, rows, codes, 5, squared_radius, workers=workers)
    votes, exact = brute_force(queries, rows, codes, 5, squared_radius)
    np.testing.assert_allclose(heard.votes, votes, rtol=1e-8)
    assert (heard.exact == exact).all()
    assert not heard.votes[:, 4].any()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.sampled_from([0, 1, 2, 5, 9]), st.sampled_from([0.0, 1e6]))
def test_rows_exactly_on_the_radius_are_inside(seed, n, squared_radius, offset):
    """On an integer lattice many rows lie exactly on the circle; rounding must not decide."""
    rng = np.random.default_rng(seed)
    rows = offset + rng.integers(0, 4, (n, 2)).astype(float)
    queries = offset + rng.integers(0, 4, (7, 2)).astype(float)
    codes = rng.integers(0, 2, n)
    heard = radius_votes(queries, rows, codes, 2, squared_radius)
    votes, exact = brute_force(queries, rows, codes, 2, squared_radius)
    np.testing.assert_allclose(heard.votes, votes, rtol=1e-12)
    assert (heard.exact == exact).all()


def test_lattice_radius_in_full_tiles():
    """The same in the path that weighs whole tiles."""
    rng = np.random.default_rng(8)
    rows, queries = rng.integers(0, 4, (3_000, 3)) / 10, rng.integers(0, 4, (300, 3)) / 10
    codes = rng.integers(0, 2, 3_000)
    for squared_radius in (0.05, 0.09, 0.14):
        found = np.unique(all_squares(queries, rows))
        edge = found[np.searchsorted(found, squared_radius * 0.999)]
        heard = radius_votes(queries, rows, codes, 2, edge)
        np.testing.assert_allclose(heard.votes, brute_force(queries, rows, codes, 2, edge)[0], rtol=1e-9)


def test_negative_radius_holds_nothing():
    heard = radius_votes([[0.0]], [[0.0]], [0], 1, -1.0)
    assert heard.votes.sum() == heard.exact.sum() == 0


def test_infinite_radius_holds_everything():
    assert radius_votes([[0.0]], [[1.0], [2.0]], [0, 1], 2, np.inf).votes.tolist() == [[1.0, 0.25]]


def test_wrong_codes_are_refused():
    with pytest.raises(ValueError, match="one class per row"):
        radius_votes([[0.0]], [[0.0], [1.0]], [0], 1, 1.0)
    with pytest.raises(ValueError, match="between 0 and 0"):
        radius_votes([[0.0]], [[0.0], [1.0]], [0, 1], 1, 1.0)
