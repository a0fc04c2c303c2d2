"""The distribution of one column within every class, before noise: from all parts of a release together.

Numbers are reconstructed (`sfumato.reconstruction`), categories are freed from randomized response by the inverse of
its matrix. All classes share the same cells. A class with fewer than `FEWEST` released values is given the
distribution of all rows: of so few nothing can be said, and its column then speaks neither for nor against it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.classifiers.release_columns import ReleaseColumn
from sfumato.classifiers.smoothed_iteration import Estimates, Grouped, UnsettledWarning, smoothed, warn_unsettled
from sfumato.reconstruction import Cells, ConvergenceError, Options, invert_response
from sfumato.reconstruction.counting import cells_of
from sfumato.reconstruction.evidence import FEWEST, Method
from sfumato.reconstruction.reconstruct import check_same_column, reconstruct_numbers
from sfumato.reconstruction.shares import onto_simplex

FEW_INTERVALS, MANY_INTERVALS = 10, 60


@dataclass(frozen=True)
class Slice:
    """The rows of one part: its column, matrix rows and class codes (as seen)."""

    column: ReleaseColumn
    Z: Matrix
    y: Codes

    def reported(self) -> Slice:
        """The rows that report the column: the others say nothing of it."""
        there = self.column.reported(self.Z)
        return self if there.all() else Slice(self.column, self.Z[there], self.y[there])


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
        mass[known] = onto_simplex(joint[known] / prior[known, None])
        missing = np.full(len(prior), self.overall_missing)
        missing[known] = np.clip(empty[known] / prior[known], 0.0, 1.0)
        return ClassDensities(mass, missing, self.overall, self.overall_missing, self.cells)


def intervals_for(rows: int, wanted: int | None = None) -> int:
    """Cells of a numeric column: about 2 n^(1/3), between 10 and 60, unless so many are wanted."""
    if wanted is not None:
        return wanted
    return int(np.clip(np.ceil(2.0 * rows ** (1 / 3)), FEW_INTERVALS, MANY_INTERVALS))


def class_densities(
    parts: Sequence[Slice], classes: int, *, method: Method | None = None, intervals: int | None = None
) -> ClassDensities | None:
    """The column within every class; None for a column that is constant, or shows hardly a value.

    Without a `method`, by the smoothed iteration: steady on the few rows of a class, and quick.
    """
    described = [part.column.described for part in parts]
    if any(one is None for one in described):
        return None
    check_same_column([one for one in described if one is not None])
    parts = [part.reported() for part in parts]
    if parts[0].column.is_categorical:
        return _shares(parts, classes)
    return _numbers(parts, classes, method, intervals_for(sum(len(part.Z) for part in parts), intervals))


def _shares(parts: Sequence[Slice], classes: int) -> ClassDensities | None:
    """Shares of categories in every class; parts weigh by their precision. None if no row reports the column."""

    def of(code: int | None) -> Matrix | None:
        counts, keeps = [], []
        for part in parts:
            rows = part.column.codes(part.Z if code is None else part.Z[part.y == code])
            assert part.column.described is not None
            counts.append(np.bincount(rows, minlength=part.column.stop - part.column.start))
            keeps.append(part.column.described.keep)
        if np.sum(counts) < (1 if code is None else FEWEST):
            return None
        return invert_response(counts, keeps)

    overall = of(None)
    if overall is None:
        return None
    found = [of(code) for code in range(classes)]
    mass = np.array([overall if one is None else one for one in found])
    return ClassDensities(mass, np.zeros(classes), overall, 0.0, None)


def _numbers(parts: Sequence[Slice], classes: int, method: Method | None, intervals: int) -> ClassDensities | None:
    """None where noise leaves too few values to say anything of the column: it is left out."""
    noisy: list[Grouped] = []
    plain: list[Grouped] = []
    for part in parts:
        assert part.column.described is not None
        known = part.column.described.noise is None
        (plain if known else noisy).append(Grouped(part.column.values(part.Z), part.y, part.column.described))
    if noisy and sum(int(np.count_nonzero(~np.isnan(one.values))) for one in noisy) < FEWEST:
        noisy = []  # as if it had not been released: a column that few people report
    if not (noisy or plain):
        return None
    support = None
    if plain:  # what is seen exactly may fill the whole range
        described = [one.described for one in (*noisy, *plain)]
        support = min(one.low for one in described), max(one.high for one in described)
    found = []
    if noisy:
        way = smoothed if method is None else partial(one_by_one, method=method)
        found.append(way(noisy, classes, intervals, support))
    if plain:
        assert support is not None
        found.append(histograms(plain, classes, intervals, support))
    return _combined(found)


def _combined(found: Sequence[Estimates]) -> ClassDensities:
    """Parts with noise and parts without weigh by their values; classes with too few values are as all rows are."""
    shown = np.sum([one.shown for one in found], axis=0)
    rows = np.sum([one.rows for one in found], axis=0)
    mass = np.sum([one.shown[:, None] * one.mass for one in found], axis=0) / np.maximum(shown, 1e-9)[:, None]
    missing = np.sum([one.rows * one.missing for one in found], axis=0) / np.maximum(rows, 1e-9)
    few = shown < FEWEST
    mass[few], missing[few] = mass[0], missing[0]
    return ClassDensities(mass[1:], missing[1:], mass[0], float(missing[0]), found[0].cells)


def one_by_one(
    parts: Sequence[Grouped], classes: int, intervals: int, support: tuple[float, float] | None, *, method: Method
) -> Estimates:
    """All rows, then every class, by any method of `sfumato.reconstruction`.

    Where it fails for a class, that class is like all rows; where it fails for these, the smoothed iteration serves.
    """
    described = [part.described for part in parts]
    options = Options(bins=intervals, support=support, atoms=False, resamples=0)
    settled = np.ones(classes + 1, dtype=bool)
    try:
        pooled = reconstruct_numbers([part.values for part in parts], described, method, options)
    except ConvergenceError:
        warnings.warn(
            f"Column {described[0].name!r}: the method {method.name} found no estimate. Smoothed "
            "expectation-maximization is used instead.",
            UnsettledWarning,
            stacklevel=2,
        )
        return smoothed(parts, classes, intervals, support)
    edges = pooled.cells.edges
    options = Options(bins=intervals, support=(float(edges[0]), float(edges[-1])), atoms=False, resamples=0)
    mass, missing = np.repeat(pooled.mass[None, :], classes + 1, axis=0), np.full(classes + 1, pooled.missing)
    shown, rows = np.zeros(classes + 1), np.zeros(classes + 1)
    for group in range(classes + 1):
        mine = [part.values if group == 0 else part.values[part.y == group - 1] for part in parts]
        present = [v[~np.isnan(v)] for v in mine]
        shown[group], rows[group] = sum(map(len, present)), sum(map(len, mine))
        usable = [n for n, v in enumerate(present) if len(v) >= FEWEST and v.min() < v.max()]
        if group and usable:
            try:
                one = reconstruct_numbers([mine[n] for n in usable], [described[n] for n in usable], method, options)
            except ConvergenceError:
                settled[group] = False
                continue
            mass[group], missing[group] = one.mass, one.missing
    if not settled.all():
        warn_unsettled(described[0].name, settled)
    return Estimates(pooled.cells, mass, missing, shown, rows)


def histograms(parts: Sequence[Grouped], classes: int, intervals: int, support: tuple[float, float]) -> Estimates:
    """Values without noise; those beyond the range (of a release that was not clipped) count at its ends."""
    cells = cells_of(parts[0].described, *support, intervals)
    values, y = np.concatenate([part.values for part in parts]), np.concatenate([part.y for part in parts])
    present = ~np.isnan(values)
    cell = np.clip(np.searchsorted(cells.edges, values[present], side="right") - 1, 0, cells.count - 1)
    table = np.bincount(y[present] * cells.count + cell, minlength=classes * cells.count).reshape(classes, -1)
    counts = np.vstack([table.sum(axis=0), table]).astype(np.float64)
    shown = counts.sum(axis=1)
    rows = np.concatenate([[len(y)], np.bincount(y, minlength=classes)]).astype(np.float64)
    mass = counts / np.maximum(shown, 1.0)[:, None]
    return Estimates(cells, mass, 1.0 - shown / np.maximum(rows, 1.0), np.maximum(shown, 1e-6), rows)
