"""The guess that is best for the score: the middle of the window that holds most of what the adversary believes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sfumato.core.array_types import Codes, Matrix
from sfumato.table import Group
from sfumato.table.neighbours.arrays import Arrays

TOLERANCE = 0.05
"""A number counts as guessed within this share of the column's range."""
WHOLE_STEPS = ("integer", "ordinal", "date")
AS_GOOD = 1e-6
"""Windows whose mass differs by no more are equally good; the one nearest to the mean is taken."""


def half_step(group: Group) -> float:
    """Half the distance of neighbouring values over the range; 0 where values lie as close as they like."""
    if group.is_constant or group.column.kind not in WHOLE_STEPS:
        return 0.0
    low, high = group.column.bounds
    return 0.5 / (high - low)


def half_width(group: Group, tolerance: float) -> float:
    """How far from a number a guess may lie and count as right: adversaries round where only whole steps occur.

    A speck is given or taken, so that rounding does not decide.
    """
    return max(tolerance + 1e-9, half_step(group) - 1e-9)


class Windowed(NamedTuple):
    """A guess for every row, and how much is believed to lie within the window about it."""

    guess: Matrix
    mass: Matrix


def window_ends(values: Matrix, half: float, extent: float) -> Codes:
    """Of the window that begins at each value, the last value inside."""
    last = np.searchsorted(values, values + (2.0 * half - extent) * (1 + 1e-12), "right") - 1
    return np.maximum(last, np.arange(len(values)))


def best_window(values: Matrix, mass: Matrix, half: float, extent: float = 0.0) -> Windowed:
    """Per row of `mass` (n x values) the middle of the window of half width `half` that holds most.

    `values` ascend; each stands for all numbers within half an `extent` of it, which must lie inside all of them.
    """
    last = window_ends(values, half, extent)
    total = np.cumsum(mass, axis=1)
    before = np.concatenate([np.zeros((len(mass), 1), dtype=total.dtype), total[:, :-1]], axis=1)
    held = total[:, last] - before
    middles = 0.5 * (values + values[last])
    most = held.max(axis=1, keepdims=True)
    mean = mass @ values / np.maximum(total[:, -1], 1e-300)
    away = np.where(held >= most * (1.0 - AS_GOOD), np.abs(middles - mean[:, None]), np.inf)
    best = away.argmin(axis=1)
    return Windowed(middles[best], held[np.arange(len(held)), best])


# The best window on a card or another array library, and where rounding could have chosen another.


def device_window(
    arrays: Arrays, values: Matrix, mass: Any, half: float, extent: float, nearly: float
) -> tuple[Any, Any, Any]:
    """As `window.best_window`, and where no other window holds as much but for a share `nearly`."""
    xp = arrays.namespace
    last = window_ends(values, half, extent)
    total = xp.cumsum(mass, axis=1)
    held = total[:, arrays.put(last)] - total + mass
    middles = arrays.put(0.5 * (values + values[last]))
    most = xp.amax(held, axis=1)
    mean = mass @ arrays.put(values) / xp.where(total[:, -1] > 0, total[:, -1], 1e-300)
    away = xp.where(held >= (most * (1.0 - AS_GOOD))[:, None], abs(middles[None, :] - mean[:, None]), np.inf)
    clear = (held >= (most * (1.0 - nearly))[:, None]).sum(axis=1) == 1
    return middles[xp.argmin(away, axis=1)], most, clear
