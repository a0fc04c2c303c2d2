"""How many components to keep: a count, a part of them, a share of the variance, or what noise leaves of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sfumato.array_types import Matrix
from sfumato.channels.affine_bound import affine_epsilons, component_ranges
from sfumato.errors import UsageError
from sfumato.mechanisms.base import count_of
from sfumato.mechanisms.basis import Basis
from sfumato.table import Group

NOISE_AWARE = "noise-aware"
PATIENCE = 3
"""Counts in a row that may be worse than the best one before the search ends."""


def component_count(
    wanted: int | float | str | None,
    basis: Basis,
    groups: Sequence[Group],
    effort: Matrix,
    epsilon: float | None,
    rows: int,
) -> int:
    """The count that `wanted` means for this basis; `epsilon` is what the components may spend together."""
    if not isinstance(wanted, str):
        return count_of(wanted, len(basis.matrix), "principal-laplace")
    if wanted != NOISE_AWARE and not _is_percentage(wanted):
        raise UsageError(
            "The 'components' parameter of principal-laplace must be a count (2), a fraction in (0, 1] (0.5), a share "
            f"of the variance (90%) or {NOISE_AWARE}. Got {wanted!r} instead."
        )
    if basis.variances is None or not basis.variances.any():
        if basis.variances is None:
            raise UsageError(
                f"components={wanted} needs to know how much rows vary along each component, and this basis does not "
                "say. Take the principal components of public rows (--basis-from), basis=private, or give a count."
            )
        return 1  # nothing stands out: the leading direction is as good as any
    if wanted == NOISE_AWARE:
        if epsilon is None:
            raise UsageError(f"components={NOISE_AWARE} weighs components against a wanted epsilon. Give one.")
        return noise_aware(basis.matrix, basis.variances, groups, effort, epsilon, rows)
    shares = np.cumsum(basis.variances) / basis.variances.sum()
    return int(np.searchsorted(shares, float(wanted[:-1]) / 100 - 1e-12) + 1)


def noise_aware(
    matrix: Matrix, variances: Matrix, groups: Sequence[Group], effort: Matrix, epsilon: float, rows: int
) -> int:
    """The count with which so many rows together tell most of the variance.

    Of a component of variance v under noise of variance n, N rows tell the variance up to a standard error of
    ``e = (v + n) sqrt(2 / N)``; it counts for ``v^2 / (v + e)``. Every further component takes epsilon from the others,
    whose noise grows. Only what stands on the card is looked at.
    """
    best, most, error = 1, -1.0, math.sqrt(2.0 / max(rows, 2))
    for count in range(1, len(matrix) + 1):
        if count - best > PATIENCE or (count > 1 and variances[count - 1] <= 0):
            break
        kept = matrix[:count]
        low, high = component_ranges(kept, groups)
        widths = np.where(high > low, high - low, 1.0)
        b = affine_epsilons(kept, widths * effort[:count], widths, groups).record / epsilon
        spread = variances[:count] + 2.0 * (b * widths * effort[:count]) ** 2
        told = float((variances[:count] ** 2 / np.maximum(variances[:count] + error * spread, 1e-300)).sum())
        if told > most:
            best, most = count, told
    return best


def _is_percentage(text: str) -> bool:
    try:
        return text.endswith("%") and 0 < float(text[:-1]) <= 100
    except ValueError:
        return False
