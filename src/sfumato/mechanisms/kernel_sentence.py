"""What a card says of rows that were drawn from kernels, in the place of a guarantee."""

from __future__ import annotations

import math
from collections.abc import Collection

from sfumato.mechanisms.kernel_shapes import KERNELS

NO_GUARANTEE = (
    "Every row lies within {near} of a real person, and there is no guarantee for the record: a released row is "
    "somebody's row with each number moved by {moved}, where h is the bandwidth that this card states for the column "
    "and class. {categories}A person may be drawn several times, or not at all."
)
NEAR = {True: "h", False: "a few h"}
MOVED = {
    True: "at most h, with certainty",
    False: "normal noise of standard deviation h (within 3 h in 997 of 1,000 cases)",
}
SHARED = (
    "Columns share their noise (a bandwidth that is a matrix): a column's h is the length of its weights, and "
    "combinations of columns in which the class varies little are moved little. "
)
PER_DRAW = "Categories and empty cells are kept with the stated probability; the resulting bound holds per draw only. "


def sentence(kernels: Collection[str], has_categories: bool, shared: bool) -> str:
    """`shared`: columns share their noise, so that no column's own bandwidth bounds it."""
    bounded = all(KERNELS[kernel].bounded for kernel in kernels) and not shared
    moved = MOVED[bounded]
    if shared:
        spread = max(math.sqrt(KERNELS[kernel].variance) for kernel in kernels)
        moved = f"noise of a standard deviation of up to {spread:.2f} h"
    return NO_GUARANTEE.format(
        near=NEAR[bounded],
        moved=moved,
        categories=(SHARED if shared else "") + (PER_DRAW if has_categories else ""),
    )
