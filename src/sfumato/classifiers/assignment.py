"""Plain-looking training rows from a noisy release: values moved so that every column has its reconstructed law.

Agrawal & Srikant (2000): sort the released values of a column and give the smallest ones to the first interval, as
many as the reconstruction says, the next ones to the second, and so on. The r-th of n values so becomes the
(r - 1/2) / n quantile of the reconstructed distribution. Order is kept, and with it most of what the noise has left of
the columns' dependence. `by-class` does this within every class, `global` for all rows together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sfumato.classifiers.class_densities import METHOD, ClassDensities, Slice, class_densities
from sfumato.classifiers.reads_noise import Codes, Floats, Rows, slices
from sfumato.reconstruction import Cells, Density
from sfumato.reconstruction.evidence import Method

WAYS = ("by-class", "global")


def assigned(
    parts: Sequence[Rows],
    classes: int,
    rng: np.random.Generator,
    *,
    way: str = "by-class",
    method: Method = METHOD,
    intervals: int | None = None,
) -> Floats:
    """The rows of all parts, one part after the other, with assigned values in the encoding of plain rows."""
    stacked = np.concatenate([part.Z for part in parts])
    y = np.concatenate([part.y for part in parts])
    number = np.repeat(np.arange(len(parts)), [len(part.Z) for part in parts])
    if way == "global":
        y, classes = np.zeros_like(y), 1
        parts = [Rows(part.Z, np.zeros_like(part.y), part.source) for part in parts]
    for column in slices(parts):
        if not any(one.column.is_noisy for one in column):
            continue  # seen as it is: nothing to reconstruct, nothing to move
        found = class_densities(column, classes, method=method, intervals=intervals)
        if found is None:
            continue
        for code in range(classes):
            for place, one in enumerate(column):
                mine = np.flatnonzero((y == code) & (number == place))
                if len(mine) and one.column.is_noisy:
                    _move(stacked, mine, one, found, code, rng)
    return stacked


def _move(Z: Floats, rows: Codes, one: Slice, found: ClassDensities, code: int, rng: np.random.Generator) -> None:
    """Assign one column of the rows of one class in one part, in place."""
    column = one.column
    if found.cells is None:
        codes = moved_codes(column.codes(Z[rows]), found.mass[code], rng)
        Z[np.ix_(rows, np.arange(column.start, column.stop))] = np.eye(column.stop - column.start)[codes]
        return
    values, empty = column.values(Z[rows]), column.missing(Z[rows])
    if column.has_indicator:
        shares = np.array([1.0 - found.missing[code], found.missing[code]])
        empty = moved_codes(empty.astype(np.int64), shares, rng).astype(bool)
        Z[rows, column.stop - 1] = empty
    Z[rows[empty], column.start] = 0.5
    shown = ~empty
    if shown.any():
        raw = by_rank(_filled(values[shown], rng), found.cells, found.mass[code])
        Z[rows[shown], column.start] = column.encoded(raw)


def by_rank(values: Floats, cells: Cells, mass: Floats) -> Floats:
    """The r-th smallest of n values becomes the (r - 1/2) / n quantile; equal values share in their order of rows."""
    rank = np.empty(len(values))
    rank[np.argsort(values, kind="stable")] = np.arange(len(values)) + 0.5
    return Density("", cells, mass).quantiles(rank / len(values))


def _filled(values: Floats, rng: np.random.Generator) -> Floats:
    """Cells reported missing that are to have a value take the rank of another row's, at random."""
    hidden = np.isnan(values)
    if not hidden.any():
        return values
    known = values[~hidden]
    filled = values.copy()
    filled[hidden] = rng.choice(known, int(hidden.sum())) if len(known) else 0.0
    return filled


def moved_codes(codes: npt.NDArray[np.int64], shares: Floats, rng: np.random.Generator) -> Codes:
    """Codes with the wanted shares that differ from the given ones in as few rows as possible; which, is drawn."""
    wanted = np.floor(shares * len(codes) + 1e-9).astype(np.int64)
    rest = np.argsort(wanted - shares * len(codes), kind="stable")[: len(codes) - wanted.sum()]
    wanted[rest] += 1
    surplus = np.bincount(codes, minlength=len(shares)) - wanted
    order = rng.permutation(len(codes))
    by_code = order[np.argsort(codes[order], kind="stable")]  # rows of each code together, in random order
    place = np.arange(len(codes)) - np.searchsorted(codes[by_code], codes[by_code])
    leaving = rng.permutation(by_code[place < surplus[codes[by_code]]])
    moved = codes.copy()
    moved[leaving] = np.repeat(np.arange(len(shares)), np.maximum(-surplus, 0))
    return moved
