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
value the furthest point can lie inside the interval, where a component reaches its width (`column_epsilon`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.channels.base import Epsilons
from sfumato.core.array_types import Codes, Matrix
from sfumato.table import Group

# A certified bound on the record's epsilon where there are too many components to try every vector of signs.
#
# Wanted is the largest ``|B delta|_1`` over all differences delta of two records, ``B = diag(1/t) A`` (`affine`); with
# signs sigma, the largest ``sigma' B delta``. For *any* positive weights u of the components and v of the encoded
# columns
#
#     sigma' B delta  =  (u^1/2 sigma)' M (v^1/2 delta)  <=  sqrt(sum u) sqrt(nu(v)) |M|,     M = u^-1/2 B v^-1/2,
#
# by Cauchy and Schwarz, where ``|M|`` is the spectral norm and ``nu(v)`` bounds ``delta' diag(v) delta``. A record is a
# product of source columns, so nu adds up over them; a convex form is largest at a difference of two corners, which
# gives
#
# * a number: v;
# * a number that may be missing, corners (0, 0), (1, 0), (.5, 1), weights v and m:  max(v, v / 4 + m);
# * a constant that may be missing: m;  a constant: 0;
# * a category, whose difference is +1 in one slot and -1 in another: the two largest v.
#
# The slots of a category always change by 0 in all, so whatever is subtracted from all of a component's coefficients of
# one category changes nothing, and may be chosen to make the norm small: their mean with weights 1 / v.
#
# Good weights come from a fixed point. The smallest bound over all u, v is a semidefinite programme, dual to the
# largest ``sum_ij B_ij x_i . y_j`` over unit vectors x_i and vectors y_j that have the second moments of differences.
# Choosing the best y, then the best x, again and again, climbs to it, and the lengths of ``B y`` and ``B' x`` on the
# way are u and v [Wang, Chang & Kolter 2017]. None of this has to be trusted: all u, v > 0 give a bound, and the norm
# is verified.
UNIT = 2.0**-52
"""Twice the largest relative error of one operation: in ``n UNIT`` also terms of second order have their place."""

ROUNDS = 150
WORK = 4e9
"""Rounds of the fixed point, and floating-point operations after which large problems stop (a few seconds)."""

MOST_DIRECTIONS = 24
FAINTEST = 1e-9
"""Least weight, beside the largest: no column may be divided by nothing."""


def certified_bound(scaled: Matrix, groups: Sequence[Group]) -> float:
    """At least the largest ``|scaled delta|_1`` over differences of two records; `scaled` is taken as exact."""
    moving = _Moving(groups)
    B = np.ascontiguousarray(scaled[:, moving.columns])
    if not np.isfinite(B).all():
        return math.inf
    if not B.any():
        return 0.0
    rows = (B * B).sum(axis=1)
    plain = rows, np.ones(B.shape[1])  # for orthonormal rows: sqrt(d sum 1 / t_i^2)
    return min(_bound(B, u, v, moving) for u, v in (plain, _weights(B, moving)))


def _bound(B: Matrix, u: Matrix, v: Matrix, moving: _Moving) -> float:
    """The certificate of weights u, v, whatever they are: everything is rounded up.

    The weights are *defined* as ``1 / left^2`` and ``1 / right^2`` of doubles left and right: no root is inexact.
    """
    with np.errstate(all="ignore"):
        left, right = 1 / np.sqrt(_positive(u)), 1 / np.sqrt(_positive(v))
        u, v = 1 / (left * left), 1 / (right * right)
        M = moving.centred(B, v) * left[:, None] * right
        bound = math.sqrt(float(u.sum())) * math.sqrt(moving.spread(v)) * norm_at_most(M)
    rounded = bound * (1 + (sum(B.shape) + 16) * UNIT)
    return rounded if math.isfinite(rounded) else math.inf


def norm_at_most(M: Matrix) -> float:
    """An upper bound on the spectral norm, proved in floating point; entries may have relative errors of 4 units.

    ``|M|^2 <= mu`` where ``mu I - G`` is positive semidefinite, G = M M' (or M' M). That is so, up to a known error, if
    its floating-point Cholesky decomposition runs to its end: then ``R' R = mu I - G + E``, ``|E| <= n UNIT trace``
    [Rump 2006; for any order of the sums]. G itself errs by at most ``k UNIT |M|_F^2``, k the length of its sums, and
    errors in the entries of M do no more. The margin tried first is what rounding alone can ask for.
    """
    short, long = sorted(M.shape)
    frobenius = float((M * M).sum()) * (1 + M.size * UNIT)
    if not math.isfinite(frobenius):
        return math.inf
    G = M @ M.T if len(M) == short else M.T @ M
    error = (long + 16) * UNIT * frobenius
    top = max(float(np.linalg.eigvalsh(G)[-1]), 0.0)
    proved, margin = frobenius, (short + 2) * UNIT * frobenius
    while (mu := top + margin) + error < frobenius:
        trace = short * mu
        try:
            np.linalg.cholesky(mu * np.eye(short) - G)
        except np.linalg.LinAlgError:
            margin *= 8
            continue
        proved = mu + (short + 4) * UNIT * trace + error
        break
    return math.sqrt(min(proved, frobenius + error)) * (1 + 4 * UNIT)


def _positive(weights: Matrix) -> Matrix:
    """Weights that can be divided by; what is no number gets the largest weight, which only loosens the bound."""
    largest = float(np.max(weights, where=np.isfinite(weights), initial=0.0)) or 1.0
    return np.clip(np.nan_to_num(weights, nan=largest, posinf=largest), FAINTEST * largest, largest)


def _weights(B: Matrix, moving: _Moving) -> tuple[Matrix, Matrix]:
    """u and v near the fixed point. The start is written down, not drawn: all machines find the same."""
    components, columns = B.shape
    directions = min(math.ceil(math.sqrt(2 * (components + columns))) + 1, MOST_DIRECTIONS)
    rounds = int(min(ROUNDS, max(5.0, WORK / (4 * B.size * directions))))
    # any start that favours no direction will do: angles in golden section
    X = np.cos(2.399963229728653 * np.outer(np.arange(1, components + 1), np.arange(1, directions + 1)))
    X /= np.sqrt((X * X).sum(axis=1))[:, None]
    v = np.ones(columns)
    for _ in range(rounds):
        G = B.T @ X
        v = _positive(moving.weights(moving.centred(G.T, v).T))
        Y = moving.centred(G.T, v).T / v[:, None]
        H = B @ Y
        u = _positive(np.sqrt((H * H).sum(axis=1)))
        X = H / u[:, None]
    return u, v


class _Moving:
    """The encoded columns that can change at all, in their order, and what belongs together among them."""

    def __init__(self, groups: Sequence[Group]):
        numbers = [group for group in groups if not group.is_onehot]
        # A number that cannot be missing, or the "missing" of a constant: the last column of both.
        alone = [group.stop - 1 for group in numbers if group.has_indicator == group.is_constant]
        pairs = [group for group in numbers if group.has_indicator and not group.is_constant]
        chosen = [group for group in groups if group.is_onehot and group.width > 1]
        both, slots = (
            [place for group in some for place in range(group.start, group.stop)] for some in (pairs, chosen)
        )
        self.columns: Codes = np.array([*alone, *both, *slots], dtype=np.int64)
        self._alone, self._slots = slice(0, len(alone)), slice(len(alone) + len(both), None)
        self._values = slice(len(alone), len(alone) + len(both), 2)
        self._missing = slice(len(alone) + 1, len(alone) + len(both), 2)
        self._sizes: Codes = np.array([group.width for group in chosen], dtype=np.int64)
        self._starts: Codes = np.cumsum(self._sizes) - self._sizes

    def spread(self, v: Matrix) -> float:
        """nu(v): at least ``delta' diag(v) delta`` for every difference delta."""
        value, missing, slots = v[self._values], v[self._missing], v[self._slots]
        total = float(v[self._alone].sum()) + float(np.maximum(value, value / 4 + missing).sum())
        ends = np.split(slots, self._starts[1:]) if len(self._sizes) else []
        return total + math.fsum(float(np.sort(part)[-2:].sum()) for part in ends)

    def centred(self, rows: Matrix, v: Matrix) -> Matrix:
        """Rows of coefficients, less in every category their mean with weights 1 / v."""
        if not len(self._sizes):
            return rows
        inverse = 1 / v[self._slots]
        means = np.add.reduceat(rows[:, self._slots] * inverse, self._starts, axis=1)
        means /= np.add.reduceat(inverse, self._starts)
        out = rows.copy()
        out[:, self._slots] -= np.repeat(means, self._sizes, axis=1)
        return out

    def weights(self, G: Matrix) -> Matrix:
        """v where ``sum_j y_j . G_j`` is largest, y_j being ``G_j / v_j``: the multipliers of what y_j may be."""
        square: Matrix = (G * G).sum(axis=1)
        v: Matrix = np.sqrt(square)
        value, missing = square[self._values], square[self._missing]
        if len(value):  # |y|^2 is 1 - 3 d / 4 of the value and d of "missing", 0 <= d <= 1
            with np.errstate(all="ignore"):
                share = np.nan_to_num(np.minimum(missing / (0.75 * missing + 0.5625 * value), 1.0))
                v[self._values] = np.sqrt(value / (1 - 0.75 * share))
                v[self._missing] = np.where(share > 0, np.sqrt(missing / share), 0.75 * v[self._values])
        if len(self._sizes):  # |y|^2 is at most 1 in one slot and 2 in all of them
            part = square[self._slots]
            whole, top = np.add.reduceat(part, self._starts), np.maximum.reduceat(part, self._starts)
            whole, top = np.repeat(whole, self._sizes), np.repeat(top, self._sizes)
            rest = np.sqrt(np.where(top <= whole / 2, whole / 2, whole - top))
            v[self._slots] = np.where((top > whole / 2) & (part == top), np.sqrt(top), rest)
        return v


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
    columns = [column_epsilon(matrix, scales, widths, group) for group in groups]
    per_component = widths / scales
    low, high = component_ranges(matrix, groups)
    clips = bool(np.any(widths < (high - low) * (1 - 1e-9)))
    most = float(per_component.sum())
    rounding = EPSILON * sum(matrix.shape) * float((np.abs(matrix) / scales[:, None]).sum())
    touched = [np.any(matrix[:, group.start : group.stop] != 0, axis=1) for group in groups]
    if np.all(np.sum(touched, axis=0) <= 1):  # no component depends on two source columns
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


def column_epsilon(matrix: Matrix, scales: Matrix, widths: Matrix, group: Group) -> float:
    """The most that one source column can change the log-likelihood, its components clipped to their widths."""
    corners = matrix[:, group.start : group.stop] @ group.vertices.T
    first, second = np.triu_indices(corners.shape[1], k=1)
    moves = np.abs(corners[:, first] - corners[:, second])  # of every component, between every two corners
    if group.has_indicator and not group.is_constant and np.any(moves > widths[:, None]):
        # From the "missing" corner (.5, 1) to the values v at which a component just reaches its width:
        # ``sum_i min(|a_i (v - .5) - m_i|, w_i) / t_i`` is piecewise linear in v, and concave only at these points.
        # Its maximum lies at one of them or at an end of [0, 1].
        value, missing = matrix[:, group.start], matrix[:, group.stop - 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            kinks = 0.5 + np.concatenate([missing - widths, missing + widths]) / np.concatenate([value, value])
        kinks = kinks[(kinks > 0) & (kinks < 1)]
        moves = np.hstack([moves, np.abs(np.outer(value, kinks - 0.5) - missing[:, None])])
    return float((np.minimum(moves, widths[:, None]) / scales[:, None]).sum(axis=0).max(initial=0.0))


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
