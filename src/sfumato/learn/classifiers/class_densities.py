"""The distribution of one column within every class, before noise: from all parts of a release together.

Numbers are reconstructed (`sfumato.reconstruction`), categories are freed from randomized response by the inverse of
its matrix. All classes share the same cells. A class with fewer than `FEWEST` released values is given the
distribution of all rows: of so few nothing can be said, and its column then speaks neither for nor against it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from sfumato.channels import Recipe, Secret
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.core.errors import CardError
from sfumato.guarantee import Card
from sfumato.learn.classifiers.reads_noise import Part, recipe_of
from sfumato.mechanisms import Mechanism
from sfumato.noise.response import onto_simplex
from sfumato.reconstruction.density import invert_response
from sfumato.reconstruction.evidence import FEWEST, Cells, Evidence, Method, Options
from sfumato.reconstruction.parzen_program import ConvergenceError
from sfumato.reconstruction.reconstruct import (
    Described,
    cells_of,
    check_same_column,
    count_values,
    described,
    missing_share,
    part_of,
    possible_range,
    reconstruct_numbers,
)

# What learners must know of every column of a release: where it lies in the matrix, and the noise that made it.


@dataclass(frozen=True)
class ReleaseColumn:
    """Columns `start:stop` of the release matrix: one source column, or one component of a mixing release.

    `described` holds noise and range in raw units, which are `low + width * matrix entry`; None for a column that is
    constant and tells nothing.
    """

    start: int
    stop: int
    described: Described | None
    low: float = 0.0
    width: float = 1.0

    @property
    def is_categorical(self) -> bool:
        return self.described is not None and self.described.is_categorical

    @property
    def is_noisy(self) -> bool:
        """Whether anything was done to it: noise, or answers at random."""
        one = self.described
        if one is None:
            return False
        missing = one.missing_keep is not None and one.missing_keep < 1.0
        return one.noise is not None or (one.is_categorical and one.keep < 1.0) or missing

    @property
    def has_indicator(self) -> bool:
        """Whether a second matrix column says that the cell is empty."""
        return self.described is not None and self.described.missing_keep is not None

    def without_noise(self) -> ReleaseColumn:
        """The same column, released as it is."""
        if self.described is None:
            return self
        keep = None if self.described.missing_keep is None else 1.0
        return replace(self, described=replace(self.described, noise=None, keep=1.0, missing_keep=keep, grid=0.0))

    def reported(self, Z: Matrix) -> Flags:
        """Which rows report it at all."""
        return np.asarray(~np.isnan(Z[:, self.start]))

    def values(self, Z: Matrix) -> Matrix:
        """Released numbers in raw units; NaN where the cell was reported missing."""
        raw = self.low + self.width * Z[:, self.start]
        return np.where(self.missing(Z), np.nan, raw) if self.has_indicator else np.asarray(raw)

    def missing(self, Z: Matrix) -> Flags:
        """Which cells are reported missing."""
        return np.asarray(Z[:, self.stop - 1] > 0.5) if self.has_indicator else np.zeros(len(Z), dtype=bool)

    def codes(self, Z: Matrix) -> Codes:
        """Which category each row reports."""
        return np.asarray(Z[:, self.start : self.stop].argmax(axis=1), dtype=np.int64)

    def encoded(self, raw: Matrix) -> Matrix:
        """Matrix entries of raw values."""
        return np.asarray((raw - self.low) / self.width)


def columns_of(source: Recipe | Card | Mechanism, *, ranges: bool = True) -> tuple[ReleaseColumn, ...]:
    """The columns of a release.

    Refused where the range of a column is unknown (a secret key) or its noise is (rounded afterwards). With
    `ranges=False` only the latter: components behind a key have noise of a known law, but no range.
    """
    recipe = recipe_of(source)
    assert recipe is not None
    if isinstance(recipe.map, Secret):
        if ranges:
            raise CardError(
                "The map of this release is a secret key, so the range of its columns is unknown, and nothing can be "
                "reconstructed. Use noise-aware-lda, knn, svm, forest or boosting: they work in its own space."
            )
        return tuple(
            ReleaseColumn(place, place + 1, Described(f"c{place:03d}", "numeric", channel.raw_noise(1.0)))
            for place, channel in enumerate(recipe.channels)
        )
    if not recipe.is_columnwise and not all(channel.numbers for channel in recipe.channels):
        raise CardError(
            "The columns of this release are answers, not numbers with noise of a known law, and nothing can be "
            "reconstructed from them one by one. Use bernoulli-naive-bayes, forest or boosting."
        )
    told = [described(recipe, place) for place in range(len(recipe.channels))]
    if not recipe.is_columnwise:
        return tuple(ReleaseColumn(place, place + 1, one) for place, one in enumerate(told))
    found = []
    for one, (channel, (group,)) in zip(told, recipe.of_columns(), strict=True):
        low, high = (0.0, 1.0) if one is None or group.is_onehot else group.column.bounds
        stop = group.stop - channel.hides_missing  # a slot or indicator for "missing" that no row reports is left out
        found.append(ReleaseColumn(group.start, stop, one, float(low), float(high) - float(low)))
    return tuple(found)


def columns_of_part(part: Part, *, ranges: bool = True) -> tuple[ReleaseColumn, ...]:
    """The columns that the rows of a part have; refused where their card tells of others."""
    if part.source is None:  # numbers without any noise, as they are; constant columns tell nothing
        found = []
        for place, (low, high) in enumerate(zip(part.Z.min(axis=0).tolist(), part.Z.max(axis=0).tolist(), strict=True)):
            one = Described(f"x{place}", "numeric", None, low, high) if low < high else None
            found.append(ReleaseColumn(place, place + 1, one))
        return tuple(found)
    columns, recipe = columns_of(part.source, ranges=ranges), recipe_of(part.source)
    if recipe is not None and recipe.width != part.Z.shape[1]:
        raise CardError(
            f"The card describes {recipe.width} columns, but the rows have {part.Z.shape[1]}. Card and release do not "
            "belong together."
        )
    return columns


@dataclass(frozen=True)
class Slice:
    """The rows of one part: its column, matrix rows and class codes (as seen)."""

    column: ReleaseColumn
    Z: Matrix
    y: Codes

    @property
    def described(self) -> Described:
        assert self.column.described is not None
        return self.column.described

    @cached_property
    def values(self) -> Matrix:
        """Released numbers; NaN: reported missing."""
        return self.column.values(self.Z)

    @property
    def shown(self) -> int:
        """How many rows show a number."""
        return int(np.count_nonzero(~np.isnan(self.values)))


def slices(parts: Sequence[Part]) -> list[list[Slice]]:
    """For every column, its slice of every part."""
    stated = [None if part.source is None else columns_of_part(part) for part in parts]
    first = next((columns for columns in stated if columns is not None), None)
    # Rows without noise lie in the same columns as those with noise, where there are any.
    exact = None if first is None else tuple(column.without_noise() for column in first)
    known = [columns or exact or columns_of_part(part) for part, columns in zip(parts, stated, strict=True)]
    if len({tuple((c.start, c.stop) for c in columns) for columns in known}) != 1:
        raise CardError("The parts have different columns, so there is no joint estimate.")
    return [
        [Slice(columns[place], part.Z, part.y) for part, columns in zip(parts, known, strict=True)]
        for place in range(len(known[0]))
    ]


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
class Estimates:
    """Masses of the cells for all rows (first line) and every class, shares missing, and values shown in each."""

    cells: Cells
    mass: Matrix
    missing: Matrix
    shown: Matrix
    rows: Matrix


def smoothed(parts: Sequence[Slice], classes: int, intervals: int, support: tuple[float, float] | None) -> Estimates:
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
    def of(cls, part: Slice, evidence: Evidence, classes: int) -> _Counts:
        present = ~np.isnan(part.values)
        cell = np.searchsorted(evidence.edges, part.values[present], side="right")
        counts = _by_group(cell, part.y[present], len(evidence.edges) + 1, classes)
        rows = _by_group(np.zeros_like(part.y), part.y, 1, classes)[0]
        told = 1.0 - counts.sum(axis=0) / np.maximum(rows, 1.0)
        keep, missing, hidden = part.described.missing_keep, np.zeros(classes + 1), np.zeros(classes + 1)
        if keep is not None:
            missing = told if keep >= 1.0 else np.clip((told - (1 - keep)) / (2 * keep - 1), 0.0, 1.0)
            hidden = np.minimum((1 - keep) * missing / np.maximum(1.0 - told, 1e-9), 0.95)
            missing[0] = missing_share(evidence.part.bins, part.described)
        return cls(counts, evidence.spread, evidence.background, hidden, missing, rows)


def _by_group(cell: Codes, y: Codes, cells: int, classes: int) -> Matrix:
    """How many rows lie in each cell (lines), in all and of every class (columns)."""
    table = np.bincount(cell * classes + y, minlength=cells * classes).reshape(cells, classes)
    return np.column_stack([table.sum(axis=1), table]).astype(np.float64)


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
    """Say which estimate stands in, if one does; the first group is all rows."""
    if settled.all():
        return
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
    if any(part.column.described is None for part in parts):
        return None
    check_same_column([part.described for part in parts])
    there = [part.column.reported(part.Z) for part in parts]  # the other rows say nothing of it
    parts = [  # new ones, whose values go with them: those of all columns would be another table
        Slice(part.column, *((part.Z, part.y) if rows.all() else (part.Z[rows], part.y[rows])))
        for part, rows in zip(parts, there, strict=True)
    ]
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
            counts.append(np.bincount(rows, minlength=part.column.stop - part.column.start))
            keeps.append(part.described.keep)
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
    noisy, plain = ([one for one in parts if (one.described.noise is None) == known] for known in (False, True))
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


def _range_of(parts: Sequence[Slice]) -> tuple[float, float]:
    """The bounds of a column in all of its parts."""
    return min(one.described.low for one in parts), max(one.described.high for one in parts)


def _combined(found: Sequence[Estimates]) -> ClassDensities:
    """Parts with noise and parts without weigh by their values; classes with too few values are as all rows are."""
    shown, rows = np.sum([one.shown for one in found], axis=0), np.sum([one.rows for one in found], axis=0)
    mass = np.sum([one.shown[:, None] * one.mass for one in found], axis=0) / np.maximum(shown, 1e-9)[:, None]
    missing = np.sum([one.rows * one.missing for one in found], axis=0) / np.maximum(rows, 1e-9)
    few = shown < FEWEST
    mass[few], missing[few] = mass[0], missing[0]
    return ClassDensities(mass[1:], missing[1:], mass[0], float(missing[0]), found[0].cells)


def one_by_one(
    parts: Sequence[Slice], classes: int, intervals: int, support: tuple[float, float] | None, *, method: Method
) -> Estimates:
    """All rows, then every class, by any method of `sfumato.reconstruction`.

    Where it fails for a class, that class is like all rows; where it fails for these, the smoothed iteration serves.
    """
    known, settled = [part.described for part in parts], np.ones(classes + 1, dtype=bool)
    options = Options(bins=intervals, support=support, atoms=False, resamples=0)
    try:
        pooled = reconstruct_numbers([part.values for part in parts], known, method, options)
    except ConvergenceError:
        warnings.warn(
            f"Column {known[0].name!r}: the method {method.name} found no estimate. Smoothed "
            "expectation-maximization is used instead.",
            UnsettledWarning,
            stacklevel=2,
        )
        return smoothed(parts, classes, intervals, support)
    options = replace(options, support=(float(pooled.cells.edges[0]), float(pooled.cells.edges[-1])))
    mass, missing = np.repeat(pooled.mass[None, :], classes + 1, axis=0), np.full(classes + 1, pooled.missing)
    shown, rows = np.zeros(classes + 1), np.zeros(classes + 1)
    for group in range(classes + 1):
        mine = [part.values if group == 0 else part.values[part.y == group - 1] for part in parts]
        counts = np.array([np.count_nonzero(~np.isnan(values)) for values in mine])
        shown[group], rows[group] = counts.sum(), sum(map(len, mine))
        # those with enough values, that are not all the same
        usable = [p for p in np.flatnonzero(counts >= FEWEST) if np.nanmin(mine[p]) < np.nanmax(mine[p])]
        if group and usable:
            try:
                one = reconstruct_numbers([mine[p] for p in usable], [known[p] for p in usable], method, options)
            except ConvergenceError:
                settled[group] = False
                continue
            mass[group], missing[group] = one.mass, one.missing
    warn_unsettled(known[0].name, settled)
    return Estimates(pooled.cells, mass, missing, shown, rows)


def histograms(parts: Sequence[Slice], classes: int, intervals: int, support: tuple[float, float]) -> Estimates:
    """Values without noise; those beyond the range (of a release that was not clipped) count at its ends."""
    cells = cells_of(parts[0].described, *support, intervals)
    values, y = np.concatenate([part.values for part in parts]), np.concatenate([part.y for part in parts])
    present = ~np.isnan(values)
    counts = _by_group(cells.holding(values[present]), y[present], cells.count, classes).T
    shown, rows = counts.sum(axis=1), _by_group(np.zeros_like(y), y, 1, classes)[0]
    mass = counts / np.maximum(shown, 1.0)[:, None]
    return Estimates(cells, mass, 1.0 - shown / np.maximum(rows, 1.0), np.maximum(shown, 1e-6), rows)
