"""The distribution of one column within every class, before noise: from all parts of a release together.

Numbers are reconstructed (`sfumato.reconstruction`), categories are freed from randomized response by the inverse of
its matrix. All classes share the same cells. A class with fewer than `FEWEST` released values is given the
distribution of all rows: of so few nothing can be said, and its column then speaks neither for nor against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.classifiers.label_noise import project_to_simplex
from sfumato.classifiers.release_columns import ReleaseColumn
from sfumato.errors import TableError
from sfumato.reconstruction import Cells, Density, ExpectationMaximization, Options, invert_response
from sfumato.reconstruction.counting import cells_of
from sfumato.reconstruction.described import Described
from sfumato.reconstruction.evidence import FEWEST, Method
from sfumato.reconstruction.reconstruct import check_same_column, reconstruct_numbers

Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]

FEW_INTERVALS, MANY_INTERVALS = 10, 60
METHOD: Method = ExpectationMaximization(smooth=True)
"""Smoothed iteration: steady on the few rows of a class, and quick; see docs/classifiers.md."""


@dataclass(frozen=True)
class Slice:
    """The rows of one part: its column, matrix rows and class codes (as seen)."""

    column: ReleaseColumn
    Z: Matrix
    y: Codes


@dataclass(frozen=True)
class ClassDensities:
    """`mass` (classes x cells, or classes x categories) and `missing`, the share of empty cells in every class.

    `overall` and `overall_missing` are the same of all rows together. `cells` is None for a categorical column.
    """

    mass: Matrix
    missing: Matrix
    overall: Matrix
    overall_missing: float
    cells: Cells | None

    def unmixed(self, seen_prior: Matrix, response: Matrix) -> ClassDensities:
        """Of true classes, from those of labels as seen: seen = T true, for the joint probabilities of every cell."""
        joint = np.linalg.solve(response, seen_prior[:, None] * self.mass)
        empty = np.linalg.solve(response, seen_prior * self.missing)
        prior = np.linalg.solve(response, seen_prior)
        known = prior > 1e-9
        mass = np.repeat(self.overall[None, :], len(prior), axis=0)
        mass[known] = project_to_simplex(joint[known] / prior[known, None])
        missing = np.full(len(prior), self.overall_missing)
        missing[known] = np.clip(empty[known] / prior[known], 0.0, 1.0)
        return ClassDensities(mass, missing, self.overall, self.overall_missing, self.cells)


def intervals_for(rows: int, wanted: int | None = None) -> int:
    """Cells of a numeric column: about 2 n^(1/3), between 10 and 60, unless so many are wanted."""
    if wanted is not None:
        return wanted
    return int(np.clip(np.ceil(2.0 * rows ** (1 / 3)), FEW_INTERVALS, MANY_INTERVALS))


def class_densities(
    parts: Sequence[Slice], classes: int, *, method: Method = METHOD, intervals: int | None = None
) -> ClassDensities | None:
    """The column within every class; None for a column that is constant."""
    described = [part.column.described for part in parts]
    if any(one is None for one in described):
        return None
    check_same_column([one for one in described if one is not None])
    if parts[0].column.is_categorical:
        return _shares(parts, classes)
    with threadpool_limits(1, user_api="blas"):
        return _numbers(parts, classes, method, intervals_for(sum(len(part.Z) for part in parts), intervals))


def _shares(parts: Sequence[Slice], classes: int) -> ClassDensities:
    """Shares of categories in every class; parts weigh by their rows."""

    def of(code: int | None) -> Matrix | None:
        found, weights = [], []
        for part in parts:
            rows = part.column.codes(part.Z if code is None else part.Z[part.y == code])
            counts = np.bincount(rows, minlength=part.column.stop - part.column.start).astype(np.float64)
            assert part.column.described is not None
            if counts.sum() > 0:
                found.append(invert_response(counts, part.column.described.keep))
                weights.append(counts.sum())
        if sum(weights) < (1 if code is None else FEWEST):
            return None
        return np.asarray(np.average(found, axis=0, weights=weights))

    overall = of(None)
    assert overall is not None
    found = [of(code) for code in range(classes)]
    mass = np.array([overall if one is None else one for one in found])
    return ClassDensities(mass, np.zeros(classes), overall, 0.0, None)


def _numbers(parts: Sequence[Slice], classes: int, method: Method, intervals: int) -> ClassDensities:
    name = parts[0].column.described.name if parts[0].column.described else ""
    values = [part.column.values(part.Z) for part in parts]
    every = [np.ones(len(v), dtype=bool) for v in values]
    pooled = _density(parts, values, every, method, Options(bins=intervals, resamples=0))
    if pooled is None:
        raise TableError(
            f"Column {name!r} shows fewer than {FEWEST} different values in every part: nothing can be learned from it."
        )
    support = float(pooled.cells.edges[0]), float(pooled.cells.edges[-1])
    options = Options(bins=intervals, support=support, resamples=0)
    mass = np.repeat(pooled.mass[None, :], classes, axis=0)
    missing = np.full(classes, pooled.missing)
    for code in range(classes):
        one = _density(parts, values, [part.y == code for part in parts], method, options)
        if one is not None:
            mass[code], missing[code] = one.mass, one.missing
    return ClassDensities(mass, missing, pooled.mass, pooled.missing, pooled.cells)


def _density(
    parts: Sequence[Slice],
    values: Sequence[Matrix],
    mine: Sequence[NDArray[np.bool_]],
    method: Method,
    options: Options,
) -> Density | None:
    """One estimate from the chosen rows of all parts that show enough of them; None where none does.

    Parts with noise make one joint estimate; parts that were released as they are count directly, by their rows.
    """
    chosen = [v[rows] for v, rows in zip(values, mine, strict=True)]
    noisy: list[tuple[Matrix, Described]] = []
    plain: list[tuple[Matrix, Described]] = []
    for part, shown in zip(parts, chosen, strict=True):
        assert part.column.described is not None
        known = part.column.described.noise is None
        if int((~np.isnan(shown)).sum()) >= (1 if known else FEWEST):
            (plain if known else noisy).append((shown, part.column.described))
    if options.support is None and plain:  # what is seen exactly may fill the whole range
        options = _with_support(options, [described for _, described in (*noisy, *plain)])
    densities = []
    if usable := [pair for pair in noisy if not _flat(pair[0])]:
        densities.append(reconstruct_numbers([v for v, _ in usable], [d for _, d in usable], method, options))
    if plain:
        densities.append(_histogram([v for v, _ in plain], [d for _, d in plain], options))
    if len(densities) < 2:
        return densities[0] if densities else None
    first, weights = densities[0], [float(density.rows) for density in densities]
    return Density(
        first.name,
        first.cells,
        np.average([density.mass for density in densities], axis=0, weights=weights),
        rows=int(sum(weights)),
        missing=float(np.average([density.missing for density in densities], weights=weights)),
    )


def _flat(shown: Matrix) -> bool:
    """All released values equal, as whole numbers under the weakest noise may be: nothing to reconstruct from."""
    return bool(np.nanmin(shown) == np.nanmax(shown))


def _with_support(options: Options, described: Sequence[Described]) -> Options:
    support = min(one.low for one in described), max(one.high for one in described)
    return Options(bins=options.bins, support=support, resamples=0)


def _histogram(values: Sequence[Matrix], described: Sequence[Described], options: Options) -> Density:
    """Values without noise; those beyond the range (of a release that was not clipped) count at its ends."""
    low, high = options.support or (described[0].low, described[0].high)
    cells = cells_of(described[0], low, high, options.bins)
    together = np.concatenate(values)
    shown = np.clip(together[~np.isnan(together)], cells.edges[0], cells.edges[-1])
    counts = np.histogram(shown, cells.edges)[0]
    empty = 1.0 - len(shown) / len(together)
    return Density(described[0].name, cells, counts / len(shown), rows=len(together), missing=empty)
