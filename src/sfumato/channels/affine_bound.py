"""Epsilons of Laplace noise behind an affine map ``z = A x + c + noise``.

Two records x, x' differ by ``delta``; component i of the release then moves by ``a_i . delta``, and independent
Laplace noise of scales ``t_i`` has likelihood ratio at most ``exp(sum_i |a_i . delta| / t_i)``, which is attained.
The domain is a product over source columns of convex sets given by their extreme points (an interval, an interval
with a "missing" corner, the corners of a one-hot group), and the exponent is convex in delta, so

* one source column g:  ``max over its corners p, q of  sum_i |a_ig . (p - q)| / t_i``;
* the record:  ``max over sigma in {-1, 1}^s of  sum_g h_g(u_g)``, ``u = sum_i sigma_i a_i / t_i``, where
  ``h_g(u) = max_p u.p - min_q u.q`` is the support function of the column's differences
  (for [0,1] columns this is the infinity-to-1 norm of diag(1/t) A). Up to `ENUMERABLE` components every sigma is tried,
  so the figure is exact; beyond, it is a certified upper bound, 2 to 10% above what is attained (see `certificate`).

When scores are clipped to widths ``w_i``, no component moves by more than ``w_i``: the record is then also
bounded by ``sum_i w_i / t_i`` (s / b in the paper's notation). ``min(|.|, w_i)`` is not convex: from "missing" to a
value the furthest point can lie inside the interval, where a component reaches its width (`_moves_to_missing`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.array_types import Matrix
from sfumato.channels.base import Epsilons
from sfumato.channels.certificate import certified_bound
from sfumato.table import Group

ENUMERABLE = 18
"""Largest number of components whose 2^(s-1) sign vectors are enumerated (a second of work)."""

ROUND_UP = 1 + 1e-10
EPSILON = 2.3e-16
"""Sums of products are rounded; the stated epsilon is rounded up by more than that error. A sum of n products errs by
at most n 2^-52 times the sum of their absolute values, which counts where they cancel."""


def component_ranges(matrix: Matrix, groups: Sequence[Group]) -> tuple[Matrix, Matrix]:
    """Lowest and highest value that every component ``a_i . x`` can take over the domain."""
    low, high = np.zeros(len(matrix)), np.zeros(len(matrix))
    for group in groups:
        corners = matrix[:, group.start : group.stop] @ group.vertices.T
        low += corners.min(axis=1)
        high += corners.max(axis=1)
    return low, high


def affine_epsilons(matrix: Matrix, scales: Matrix, widths: Matrix, groups: Sequence[Group]) -> Epsilons:
    """Epsilons of Laplace noise of `scales` on components clipped to intervals of `widths`."""
    columns = [_column_epsilon(matrix, scales, widths, group) for group in groups]
    per_component = widths / scales
    low, high = component_ranges(matrix, groups)
    clips = bool(np.any(widths < (high - low) * (1 - 1e-9)))
    most = float(per_component.sum())
    rounding = EPSILON * sum(matrix.shape) * float((np.abs(matrix) / scales[:, None]).sum())
    if _separable(matrix, groups):
        record, exact = sum(columns), not clips
    elif len(matrix) <= ENUMERABLE:
        record, exact = _enumerate_signs(matrix / scales[:, None], groups), not clips
    else:
        record, exact = certified_bound(matrix / scales[:, None], groups), False
    return Epsilons(
        component=float(per_component.max()),
        column=max(columns) * ROUND_UP + rounding,
        record=min(min(record, sum(columns)) + rounding, most) * ROUND_UP,
        exact=exact,
    )


def _column_epsilon(matrix: Matrix, scales: Matrix, widths: Matrix, group: Group) -> float:
    """The most that one source column can change the log-likelihood, its components clipped to their widths."""
    moves = _corner_moves(matrix, group)
    if group.has_indicator and not group.is_constant and np.any(moves > widths[:, None]):
        moves = np.hstack([moves, _moves_to_missing(matrix, widths, group)])
    return float((np.minimum(moves, widths[:, None]) / scales[:, None]).sum(axis=0).max(initial=0.0))


def _moves_to_missing(matrix: Matrix, widths: Matrix, group: Group) -> Matrix:
    """Moves from the "missing" corner (.5, 1) to the values v at which a component just reaches its width.

    ``sum_i min(|a_i (v - .5) - m_i|, w_i) / t_i`` is piecewise linear in v, and concave only at these points: its
    maximum lies at one of them or at an end of [0, 1].
    """
    value, missing = matrix[:, group.start], matrix[:, group.stop - 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        kinks = 0.5 + np.concatenate([missing - widths, missing + widths]) / np.concatenate([value, value])
    kinks = kinks[(kinks > 0) & (kinks < 1)]
    return np.abs(np.outer(value, kinks - 0.5) - missing[:, None])


def _corner_moves(matrix: Matrix, group: Group) -> Matrix:
    """|a_ig . (p - q)| for every component i and every pair of corners p, q of one source column."""
    corners = matrix[:, group.start : group.stop] @ group.vertices.T
    first, second = np.triu_indices(corners.shape[1], k=1)
    return np.abs(corners[:, first] - corners[:, second])


def _separable(matrix: Matrix, groups: Sequence[Group]) -> bool:
    """Whether no component depends on two source columns: the record is then the sum of its columns."""
    touched = [np.any(matrix[:, group.start : group.stop] != 0, axis=1) for group in groups]
    return bool(np.all(np.sum(touched, axis=0) <= 1))


def _enumerate_signs(scaled: Matrix, groups: Sequence[Group], block: int = 1 << 12) -> float:
    """Max over sign vectors; sigma and -sigma give the same value, so the last sign stays +1."""
    components = len(scaled)
    count = 1 << (components - 1)
    best = 0.0
    for start in range(0, count, block):
        number = np.arange(start, min(start + block, count), dtype=np.int64)
        signs = 1.0 - 2.0 * ((number[:, None] >> np.arange(components)) & 1)
        u = signs @ scaled
        value = np.zeros(len(u))
        for group in groups:
            corners = u[:, group.start : group.stop] @ group.vertices.T
            value += corners.max(axis=1) - corners.min(axis=1)
        best = max(best, float(value.max()))
    return best
