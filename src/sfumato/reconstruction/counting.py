"""From released values and what the card says of them to the parts and cells that a method works on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from sfumato.core.errors import TableError
from sfumato.core.wording import counted
from sfumato.reconstruction.bins import Bins
from sfumato.reconstruction.described import Described
from sfumato.reconstruction.evidence import FEWEST, TAIL, Part
from sfumato.reconstruction.kernel import Cells


def z_range(one: Described, low: float, high: float) -> tuple[float, float]:
    """Where released values are placed: all that bounded noise can reach, all but the tails of unbounded noise."""
    if one.noise is None:
        return low, high
    x = np.linspace(low, high, 513)
    lows, highs = one.noise.span(x)
    tails = one.noise.span(x, TAIL)
    first = float(lows.min()) if np.isfinite(lows.min()) else float(tails[0].min())
    last = float(highs.max()) if np.isfinite(highs.max()) else float(tails[1].max())
    return first - one.grid, last + one.grid


def count_values(values: Any, one: Described, low: float, high: float) -> Bins:
    """Counts of an array, of an iterator over arrays (read once), or counts that were made already."""
    if isinstance(values, Bins):
        return values
    first, last = z_range(one, low, high)
    if isinstance(values, Iterator):
        return Bins.over(first, last).of(values)
    try:
        array = np.asarray(values, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise TableError(f"Column {one.name!r} is numeric, but its values are not. The release was changed.") from None
    shown = array[np.isfinite(array)]  # infinite ones are refused once they are counted
    if len(shown) >= FEWEST and shown.min() < shown.max():  # a finer grid than the noise's whole reach
        middle = np.clip([shown.min(), shown.max()], first, last)
        first, last = (float(middle[0]), float(middle[1])) if middle[0] < middle[1] else (first, last)
    return Bins.over(first, last).of(array)


def check_empty(bins: Bins, one: Described) -> None:
    """Empty cells are a kind of answer only where something says so; else they were made by whoever changed it."""
    if bins.empty and one.missing_keep is None and not one.left_out:
        raise TableError(
            f"Column {one.name!r} of the release has {counted(bins.empty, 'empty cell')}, and its card does not "
            "say that cells can be missing there: the release was changed or damaged. Get it again from whoever made "
            "it."
        )


def part_of(bins: Bins, one: Described) -> Part:
    """The counts with their noise, and how many of them stand in for missing values."""
    assert one.noise is not None
    missing = missing_share(bins, one)
    shown = bins.n / max(1, bins.n + bins.empty)
    hidden = (1.0 - (one.missing_keep or 1.0)) * missing / shown if shown > 0 else 0.0
    return Part(bins, one.noise, min(hidden, 0.95), 0.5 * (one.low + one.high), one.name)


def rows_of(bins: Bins, one: Described) -> int:
    """Rows that say something of the column: all, or those that report it."""
    return bins.n if one.left_out else bins.n + bins.empty


def missing_share(bins: Bins, one: Described) -> float:
    """Of the people, by the inverse of the randomized "missing": told = keep m + (1 - keep) (1 - m)."""
    if one.missing_keep is None or bins.n + bins.empty == 0:
        return 0.0
    told = bins.empty / (bins.n + bins.empty)
    if one.missing_keep >= 1.0:
        return told
    return float(np.clip((told - (1.0 - one.missing_keep)) / (2.0 * one.missing_keep - 1.0), 0.0, 1.0))


def possible_range(parts: Iterable[Part], low: float, high: float) -> tuple[float, float]:
    """The part of the declared range from which some released value can have come."""
    x = np.linspace(low, high, 2001)
    met = np.zeros(len(x), dtype=bool)
    for part in parts:
        ends = part.noise.span(x, TAIL)
        met |= (ends[0] <= part.bins.most) & (ends[1] >= part.bins.least)
    found = np.flatnonzero(met)
    return (float(x[found[0]]), float(x[found[-1]])) if len(found) > 1 else (low, high)


def cells_of(one: Described, low: float, high: float, bins: int) -> Cells:
    """Even cells; one per whole number where those are few, and cells of equally many where they are not many more."""
    if not one.whole:
        return Cells.even(low, high, bins)
    first, last = int(np.ceil(low - 1e-9)), int(np.floor(high + 1e-9))
    numbers = last - first + 1
    if 1 < numbers <= bins:
        return Cells.whole(first, last)
    if numbers < 20 * bins:
        fitting = [count for count in range(bins // 2, bins + bins // 2 + 1) if numbers % count == 0]
        if fitting:
            return Cells.even(first - 0.5, last + 0.5, min(fitting, key=lambda count: abs(count - bins)))
    return Cells.even(low, high, bins)
