"""What a card says of rows that were drawn from kernels, in the place of a guarantee."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from sfumato.mechanisms.kernel_shapes import KERNELS

NO_GUARANTEE = (
    "Every row lies within {near} of a real person, and there is no guarantee for the record: a released row is "
    "somebody's row with each number moved by {moved}, where h is the bandwidth that this card states for the column "
    "and class. {categories}A person may be drawn several times, or not at all."
)
AT_MOST = "at most h, with certainty"
NORMAL = "normal noise of standard deviation h (within 3 h in 997 of 1,000 cases)"
SPREAD = "noise of a standard deviation of up to {:.2f} h"
SHARED = (
    "Columns share their noise (a bandwidth that is a matrix): a column's h is the length of its weights, and "
    "combinations of columns in which the class varies little are moved little. "
)
PER_DRAW = "Categories and empty cells are kept with the stated probability; the resulting bound holds per draw only. "
MOST_NAMED = 8


def sentence(kernels: Mapping[str, str], shared: Sequence[str], has_categories: bool) -> str:
    """`kernels` of the numbers, by name. Columns that are `shared` share their noise, so that no column's own bandwidth
    bounds it."""
    by_noise: dict[str, list[str]] = {}
    for name, kernel in kernels.items():
        by_noise.setdefault(_moved(kernel, name in shared), []).append(name)
    if len(by_noise) == 1:
        moved = next(iter(by_noise))
    else:
        moved = "; ".join(f"{noise}, in {_listed(names)}" for noise, names in by_noise.items())
    return NO_GUARANTEE.format(
        near="h" if list(by_noise) == [AT_MOST] else "a few h",
        moved=moved,
        categories=(SHARED if shared else "") + (PER_DRAW if has_categories else ""),
    )


def _moved(kernel: str, shares: bool) -> str:
    shape = KERNELS[kernel]
    if shares:
        return SPREAD.format(math.sqrt(shape.variance))
    return AT_MOST if shape.bounded else NORMAL


def _listed(names: Sequence[str]) -> str:
    shown = [*names] if len(names) <= MOST_NAMED else [*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))
