"""Edges of a number's bins, found by halving: each step splits every interval near its median, privately.

The score of a split after fine cell k is -|2 c - m| with c rows of the interval up to k and m rows in all: one record
changes it by 1. The intervals of one level are disjoint, so a level costs one choice whatever their number.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sfumato.array_types import Codes
from sfumato.central.budget import Chooser


def halved(fine: Codes, depth: int, chooser: Chooser) -> list[int]:
    """First fine cells of all bins but the first, after `depth` levels."""
    return sorted(set(quantiles(fine, depth, chooser)) - {len(fine)})


def quantiles(fine: Codes, depth: int, chooser: Chooser) -> list[int]:
    """The 2^depth - 1 splits in order: one that could not be made, for want of cells, is the end of its interval."""
    bounds = [0, len(fine)]
    for _ in range(depth):
        found = [bounds[0]]
        for low, high in pairwise(bounds):
            middle = high
            if high - low >= 2:
                below = np.cumsum(fine[low:high])
                middle = low + 1 + chooser.choose(-np.abs(2 * below[:-1] - below[-1]))
            found += [middle, high]
        bounds = found
    return bounds[1:-1]
