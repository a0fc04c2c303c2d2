"""Mechanisms that draw rows with replacement: how many from each class, and how many from each block.

A released row of class c comes from one of the N_c rows of that class, each with probability 1 / N_c, independently
of the other released rows: the numbers of times that rows are drawn are multinomial. A table that is read in blocks
must not change that. Given how many rows n_bc of class c block b holds, the numbers D_bc of draws from the blocks are
multinomial(M_c; n_bc / N_c), which is drawn as a chain of binomials,

    D_bc ~ Binomial(M_c - draws so far, n_bc / (N_c - rows so far)),

and within a block every draw is uniform: together these are M_c independent uniform draws from the whole class.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral

import numpy as np

from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import TableError
from sfumato.mechanisms.base import Block, Mechanism, is_number
from sfumato.mechanisms.phases import FIT, Given, Phase, Rows
from sfumato.noise import Streams
from sfumato.table.statistics import NO_CLASS, Statistics

Counts = dict[int, int]
"""Class code -> number of rows."""
MOST_ROWS = 10**12


@dataclass(frozen=True)
class CountedBlocks:
    """Statistics, and how many rows every block has of each class."""

    statistics: Statistics
    blocks: Mapping[int, Counts]

    @classmethod
    def of(cls, number: int, statistics: Statistics) -> CountedBlocks:
        return cls(statistics, {number: {code: moments.n for code, moments in statistics.items()}})

    def __add__(self, other: CountedBlocks) -> CountedBlocks:
        return CountedBlocks(self.statistics + other.statistics, {**self.blocks, **other.blocks})


class RowDrawing(Mechanism):
    """Released rows are draws: a source row may be drawn several times, or never.

    Classes keep their shares.
    """

    redraws = True
    counts_: Counts = field(init=False)
    draws_: Counts = field(init=False)
    shares_: Mapping[int, Counts] = field(init=False)
    """How many rows are drawn from every block of the table, by class."""

    @property
    @abstractmethod
    def rows(self) -> float | int | None:
        """How many rows to release: None as many as there are, a whole number so many, any other number so many times
        what there is (0.5 for half)."""

    def fitting(self, given: Given) -> Iterator[Phase]:
        """The fit, whose end deals the draws to the blocks."""

        def observe(rows: Rows) -> CountedBlocks:
            return CountedBlocks.of(rows.number, self.statistics(rows.X, rows.y))

        def finish(found: CountedBlocks) -> None:
            self.fit_statistics(found.statistics, given.encoding, given.key)
            numbers = sorted(found.blocks)
            rng = given.streams.generator(0, b"", b"draws")
            drawn = self.shares([found.blocks[number] for number in numbers], rng)
            self.shares_ = dict(zip(numbers, drawn, strict=True))

        yield Phase(FIT, observe, finish)

    def statistics(self, X: Matrix, y: Codes | None) -> Statistics:
        return Statistics.of(X, y)

    def released(self, rows: int) -> int:  # noqa: ARG002 (the fit has counted them)
        return sum(self.draws_.values())

    def _set_draws(self, statistics: Statistics) -> None:
        self.counts_ = {code: moments.n for code, moments in statistics.items() if moments.n}
        self.draws_ = apportioned(self.counts_, self.wanted(statistics.n))

    def wanted(self, there: int) -> int:
        """Rows to release of a table that has so many."""
        if self.rows is None:
            return there
        must = "a count (1000) or a share of the table (0.5)"
        self._check(must, lambda one: is_number(one) and 0 < one <= MOST_ROWS, rows=self.rows)
        return int(self.rows) if isinstance(self.rows, Integral) else max(1, round(self.rows * there))

    def shares(self, blocks: Sequence[Mapping[int, int]], rng: np.random.Generator) -> list[Counts]:
        """How many rows are drawn from every block, by class, given how many each block holds; jointly multinomial."""
        found: list[Counts] = [{} for _ in blocks]
        for code, wanted in self.draws_.items():
            left, rows = wanted, self.counts_[code]
            for share, block in zip(found, blocks, strict=True):
                here = block.get(code, 0)
                if here:
                    share[code] = int(rng.binomial(left, min(1.0, here / rows)))
                    left, rows = left - share[code], rows - here
        return found

    def perturb(self, X: Matrix, y: Codes | None, rng: np.random.Generator) -> Block:
        """A block alone: its share is drawn as if others held the rest, so that it is right for each block by itself.

        Blocks of one table are right together only with `shares` and `draw`.
        """
        codes = self._codes(X, y)
        counts = dict(zip(*(part.tolist() for part in np.unique(codes, return_counts=True)), strict=True))
        share = {
            code: int(rng.binomial(self.draws_[code], min(1.0, here / self.counts_[code])))
            for code, here in counts.items()
        }
        return self.draw(X, y, share, rng)

    def release_block(self, rows: Rows, rng: np.random.Generator, streams: Streams) -> Block:  # noqa: ARG002
        """As many draws as the block's share."""
        return self.draw(rows.X, rows.y, self.shares_[rows.number], rng)

    def draw(self, X: Matrix, y: Codes | None, share: Mapping[int, int], rng: np.random.Generator) -> Block:
        """Release `share` new rows of every class of this block."""
        codes = self._codes(X, y)
        chosen = []
        for code, count in sorted(share.items()):
            members = np.flatnonzero(codes == code)
            chosen.append(members[rng.integers(len(members), size=count)] if count else members[:0])
        source = np.concatenate([*chosen, np.empty(0, dtype=np.int64)])
        out, start = gathered(X, source), 0
        for (code, count), _ in zip(sorted(share.items()), chosen, strict=True):
            self.smooth(out[:, start : start + count], code, rng)
            start += count
        return Block(out.T, None if y is None else codes[source], source)

    @abstractmethod
    def smooth(self, columns: Matrix, code: int, rng: np.random.Generator) -> None:
        """Perturb drawn rows of one class in place; `columns` has a row for every encoded column."""

    def _codes(self, X: Matrix, y: Codes | None) -> Codes:
        codes = np.full(len(X), NO_CLASS) if y is None else y
        unknown = set(np.unique(codes).tolist()) - set(self.counts_)
        if unknown:
            raise TableError(
                f"{self.name} was fitted on rows with different classes. Fit it on the same table, "
                "with the column to predict or without it."
            )
        return codes


def apportioned(counts: Mapping[int, int], wanted: int) -> Counts:
    """`wanted` rows over the classes in proportion to their counts, by the largest remainders; ties to lower codes."""
    total = sum(counts.values())
    if not total:
        return {}
    whole = {code: wanted * count // total for code, count in counts.items()}
    remainders = sorted(counts, key=lambda code: (-(wanted * counts[code] % total), code))
    for code in remainders[: wanted - sum(whole.values())]:
        whole[code] += 1
    return whole


TILE = 1 << 12
"""Rows gathered at a time where rows lie together: they are turned round in a core's cache."""


def gathered(X: Matrix, source: Codes) -> Matrix:
    """The rows `source` of X, column after column."""
    if X.flags.f_contiguous:
        return np.take(X.T, source, axis=1)
    out = np.empty((X.shape[1], len(source)))
    for start in range(0, len(source), TILE):
        out[:, start : start + TILE] = X[source[start : start + TILE]].T
    return out
