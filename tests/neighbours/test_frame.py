"""The error bound must hold for every pair, also where it is hard: near duplicates, far from the origin."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.table.neighbours.tiles import Frame, as_query, error_bound, pair_squares


def _hard_points(columns: int, spread: float, offset: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(columns)
    rows = offset + spread * rng.standard_normal((40, columns))
    queries = np.concatenate([rows[:20] * (1 + 1e-9), offset + spread * rng.standard_normal((20, columns))])
    return queries, rows


def _exact_squares(queries: np.ndarray, rows: np.ndarray) -> list[list[Fraction]]:
    as_fractions = [[[Fraction(float(v)) for v in row] for row in table] for table in (queries, rows)]
    return [
        [sum(((x - y) ** 2 for x, y in zip(a, b, strict=True)), Fraction(0)) for b in as_fractions[1]]
        for a in as_fractions[0]
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("columns", "spread", "offset"), [(1, 1.0, 0.0), (3, 1e-3, 1e3), (60, 1e6, 1e6), (7, 1e-20, 0)]
)
def test_products_never_err_more_than_the_bound(dtype, columns, spread, offset):
    queries, rows = _hard_points(columns, spread, offset)
    frame = Frame.of(rows)
    scale = frame.scale_for(queries)
    a, b = frame.operand(queries, scale), frame.operand(rows, scale)
    product = as_query(a).astype(dtype) @ b.astype(dtype).T
    bound = error_bound(columns, a[:, columns].max(), b[:, columns].max(), dtype)
    unit = Fraction(scale) ** 2
    worst = max(
        abs(Fraction(float(product[i, j])) - unit * exact)
        for i, line in enumerate(_exact_squares(queries, rows))
        for j, exact in enumerate(line)
    )
    assert worst <= bound
    # A bound that is never approached would screen nothing: the errors reach at least a thousandth of it.
    assert worst >= bound / 5_000


def test_pair_squares_are_zero_only_for_equal_rows():
    rows = np.array([[1e6, 1.0], [1e6 + 1e-9, 1.0]])
    assert pair_squares(rows, rows, np.array([0, 0]), np.array([0, 1])).tolist() == [0.0, (1e6 + 1e-9 - 1e6) ** 2]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad):
    with pytest.raises(ValueError, match="NaN, infinity"):
        Frame.of(np.array([[0.0], [bad]]))
    with pytest.raises(ValueError, match="Queries contain NaN"):
        Frame.of(np.array([[0.0]])).scale_for(np.array([[bad]]))
