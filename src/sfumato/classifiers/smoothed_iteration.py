"""Smoothed expectation-maximization for all classes of a column at once.

The step is that of `ExpectationMaximization(smooth=True)`: Bayes' rule, then a running mean (1/4, 1/2, 1/4), until
nothing changes. Classes share cells and noise, so one product of matrices serves all of them; fitted one by one they
would take as many times as long.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.array_types import Codes, Flags, Matrix
from sfumato.reconstruction import Cells
from sfumato.reconstruction.counting import cells_of, count_values, missing_share, part_of, possible_range
from sfumato.reconstruction.described import Described
from sfumato.reconstruction.evidence import Evidence

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
    low, high = support or (min(p.described.low for p in parts), max(p.described.high for p in parts))
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
        mass = _step(parts, _jump(mass, first, second))
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


def _jump(start: Matrix, first: Matrix, second: Matrix) -> Matrix:
    """Where the three points lead to, for every group; the last of them where that is no distribution."""
    move = first - start
    bend = second - first - move
    length, curve = np.sqrt((move**2).sum(axis=0)), np.sqrt((bend**2).sum(axis=0))
    size = np.maximum(length / np.maximum(curve, 1e-300), 1.0)
    reached = start + 2.0 * size * move + size**2 * bend
    return np.where((reached >= 0.0).all(axis=0), reached, second)


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
