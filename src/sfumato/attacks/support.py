"""The values of one column that an adversary can think of, and what its channel says of each."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.channels import Channel, Line, OnLine
from sfumato.core.array_types import Codes, Matrix
from sfumato.table import Group
from sfumato.table.neighbours.arrays import Arrays
from sfumato.table.neighbours.nearest import nearest
from sfumato.table.neighbours.tiles import slices

TOLERANCE = 0.05
"""A number counts as guessed within this share of the column's range."""
WHOLE_STEPS = ("integer", "ordinal", "date")
AS_GOOD = 1e-6
"""Windows whose mass differs by no more are equally good; the one nearest to the mean is taken."""
HERE = Arrays()


def half_step(group: Group) -> float:
    """Half the distance of neighbouring values over the range; 0 where values lie as close as they like."""
    if group.is_constant or group.column.kind not in WHOLE_STEPS:
        return 0.0
    low, high = group.column.bounds
    return 0.5 / (high - low)


def half_width(group: Group, tolerance: float) -> float:
    """How far from a number a guess may lie and count as right: adversaries round where only whole steps occur.

    A speck is given or taken, so that rounding does not decide.
    """
    return max(tolerance + 1e-9, half_step(group) - 1e-9)


def best_window(
    values: Matrix, mass: Any, half: float, extent: float = 0.0, arrays: Arrays = HERE, nearly: float = 0.0
) -> tuple[Any, Any, Any]:
    """Per row of `mass` (n x values) the middle of the window of half width `half` that holds most, and how much.

    `values` ascend; each stands for all numbers within half an `extent` of it, which must lie inside all of them.
    `mass` lies where `arrays` works. With `nearly` it is also told where no other window holds as much but for that
    share (else None): elsewhere rounding could have chosen another.
    """
    xp = arrays.namespace
    last = np.searchsorted(values, values + (2.0 * half - extent) * (1 + 1e-12), "right") - 1
    last = np.maximum(last, np.arange(len(values)))  # of the window that begins at each value, the last one inside
    total = xp.cumsum(mass, axis=1)
    held = total[:, arrays.put(last)] - arrays.joined([xp.zeros_like(total[:, :1]), total[:, :-1]])
    middles = arrays.put(0.5 * (values + values[last]))
    most = xp.amax(held, axis=1, keepdims=True)
    mean = mass @ arrays.put(values) / xp.where(total[:, -1] > 1e-300, total[:, -1], 1e-300)
    away = xp.where(held >= most * (1.0 - AS_GOOD), abs(middles - mean[:, None]), np.inf)
    best = xp.argmin(away, axis=1)
    clear = (held >= most * (1.0 - nearly)).sum(axis=1) == 1 if nearly else None
    return middles[best], arrays.pick(held, best[:, None])[:, 0], clear


def line_log(arrays: Arrays, line: OnLine, given: Any) -> Any:
    """Log-likelihoods of all places `given` (on the device) for every place that was seen."""
    xp = arrays.namespace
    seen = arrays.put(np.ascontiguousarray(line.seen, dtype=np.float64))[:, None]
    # Numbers go there as arrays: those that PyTorch makes of them itself would be single.
    high, low, silent, never = (arrays.put(np.array([value])) for value in (line.high, line.low, line.silent, -np.inf))
    apart = abs(seen - given[None, :])
    if line.law == "laplace":
        found = line.high - apart / line.scale
    elif line.law == "normal":
        apart = apart / line.scale
        found = line.high - 0.5 * apart * apart
    else:
        found = xp.where(apart <= line.scale, high, low)
    found = xp.where(seen == seen, found, never)
    return xp.where(xp.isinf(seen), silent, found) if np.isinf(line.seen).any() else found


def channel_log(arrays: Arrays, channel: Channel, Z: Matrix, values: Matrix) -> Any:
    """log f(z_i | value j) of one channel, rows x values, on the device."""
    line = channel.on_line(Z, values)
    if line is None:
        return arrays.put(channel.log_likelihood(Z, values))
    return line_log(arrays, line, arrays.put(np.ascontiguousarray(line.given, dtype=np.float64)))


CELLS = 100
"""Cells of a number's range; a column of whole steps has its own values while they are no more than twice as many."""
FLOOR = 1e-3
"""How much of the smoothing goes anywhere: no one on a finite list fits, and nothing is impossible because of it."""
WITHIN_CELL = 0.3
"""Standard deviation, over a cell's width, of what is taken to be spread over the cell."""
PLACES = 9
"""Most places within a cell at which narrow noise is looked at."""


@dataclass(frozen=True)
class Support:
    """`values` (s x width) of a column or component, `numbers` of them first and ascending, then categories.

    Each number stands for all within half an `extent` of it.
    """

    values: Matrix
    numbers: int
    extent: float

    @classmethod
    def of_group(cls, group: Group, cells: int = CELLS) -> Support:
        """Of a source column: cells of its range, its whole steps, its categories, and "missing"."""
        if group.is_onehot:
            return cls(np.asarray(group.vertices), 0, 0.0)
        step, extent = 2.0 * half_step(group), 0.0
        line: Matrix = np.array([0.5])
        if step and round(1 / step) < 2 * cells:
            line = np.linspace(0.0, 1.0, round(1 / step) + 1)
        elif not group.is_constant:
            extent = 1.0 / cells
            line = np.linspace(0.5 * extent, 1.0 - 0.5 * extent, cells)
        if not group.has_indicator:
            return cls(line[:, None], len(line), extent)
        pairs = np.vstack([np.column_stack([line, np.zeros(len(line))]), [[0.5, 1.0]]])
        return cls(np.asarray(pairs, dtype=np.float64), len(line), extent)

    @classmethod
    def between(cls, low: float, high: float, cells: int = CELLS) -> Support:
        """Cells of an interval, for a number that has no range of its own."""
        extent = max(high - low, 1e-9) / cells
        line = np.asarray(low + (np.arange(cells) + 0.5) * extent, dtype=np.float64)
        return cls(line[:, None], cells, extent)

    @property
    def line(self) -> Matrix:
        """The numbers."""
        return np.asarray(self.values[: self.numbers, 0])

    def places(self, X: Matrix) -> Codes:
        """Of every person's value its position in `values`; beyond the ends, the end."""
        if not self.numbers:
            return np.asarray(X.argmax(axis=1), dtype=np.int64)
        line = self.line
        step = (line[-1] - line[0]) / max(len(line) - 1, 1) or 1.0
        found: Codes = np.clip(np.rint((X[:, 0] - line[0]) / step), 0, len(line) - 1).astype(np.int64)
        return found if len(self.values) == self.numbers else np.where(X[:, 1] > 0.5, self.numbers, found)

    def likelihood(self, channel: Channel, Z: Matrix, line: Line | None, device: Arrays | None = None) -> Any:
        """f(z_i | value j) up to a factor per row, which is its largest; the mean over its cell for a number.

        A row that nothing can have led to is as likely everywhere, unless a line says where it comes from.
        """
        arrays = device or HERE
        if channel.is_exact:
            return arrays.put(self._read_off(Z))
        channel = channel.blurred(WITHIN_CELL * self.extent) if self.extent else channel
        xp, log = arrays.namespace, None
        for values in self.looked_at(line):
            one = channel.log_likelihood(Z, values) if device is None else channel_log(device, channel, Z, values)
            log = one if log is None else xp.logaddexp(log, one)
        top = xp.amax(log, axis=1)[:, None]
        none_fit = ~np.isfinite(arrays.get(top)[:, 0])
        if device is not None and none_fit.any():  # rare, and the processor knows what to make of it
            return device.put(self.likelihood(channel, Z, line))
        with np.errstate(invalid="ignore"):
            found = xp.exp(log - top)
        if none_fit.any():
            found[none_fit] = 1.0
            if line is not None and self.numbers and abs(line.gain[0, 0]) > 1e-9:
                found[none_fit] = self._read_off((Z[none_fit] - line.offset) / np.diag(line.gain))
        return found

    def _read_off(self, Z: Matrix) -> Matrix:
        found = np.zeros((len(Z), len(self.values)))
        found[np.arange(len(Z)), self.places(Z)] = 1.0
        return found

    def looked_at(self, line: Line | None) -> list[Matrix]:
        """The values at one place of every cell, or at several where noise is narrow: likelihoods are their mean."""
        inside = 1
        if self.extent:
            spread = self.extent if line is None else math.sqrt(line.covariance[0, 0]) / max(abs(line.gain[0, 0]), 1e-9)
            inside = min(PLACES, max(1, math.ceil(2.0 * self.extent / max(spread, 1e-12))))
        found = []
        for move in ((np.arange(inside) + 0.5) / inside - 0.5) * self.extent:
            values = self.values.copy()
            values[: self.numbers, 0] += move
            found.append(values)
        return found

    def smoothing(self, width: float, mixing: float) -> Matrix:
        """s x s: what a value stands for when a person's is smoothed; rows sum to 1.

        Numbers by a normal kernel of this `width`, categories (and "missing") by keeping all but `mixing`.
        """
        s, n = len(self.values), self.numbers
        if not n:
            found = (1.0 - mixing) * np.eye(s) + mixing / s
        else:
            found, width = np.eye(s), max(width, WITHIN_CELL * self.extent, 1e-9)
            found[:n, :n] = np.exp(-0.5 * ((self.line[:, None] - self.line) / width) ** 2)
            found[:n, :n] /= found[:n, :n].sum(axis=1, keepdims=True)
        return (1.0 - FLOOR) * found + FLOOR / s


BLOCK = 2_000_000
"""Pairs of rows whose distances are computed at a time."""


def patterns(Z: Matrix) -> Iterator[tuple[Codes, Codes]]:
    """Rows that report the same columns, and these columns; all rows and all columns where nothing is left out."""
    there = ~np.isnan(Z)
    if there.all():
        yield np.arange(len(Z)), np.arange(Z.shape[1])
        return
    found, group = np.unique(there, axis=0, return_inverse=True)
    for number, columns in enumerate(found):
        yield np.flatnonzero(group.reshape(-1) == number), np.flatnonzero(columns)


def reported_mean(Z: Matrix, otherwise: float = 0.5) -> Matrix:
    """Mean of every column over the rows that report it."""
    there = ~np.isnan(Z)
    if there.all():
        return np.asarray(Z.mean(axis=0))
    count = there.sum(axis=0)
    return np.where(count > 0, np.where(there, Z, 0.0).sum(axis=0) / np.maximum(count, 1), otherwise)


def nearest_reported(queries: Matrix, rows: Matrix, k: int = 1) -> tuple[Matrix, Codes]:
    """As `neighbours.nearest`, by the columns that both report; columns are in units of their noise.

    A column that one of them leaves out costs log(1 + u), where u is what two of them differ by on average, squared:
    less than a stranger's value costs and more than one's own, which is at 1 on average. It is where the likelihood
    ratio of "the same" to "anybody" is 1, for normal noise beside normal values. So no row comes near by saying little.
    """
    seen, other = ~np.isnan(queries), ~np.isnan(rows)
    if seen.all() and other.all():
        return nearest(np.ascontiguousarray(queries), np.ascontiguousarray(rows), k=k)
    usual = np.log1p(_spread(queries) + _spread(rows) + (reported_mean(queries) - reported_mean(rows)) ** 2)
    a, b = np.where(seen, queries, 0.0), np.where(other, rows, 0.0)
    distance, index = np.empty((len(a), k)), np.empty((len(a), k), dtype=np.int64)
    for block in slices(len(a), max(1, BLOCK // max(len(b), 1))):
        mine, there = a[block], seen[block].astype(np.float64)
        squares = (mine**2) @ other.T - 2.0 * mine @ b.T + there @ (b**2).T
        squares += usual.sum() - (there * usual) @ other.T
        index[block] = squares.argmin(axis=1)[:, None] if k == 1 else np.argsort(squares, axis=1, kind="stable")[:, :k]
        distance[block] = np.sqrt(np.maximum(np.take_along_axis(squares, index[block], axis=1), 0.0))
    return distance, index


def _spread(Z: Matrix) -> Matrix:
    """Variance of every column over the rows that report it."""
    return reported_mean((Z - reported_mean(Z)) ** 2, otherwise=0.0)
