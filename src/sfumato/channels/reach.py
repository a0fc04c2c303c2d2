"""How far out a released cell can lie: what the stated channels could have made of any value of the domain.

What lies further out than that was not made by the mechanism, or by a chance of at most `FALSE_ALARMS` for all cells of
an honest release together: each of its n noised cells may use up ``FALSE_ALARMS / n`` of it, half on each side. Bounded
noise (uniform, Epanechnikov) gives a hard interval, which an honest cell never leaves; so do mechanisms without noise.

Where a law's tail reaches too far to tell honest cells from forged ones (Student's t), cells are not refused. Whoever
learns from such a release takes them at the end of the interval, as robust statistics does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.array_types import Flags, Matrix
from sfumato.channels.base import Reached
from sfumato.channels.bits import Bit
from sfumato.channels.recipe import Recipe
from sfumato.table import Group

FALSE_ALARMS = 1e-9
"""Honest releases in which some cell is called impossible, at most."""
ROUNDING = 1e-6
"""What grids and doubles add to an interval, as a share of its length."""


@dataclass(frozen=True)
class Reach:
    """Lowest and highest possible value of every column of the release matrix, and the written column behind it.

    `checked` is False where a law's tail gives no useful bound; `left_out`: cells may be not reported (NaN); `bits`:
    cells are 0 or 1 and nothing between.
    """

    low: Matrix
    high: Matrix
    names: tuple[str, ...]
    checked: Flags
    left_out: Flags
    bits: bool = False

    @classmethod
    def of(cls, recipe: Recipe, rows: int, false_alarms: float = FALSE_ALARMS) -> Reach:
        """From the recipe alone; what the release was made from is not needed."""
        noised = sum(not channel.is_exact for channel in recipe.channels)
        chance = false_alarms / max(1, rows * noised)
        low, high = recipe.map.ranges(recipe.encoding, false_alarms)
        ends = np.column_stack([np.zeros(recipe.width), np.ones(recipe.width)])  # categories and "missing"
        checked, left_out = np.ones(recipe.width, dtype=bool), np.zeros(recipe.width, dtype=bool)
        for place, channel in zip(recipe.places, recipe.channels, strict=True):
            left_out[place] = channel.leaves_out
            for column in range(place.start, place.start + channel.numbers):
                found = channel.reach(float(low[column]), float(high[column]), chance)
                ends[column], checked[column] = found[:2], found.bounded
        if recipe.is_columnwise:
            names = tuple(group.column.name for group in recipe.encoding.groups for _ in range(group.width))
            for group in recipe.encoding.groups:
                ends[group.start] = _rounded(ends[group.start], group)
        else:
            names = tuple(recipe.names())
            ends += np.outer(ROUNDING * (ends[:, 1] - ends[:, 0] + 1.0), [-1.0, 1.0])
        bits = all(isinstance(channel, Bit) for channel in recipe.channels)
        return cls(ends[:, 0], ends[:, 1], names, checked, left_out, bits)

    def outside(self, matrix: Matrix) -> list[tuple[int, str]]:
        """Row numbers, from 0, and columns of cells that this noise cannot have made."""
        far = ~((matrix >= self.low) & (matrix <= self.high)) & self.checked & ~(np.isnan(matrix) & self.left_out)
        if self.bits:
            far |= (matrix != 0.0) & (matrix != 1.0)
        return [(int(row), self.names[column]) for row, column in np.argwhere(far)]


def _rounded(span: Matrix, group: Group) -> tuple[float, float]:
    """Room for grids, doubles, and whole numbers that were rounded to."""
    if group.is_onehot or group.is_constant or not math.isfinite(span[1] - span[0]):
        return float(span[0]), float(span[1])
    low, high = (float(bound) for bound in group.column.bounds)
    doubles = 8 * float(np.spacing(max(abs(low), abs(high)))) + (0.0 if group.column.kind == "numeric" else 0.5)
    slack = ROUNDING * (span[1] - span[0]) + doubles / (high - low)
    return float(span[0] - slack), float(span[1] + slack)


__all__ = ["FALSE_ALARMS", "Reach", "Reached"]
