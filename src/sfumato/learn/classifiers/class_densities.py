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

from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.core.errors import CardError
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.release_columns import ReleaseColumn, columns_of_part
from sfumato.noise.response import onto_simplex
from sfumato.reconstruction.density import Density
from sfumato.reconstruction.evidence import FEWEST, Cells, Evidence, Method, Options
from sfumato.reconstruction.parzen_program import ConvergenceError
from sfumato.reconstruction.reconstruct import (
    Described,
    cells_of,
    check_same_column,
    count_values,
    missing_share,
    part_of,
    possible_range,
    reconstruct_numbers,
)
from sfumato.reconstruction.shares import invert_response

# Smoothed expectation-maximization for all classes of a column at once.
#
# The step is that of `ExpectationMaximization(smooth=True)`: Bayes' rule, then a running mean (1/4, 1/2, 1/4), until
# nothing changes. Classes share cells and noise, so one product of matrices serves all of them; fitted one by one they
# would take as many times as long.


POINTS = 100
_TOLERANCE = 1e-6
LONGEST = 5000
"""Steps of an iteration."""


class UnsettledWarning(UserWarning):
    """A reconstruction that did not settle; something safer stands in its place."""


@dataclass(frozen=True)
class Grouped:
    """One noisy part of a column: released values (NaN: reported missing) and, for every row, its class."""

    values: Matrix
    y: Codes
    described: Described

    @classmethod
    def of(cls, part: Slice) -> Grouped:
        assert part.column.described is not None
        return cls(part.column.values(part.Z), part.y, part.column.described)

    @property
    def shown(self) -> int:
        """How many rows show a value."""
        return int(np.count_nonzero(~np.isnan(self.values)))

    def of_class(self, code: int) -> Grouped:
        mine = self.y == code
        return Grouped(self.values[mine], self.y[mine], self.described)


@dataclass(frozen=True)
class Estimates:
    """Masses of the cells for all rows (first line) and every class, shares missing, and values shown in each."""

    cells: Cells
    mass: Matrix
    missing: Matrix
    shown: Matrix
    rows: Matrix


def smoothed(parts: Sequence[Grouped], classes: int, intervals: int, support: tuple[float, float] | None) -> Estimates:
    """Reconstruct a column in all rows and in every class, from all parts together."""
    low, high = support or _range_of(parts)
    counted = []
    for part in parts:
        one = part.described
        assert one.noise is not None
        one.noise.check(low, high, where=f"Column {one.name!r} (range {low:g} to {high:g})")
        bins = count_values(part.values, one, low, high)
        found = part_of(bins, one)
        if bins.n:
            found.check_possible(low, high, tolerance=1e-9 * (high - low) + one.grid)
            counted.append((part, found))
    if support is None:
        low, high = possible_range([found for _, found in counted], low, high)
    cells = cells_of(parts[0].described, low, high, intervals)
    points = max(POINTS, int(np.ceil(2.5 * cells.count)))
    evidence = [_Counts.of(part, Evidence.of(found, cells, points, 0.0), classes) for part, found in counted]
    shown = np.sum([one.counts.sum(axis=0) for one in evidence], axis=0)
    rows = np.sum([one.rows for one in evidence], axis=0)
    missing = np.sum([one.rows * one.missing for one in evidence], axis=0) / np.maximum(rows, 1.0)
    mass, settled = iterate(evidence, cells.count, shown)
    if not settled.all():
        warn_unsettled(parts[0].described.name, settled)
    return Estimates(cells, mass.T, missing, shown, rows)


@dataclass(frozen=True)
class _Counts:
    """Values of one part by z-cell (rows) and group (columns: all, then the classes), with the noise's matrix."""

    counts: Matrix
    spread: Matrix
    background: Matrix
    hidden: Matrix
    missing: Matrix
    rows: Matrix

    @classmethod
    def of(cls, part: Grouped, evidence: Evidence, classes: int) -> _Counts:
        present = ~np.isnan(part.values)
        cell = np.searchsorted(evidence.edges, part.values[present], side="right")
        size = len(evidence.edges) + 1
        table = np.bincount(cell * classes + part.y[present], minlength=size * classes).reshape(size, classes)
        counts = np.column_stack([table.sum(axis=1), table]).astype(np.float64)
        rows = np.concatenate([[len(part.y)], np.bincount(part.y, minlength=classes)]).astype(np.float64)
        told = 1.0 - counts.sum(axis=0) / np.maximum(rows, 1.0)
        keep, missing, hidden = part.described.missing_keep, np.zeros(classes + 1), np.zeros(classes + 1)
        if keep is not None:
            missing = told if keep >= 1.0 else np.clip((told - (1 - keep)) / (2 * keep - 1), 0.0, 1.0)
            hidden = np.minimum((1 - keep) * missing / np.maximum(1.0 - told, 1e-9), 0.95)
            missing[0] = missing_share(evidence.part.bins, part.described)
        return cls(counts, evidence.spread, evidence.background, hidden, missing, rows)


def iterate(parts: Sequence[_Counts], cells: int, total: Matrix) -> tuple[Matrix, Flags]:
    """Masses (cells x groups) that the smoothed step leaves as they are, and which groups have settled.

    The plain iteration creeps: its steps shrink slowly and all in one direction. Two steps tell the direction and how
    fast it dies out, so that one jump does the work of many (SQUAREM, Varadhan & Roland 2008, scheme S3). A jump that
    leaves the simplex is not made, and every jump is followed by a plain step: only that step can end the iteration.

    A class that has not settled in time is taken to be like all rows, and so speaks neither for nor against itself. If
    these have not settled, the last step is what there is: a distribution in any case.
    """
    mass = np.full((cells, len(total)), 1.0 / cells)
    settled = np.zeros(len(total), dtype=bool)
    for _ in range(LONGEST // 3):
        first = _step(parts, mass)
        second = _step(parts, first)
        settled = np.abs(second - first).sum(axis=0) < _TOLERANCE
        if settled.all():
            return second, settled
        move = first - mass
        bend = second - first - move
        length, curve = np.sqrt((move**2).sum(axis=0)), np.sqrt((bend**2).sum(axis=0))
        size = np.maximum(length / np.maximum(curve, 1e-300), 1.0)
        reached = mass + 2.0 * size * move + size**2 * bend
        mass = _step(parts, np.where((reached >= 0.0).all(axis=0), reached, second))
    return np.where(settled, mass, mass[:, :1]), settled


def warn_unsettled(column: str, settled: Flags) -> None:
    """Say which estimate stands in; the first group is all rows."""
    what = f"{np.count_nonzero(~settled[1:])} of {len(settled) - 1} classes use the distribution of all rows there"
    if not settled[0]:
        what = "its last step is used, the same for every class that did not converge"
    warnings.warn(
        f"Column {column!r}: the reconstruction did not converge, and {what}. The noise is probably too strong for it.",
        UnsettledWarning,
        stacklevel=2,
    )


def _step(parts: Sequence[_Counts], mass: Matrix) -> Matrix:
    """Bayes' rule, then a running mean."""
    gain = np.zeros_like(mass)
    for part in parts:
        expected = (1 - part.hidden) * (part.spread @ mass) + part.hidden * part.background[:, None]
        ratio = np.divide(part.counts, expected, out=np.zeros_like(expected), where=expected > 0)
        gain += (1 - part.hidden) * (part.spread.T @ ratio)
    after = mass * gain
    whole = after.sum(axis=0)
    after = np.where(whole > 0, after / np.where(whole > 0, whole, 1.0), 1.0 / len(mass))
    padded = np.vstack([after[:1], after, after[-1:]])
    after = 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]
    return np.asarray(after / after.sum(axis=0))


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


def slices(parts: Sequence[Part]) -> list[list[Slice]]:
    """For every column, its slice of every part."""
    stated = [None if part.source is None else columns_of_part(part) for part in parts]
    first = next((columns for columns in stated if columns is not None), None)
    # Rows without noise lie in the same columns as those with noise, where there are any.
    exact = None if first is None else tuple(column.without_noise() for column in first)
    described = [columns or exact or columns_of_part(part) for part, columns in zip(parts, stated, strict=True)]
    if len({tuple((c.start, c.stop) for c in columns) for columns in described}) != 1:
        raise CardError("The parts have different columns, so there is no joint estimate.")
    return [
        [Slice(columns[place], part.Z, part.y) for part, columns in zip(parts, described, strict=True)]
        for place in range(len(described[0]))
    ]


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
    if intervals is None:  # about 2 n^(1/3) cells
        rows = sum(len(part.Z) for part in parts)
        intervals = int(np.clip(np.ceil(2.0 * rows ** (1 / 3)), FEW_INTERVALS, MANY_INTERVALS))
    return _numbers(parts, classes, method, intervals)


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
    grouped = [Grouped.of(part) for part in parts]
    noisy, plain = ([one for one in grouped if (one.described.noise is None) == known] for known in (False, True))
    if sum(one.shown for one in noisy) < FEWEST:
        noisy = []  # as if it had not been released: a column that few people report
    if not (noisy or plain):
        return None
    whole = _range_of([*noisy, *plain])
    found = []
    if noisy:
        way = smoothed if method is None else partial(one_by_one, method=method)
        # what is seen exactly may fill the whole range
        found.append(way(noisy, classes, intervals, whole if plain else None))
    if plain:
        found.append(histograms(plain, classes, intervals, whole))
    return _combined(found)


def _range_of(parts: Sequence[Grouped]) -> tuple[float, float]:
    """The bounds of a column in all of its parts."""
    return min(one.described.low for one in parts), max(one.described.high for one in parts)


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
        pooled = _alone(parts, method, options)
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
        mine = [part if group == 0 else part.of_class(group - 1) for part in parts]
        shown[group], rows[group] = sum(one.shown for one in mine), sum(len(one.y) for one in mine)
        # those with enough values, that are not all the same
        usable = [one for one in mine if one.shown >= FEWEST and np.nanmin(one.values) < np.nanmax(one.values)]
        if group and usable:
            try:
                one = _alone(usable, method, options)
            except ConvergenceError:
                settled[group] = False
                continue
            mass[group], missing[group] = one.mass, one.missing
    if not settled.all():
        warn_unsettled(described[0].name, settled)
    return Estimates(pooled.cells, mass, missing, shown, rows)


def _alone(parts: Sequence[Grouped], method: Method, options: Options) -> Density:
    """The distribution of all rows of some parts."""
    return reconstruct_numbers([one.values for one in parts], [one.described for one in parts], method, options)


def histograms(parts: Sequence[Grouped], classes: int, intervals: int, support: tuple[float, float]) -> Estimates:
    """Values without noise; those beyond the range (of a release that was not clipped) count at its ends."""
    cells = cells_of(parts[0].described, *support, intervals)
    values, y = np.concatenate([part.values for part in parts]), np.concatenate([part.y for part in parts])
    present = ~np.isnan(values)
    cell = cells.holding(values[present])
    table = np.bincount(y[present] * cells.count + cell, minlength=classes * cells.count).reshape(classes, -1)
    counts = np.vstack([table.sum(axis=0), table]).astype(np.float64)
    shown = counts.sum(axis=1)
    rows = np.concatenate([[len(y)], np.bincount(y, minlength=classes)]).astype(np.float64)
    mass = counts / np.maximum(shown, 1.0)[:, None]
    return Estimates(cells, mass, 1.0 - shown / np.maximum(rows, 1.0), np.maximum(shown, 1e-6), rows)
