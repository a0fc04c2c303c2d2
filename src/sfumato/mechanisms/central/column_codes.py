"""A column as small integers: fine public cells, bins whose edges were found privately, and coarser bins for pairs.

Fine cells are public: 1,024 equal parts of a number's range, or the whole numbers, ordinals and categories themselves
where they are at most so many. A cell that can be missing has one more code, the last. Bins are runs of fine cells
(numbers) or sets of them (categories), and the missing code stays a bin of its own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.channels.recipe import Measurement
from sfumato.core.array_types import Codes, Flags, Floats, Matrix
from sfumato.noise.grid import discrete_gaussian, discrete_laplace_of, exponential_choice
from sfumato.table import Group
from sfumato.table.statistics import Columns, Counts

# How the budget is spent: shares of rho (or of a pure epsilon) for every kind of measurement.


SHARES = {"rows": 0.02, "edges": 0.08, "columns": 0.38, "forest": 0.10, "pairs": 0.42}
"""Of all that there is. What a step does not need (no numbers, no tree) goes to a later one."""
WITH_SECOND = {"pairs": 0.22, "second": 0.05, "triples": 0.15}
"""What becomes of the pairs' share where columns may have two parents."""


def replacing_costs(parents: int) -> float:
    """What one replaced record costs at most, as a multiple of the rho of one that is added or removed.

    Counts cost twice as much and choices four times (see `Measurement.rho_replaced`); this is the most that any fit
    with these shares spends on choices.
    """
    choices = SHARES["edges"] + (SHARES["forest"] if parents else 0.0) + (WITH_SECOND["second"] if parents > 1 else 0.0)
    return 2.0 + 2.0 * choices


@dataclass
class Budget:
    """Spends shares of `rho` (delta > 0) or of `epsilon` (pure), draws the noise, and writes down what was measured."""

    rho: float | None
    epsilon: float
    rng: np.random.Generator

    def __post_init__(self) -> None:
        self.measured: list[Measurement] = []
        self.answers: dict[str, list[Codes]] = {}
        """Counts with their noise: all that a fit may look at."""

    def __getstate__(self) -> dict[str, Any]:
        """Without its generator: what travels to where the rows are counts them, and draws nothing."""
        return {**vars(self), "rng": None}

    def spread(self, share: float, tables: int) -> float:
        """Standard deviation of the noise on counts of so many tables under this share, before it is drawn."""
        strength = self._noise(share, tables)
        return math.sqrt(strength) if self.rho is not None else math.sqrt(2.0) * strength

    def count(self, what: str, share: float, tables: list[Codes]) -> list[Codes]:
        """All these tables with noise: one record changes one count of each."""
        if not tables:
            return []
        measured = self.measurement(what, share, len(tables))
        draw = discrete_gaussian if self.rho is not None else discrete_laplace_of
        self.measured.append(measured)
        sizes = np.cumsum([table.size for table in tables])
        noise = draw(self.rng, measured.strength, int(sizes[-1]))
        parts = np.split(noise, sizes[:-1])
        self.answers[what] = [table + part.reshape(table.shape) for table, part in zip(tables, parts, strict=True)]
        return self.answers[what]

    def measurement(self, what: str, share: float, tables: int) -> Measurement:
        """What counting so many tables under this share comes to."""
        return Measurement(what, "laplace" if self.rho is None else "gaussian", tables, self._noise(share, tables))

    def chooser(self, what: str, share: float, times: int) -> Chooser:
        """So many choices by scores that one record changes by at most 1."""
        measured = self.choices(what, share, times)
        self.measured.append(measured)
        return Chooser(self.rng, measured.strength)

    def choices(self, what: str, share: float, times: int) -> Measurement:
        """What so many choices under this share come to."""
        epsilon = math.sqrt(8.0 * share * self.rho / times) if self.rho is not None else share * self.epsilon / times
        return Measurement(what, "choice", times, epsilon)

    def _noise(self, share: float, tables: int) -> float:
        if self.rho is not None:
            return tables / (2.0 * share * self.rho)
        return tables / (share * self.epsilon)


@dataclass(frozen=True)
class Chooser:
    """Exponential mechanisms of one epsilon."""

    rng: np.random.Generator
    epsilon: float

    def choose(self, scores: Codes) -> int:
        return exponential_choice(self.rng, scores, self.epsilon / 2.0)


# Edges of a number's bins, found by halving: each step splits every interval near its median, privately.
#
# The score of a split after fine cell k is -|2 c - m| with c rows of the interval up to k and m rows in all: one record
# changes it by 1. The intervals of one level are disjoint, so a level costs one choice whatever their number.


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


Number = TypeVar("Number", np.int64, np.float64)
FINE = 1_024
"""Public cells of a number's range."""


@dataclass(frozen=True)
class FineColumn:
    """The public coding of one source column."""

    group: Group

    @cached_property
    def cells(self) -> int:
        """Without the missing code."""
        if self.group.is_onehot:
            return self.group.width
        if self.group.is_constant:
            return 1
        return min(FINE, self._values)

    @property
    def _values(self) -> int:
        """How many a column of whole numbers can have."""
        low, high = self.group.column.bounds
        return FINE + 1 if self.group.column.kind == "numeric" else int(high - low) + 1

    @property
    def size(self) -> int:
        return self.cells + self.group.has_indicator

    @property
    def is_ordered(self) -> bool:
        return not self.group.is_onehot

    @property
    def is_whole(self) -> bool:
        return self.group.is_onehot or self.group.is_constant or self._values <= FINE

    def merged(self, weights: Floats, most: int) -> Bins:
        """At most so many coarser bins from bins of these weights."""
        return merged(weights, most, ordered=self.is_ordered, missing=self.group.has_indicator)

    def codes(self, X: Matrix) -> Codes:
        group = self.group
        if group.is_onehot:
            return np.asarray(X[:, group.slice].argmax(axis=1))
        if self.cells == 1:
            found = np.zeros(len(X), dtype=np.int64)
        elif self.is_whole:
            found = np.rint(X[:, group.start] * (self.cells - 1)).astype(np.int64)
        else:
            found = (X[:, group.start] * self.cells).astype(np.int64)
        np.clip(found, 0, self.cells - 1, out=found)
        if group.has_indicator:
            found[X[:, group.stop - 1] > 0.5] = self.cells
        return found

    def place(self, start: Floats, width: Floats, missing: Flags, out: Matrix, rng: np.random.Generator) -> None:
        """Write encoded values from anywhere in the runs of `width` fine cells that begin at `start`."""
        group = self.group
        if group.is_onehot:
            out[:, group.slice] = 0.0
            out[np.arange(len(start)), group.start + start.astype(np.int64)] = 1.0
            return
        if self.cells == 1:
            values = np.full(len(start), 0.5)
        else:
            values = rng.random(len(start))
            values *= width
            values += start
            if self.is_whole:
                np.floor(values, out=values)
            values /= self.cells - self.is_whole
        if group.has_indicator:
            values[missing] = 0.5
            out[:, group.stop - 1] = missing
        out[:, group.start] = values


@dataclass(frozen=True)
class Bins:
    """Fine codes -> bins: `of[f]` is the bin of fine code f, `count` how many bins there are."""

    of: Codes
    count: int

    @classmethod
    def runs(cls, ends: list[int], cells: int, missing: bool) -> Bins:
        """Runs of fine cells; `ends` are the first cells of all runs but the first."""
        of = np.zeros(cells + missing, dtype=np.int64)
        of[ends] = 1
        of = np.cumsum(of)
        if missing:
            of[cells] = of[cells - 1] + 1
        return cls(of, int(of[-1]) + 1)

    @classmethod
    def each(cls, size: int) -> Bins:
        return cls(np.arange(size), size)

    def then(self, coarser: Bins) -> Bins:
        """Bins of bins, as bins of fine codes."""
        return Bins(coarser.of[self.of], coarser.count)

    def sums(self, table: NDArray[Number], axis: int) -> NDArray[Number]:
        """A table over the finer codes, added up over each bin."""
        moved: NDArray[Number] = np.moveaxis(table, axis, 0)
        out = np.zeros((self.count, *moved.shape[1:]), dtype=table.dtype)
        np.add.at(out, self.of, moved)
        return np.moveaxis(out, 0, axis)


def merged(weights: Floats, most: int, *, ordered: bool, missing: bool) -> Bins:
    """At most `most` coarser bins from bins of these (noisy) weights; the missing bin stays alone.

    Ordered bins: neighbours are merged into runs of about equal weight. Categories: the rarest share one bin.
    """
    size = len(weights) - missing
    most = max(1, min(most - missing, size))
    positive = np.maximum(weights[:size], 0.0) + 1e-9
    if most >= size:
        of = np.arange(size)
    elif ordered:
        middle = (np.cumsum(positive) - positive / 2) / positive.sum()
        of = np.unique(np.minimum((middle * most).astype(np.int64), most - 1), return_inverse=True)[1]
    else:
        order = np.argsort(-positive, kind="stable")
        of = np.empty(size, dtype=np.int64)
        of[order] = np.minimum(np.arange(size), most - 1)
    if missing:
        of = np.append(of, of.max() + 1)
    return Bins(of.astype(np.int64), int(of.max()) + 1)


# A fit in passes over the table: each says what it counts, and goes on with the sum over all blocks. Who adds it up
# (blocks, sites, a cluster) does not matter.


MOST_CELLS = 1 << 24
"""Counts that are kept in memory at a time: 128 MB."""
Count: TypeAlias = Callable[[Matrix, Codes | None], Counts]
"""What a pass counts of a block; it travels to where the rows are."""
Steps: TypeAlias = Generator[Count, Counts, None]
Exact: TypeAlias = dict[Columns, Codes]


class Passes(ABC):
    """A model that is fitted in passes; whatever is left of it afterwards is noisy, or public."""

    def __post_init__(self) -> None:
        self._steps = self.fitting()
        self._next: Count | None = next(self._steps)

    @abstractmethod
    def fitting(self) -> Steps:
        """Yields what a pass counts, and is sent the sum."""

    @property
    def needs_counts(self) -> bool:
        return self._next is not None

    def count(self, X: Matrix, y: Codes | None) -> Counts:
        """What the present pass adds up over blocks."""
        if self._next is None:
            raise RuntimeError("No pass over the table is needed.")
        return self._next(X, y)

    def measure(self, counts: Counts) -> None:
        """Take the sum of a pass: measure it with noise, and say what is to be counted next."""
        self._next = None
        try:
            self._next = self._steps.send(counts)
        except StopIteration:
            return

    def __getstate__(self) -> dict[str, Any]:
        """Without what was counted so far: what travels to where the rows are counts them, and measures nothing."""
        return {**vars(self), "_steps": None}


def tables_of(
    fine: Sequence[FineColumn],
    bins: Mapping[int, Bins],
    classes: int,
    wanted: list[Columns],
    X: Matrix,
    y: Codes | None,
) -> Counts:
    """The wanted sets of columns by class: in these bins, or in fine codes where a column has none."""
    places = {place for one in wanted for place in one}
    codes = {place: fine[place].codes(X) for place in places}
    codes |= {place: bins[place].of[codes[place]] for place in places & bins.keys()}
    sizes = {place: bins[place].count if place in bins else fine[place].size for place in places}
    return Counts.of(codes, sizes, np.zeros(len(X), dtype=np.int64) if y is None else y, classes, wanted)


def scored(
    wanted: Iterable[Columns],
    cells: Callable[[Columns], int],
    count: Callable[[list[Columns]], Count],
    score: Callable[[Columns, Codes], int],
) -> Generator[Count, Counts, tuple[dict[Columns, int], Exact]]:
    """Scores of tables, as many of them counted at a time as memory allows; and the counts, where that is all."""
    batches: list[list[Columns]] = [[]]
    scores: dict[Columns, int] = {}
    exact: Exact = {}
    filled = 0
    for one in wanted:
        if filled and filled + cells(one) > MOST_CELLS:
            batches.append([])
            filled = 0
        batches[-1].append(one)
        filled += cells(one)
    for batch in batches:
        exact = dict((yield count(batch)).tables)
        scores.update((one, score(one, exact[one])) for one in batch)
        if len(batches) > 1:
            exact.clear()
    return scores, exact


def kept(
    chosen: Sequence[Columns], exact: Exact, count: Callable[[list[Columns]], Count]
) -> Generator[Count, Counts, Exact]:
    """The counts of the chosen tables, by one more pass where they were not kept."""
    if chosen and not exact:
        exact = dict((yield count(list(chosen))).tables)
    return {one: exact[one] for one in chosen}
