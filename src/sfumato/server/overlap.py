"""How many rows two releases share, and how many would coincide by chance.

Rows of continuous columns with noise never coincide; rows of a few categories do, in honest releases of different
people. How often can be read off each release: the share of its rows that occur in it more than once estimates the
chance that another row drawn from the same people is among them [Good 1953]. What is shared beyond that, and beyond
what counting so few rows leaves open, is shown to the study's owner: somebody pushed the same rows twice, or tests
with rows that models are trained on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.server.validation.row_identity import Sketch

DEVIATIONS = 4.0
"""Standard deviations beyond what is expected: fewer than one honest pair of releases in ten thousand is shown."""


@dataclass(frozen=True)
class Overlap:
    """The share of rows of the one and of the other release that occur in both, and what chance would give."""

    mine: float
    theirs: float
    expected: float
    beyond_chance: bool


def overlap(mine: Sketch, theirs: Sketch) -> Overlap:
    """Estimated from the rows with small hashes, which both sketches know completely; exact for small releases."""
    a, b = _known_to_both(mine, theirs)
    shared_a, shared_b = np.isin(a["hash"], b["hash"]), np.isin(b["hash"], a["hash"])
    expected = max(_twins(mine), _twins(theirs))
    shares = _share(a, shared_a), _share(b, shared_b)
    beyond = any(
        share > expected + DEVIATIONS * math.sqrt((expected * (1 - expected) + 1 / rows) / rows)
        for share, rows in zip(shares, (len(a), len(b)), strict=True)
        if rows
    )
    return Overlap(*shares, expected, beyond)


def _known_to_both(mine: Sketch, theirs: Sketch) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """Up to the smaller of the largest hashes, each sketch holds every row of its release."""
    ends = [one.entries["hash"][-1] for one in (mine, theirs) if not one.whole and len(one.entries)]
    end = min(ends, default=np.uint64(2**64 - 1))
    a, b = mine.entries, theirs.entries
    return a[a["hash"] <= end], b[b["hash"] <= end]


def _share(entries: NDArray[np.void], chosen: NDArray[np.bool_]) -> float:
    """By rows, not by different rows."""
    rows = int(entries["times"].sum(dtype=np.int64))
    return int(entries["times"][chosen].sum(dtype=np.int64)) / rows if rows else 0.0


def _twins(sketch: Sketch) -> float:
    return _share(sketch.entries, sketch.entries["times"] > 1)
