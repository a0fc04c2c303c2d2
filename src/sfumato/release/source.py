"""A private table as encoded blocks, and the passes over it that a fit needs."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.core.array_types import Codes, Flags
from sfumato.core.errors import TableError
from sfumato.core.progress import Progress
from sfumato.core.wording import counted
from sfumato.guarantee.person_hash import Fingerprint
from sfumato.ledger.roll import Roll, Told
from sfumato.mechanisms.base import Phase, Rows
from sfumato.release.unfinished import Unfinished
from sfumato.table import Encoding, Table
from sfumato.table.cell_sets import cell_words, person_codes, person_hashes
from sfumato.table.encoding import BLIND, REFUSE, column_of

BLOCK_CELLS = 1 << 21
"""Encoded cells of a block: 16 MB, so that a few blocks in flight fit any memory, however wide the table is."""
MOST_BLOCK_ROWS = 1 << 16
READ_BLOCKS = 2
"""Blocks that are read at a time and then cut without copying: Parquet prefers long reads."""


# Work through a few threads: in order with bounded memory, or all that there is.

In = TypeVar("In")
Out = TypeVar("Out")


def in_order(items: Iterable[In], work: Callable[[In], Out], threads: int | None = None) -> Iterator[Out]:
    """Yield what `work` makes of every item, in the order of the items. Several threads with one BLAS thread each beat
    one thread with many: blocks are small, and NumPy, Arrow and hashlib let go of the interpreter while they compute.
    The calling thread reads ahead by one item more than there are threads, so that no work waits for it. What the
    caller chose for its context (a device) holds in the threads too."""
    threads = threads or min(4, os.cpu_count() or 1)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Out]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(copy_context().run, work, item))
                del item  # what was read is let go of as soon as it is worked through
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def all_of(items: Iterable[In], work: Callable[[In], Out], threads: int, told: Callable[[int], None]) -> list[Out]:
    """What `work` makes of every item, in their order. None waits for a slow one. `told`: how many are done."""
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(copy_context().run, work, item) for item in items]
        try:
            told(0)
            for number, _ in enumerate(as_completed(waiting), start=1):
                told(number)
            return [future.result() for future in waiting]
        finally:
            for future in waiting:
                future.cancel()


def block_rows_for(width: int) -> int:
    """Rows of a block with `width` encoded columns: a power of two, by the width alone, as blocks are numbered."""
    rows = max(1, BLOCK_CELLS // max(1, width))
    return max(256, min(MOST_BLOCK_ROWS, 1 << (rows.bit_length() - 1)))


@dataclass(frozen=True)
class Piece:
    """Rows as they were read, to be encoded by whoever has time: `rows` are their numbers in the table."""

    number: int
    rows: Codes
    batch: pa.RecordBatch
    first_row: int


@dataclass(frozen=True)
class SourceBlock(Rows):
    """Encoded rows with the number of their block and their own numbers in the table; columns lie together."""

    rows: Codes = field(kw_only=True)
    clipped: dict[str, int] = field(default_factory=dict)
    told: Told | None = None
    """Whose rows these are, where the ledger is to know them again."""
    ends: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The smallest and the largest value of each column of numbers, for the owner alone."""


@dataclass
class Source:
    """The owner's table, block by block; at most `max_rows_per_person` rows of each person are used.

    `blind`: nothing about single cells may be told, not even by an error. A table of any number of rows is taken, a
    cell that does not fit counts as missing (or as the middle of its column), a row without a listed class is left out.

    `new` says of every row of the table whether it is to be used at all; None stands for all rows.

    A pass (`each`) is `pieces()`, then `encode` of every piece (in any thread), then `note` of every block in order.
    """

    table: Table
    encoding: Encoding
    out_of_bounds: str = "clip"
    max_rows_per_person: int | None = None
    block_rows: int | None = None
    keep_in_memory: bool = False
    labelled: bool = True
    new: Flags | None = None
    blind: bool = False
    roll: Roll | None = None
    """Where the next pass tells whose rows these are."""
    clipped: dict[str, int] = field(default_factory=dict)
    ends: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The smallest and the largest value of each column of numbers, once a fit has gone through the table."""
    most_rows_of_a_person: int = 0
    kept: Unfinished | None = field(default=None, repr=False)
    """Where sums of whole passes are kept for a run that is killed and goes on."""
    _kept: list[SourceBlock] = field(default_factory=list, repr=False)
    _complete: bool = field(default=False, repr=False)

    elsewhere: ClassVar[bool] = False
    """Whether the rows lie on other machines, which go through them."""

    def no_rows(self) -> SourceBlock:
        """A block of a table without rows."""
        return SourceBlock(np.empty((0, self.encoding.width)), None, rows=np.empty(0, dtype=np.int64))

    def blocks(self) -> Iterator[SourceBlock]:
        """All blocks, in order, one after the other."""
        return (self.note(self.encode(piece)) for piece in self.pieces())

    def pieces(self) -> Iterator[Piece | SourceBlock]:
        """A pass over the table: what is to be encoded, or the blocks that an earlier pass kept."""
        if self._complete:
            yield from self._kept
            return
        self.clipped = {}
        self._kept = []
        seen: dict[int, int] = {}
        first, number, used = 0, 0, 0
        size = self.block_rows or block_rows_for(self.encoding.width)
        for batch in self.table.blocks(size if size > MOST_BLOCK_ROWS else size * READ_BLOCKS):
            for start in range(0, batch.num_rows, size):
                piece = self._piece(number, first, batch.slice(start, size), seen)
                used += len(piece.rows)
                if len(piece.rows):
                    yield piece
                    number += 1
                first += min(size, batch.num_rows - start)
        fewest = 0 if self.blind else 2
        if first < fewest:
            raise TableError(f"The table has {counted(first, 'row')}; at least two are needed.")
        if used < fewest:
            raise TableError("Only one row is new, and at least two are needed. It can be released with the next ones.")

    def _piece(self, number: int, first: int, batch: pa.RecordBatch, seen: dict[int, int]) -> Piece:
        rows = np.arange(first, first + batch.num_rows)
        if self.new is not None:
            keep = self.new[first : first + batch.num_rows]
            rows, batch = rows[keep], batch.filter(pa.array(keep))
        if self.encoding.schema.person is not None:
            keep = self._within_cap(person_codes(*self.encoding.people(batch), first), seen)
            if not keep.all():
                rows, batch = rows[keep], batch.filter(pa.array(keep))
        return Piece(number, rows, batch, first)

    def encode(self, piece: Piece | SourceBlock) -> SourceBlock:
        """The encoded rows of a piece; changes nothing, so that several threads may encode."""
        if isinstance(piece, SourceBlock):
            return piece
        encoding, batch, first = self.encoding, piece.batch, piece.first_row
        room = np.empty((batch.num_rows, encoding.width), order="F")
        unknown = BLIND if self.blind else REFUSE
        try:
            encoded = encoding.encode(batch, self.out_of_bounds, unknown=unknown, first_row=first, out=room)
            rows, X, codes, told = piece.rows, encoded.X, None, self.told(piece)
            if self.labelled and encoding.schema.label is not None:
                codes = encoding.encode_label(batch, unknown=unknown, may_be_empty=self.blind, first_row=first)
                if self.blind and not (there := codes >= 0).all():
                    rows, X, codes, told = rows[there], X[there], codes[there], None
        except TableError as error:
            raise TableError(self.table.told_where(str(error))) from None
        return SourceBlock(X, codes, piece.number, encoded.clipped, told, encoded.ends, rows=rows)

    @property
    def known_by(self) -> tuple[str, ...]:
        """Names of the columns by which a row is known again."""
        label = self.encoding.schema.label
        named = [column.name for column in self.encoding.schema.private]
        return (*named, *([label.name] if label is not None and self.labelled else []))

    def told(self, piece: Piece) -> Told | None:
        """Whose rows those of a piece are, where that is asked for."""
        if self.roll is None:
            return None
        batch, names, people = piece.batch, self.known_by, None
        if self.encoding.schema.person is not None:
            hasher = self.roll.hasher
            hashes, _ = person_hashes(*self.encoding.people(batch), piece.first_row, hasher.name_key)
            people = hasher.of_people(hashes)
        return self.roll.told(
            batch.num_rows, lambda place: cell_words(column_of(batch, names[place]), names[place]), people
        )

    def note(self, block: SourceBlock) -> SourceBlock:
        """Count what was clipped, once per pass; keep the block for the next pass where that was asked for."""
        if self._complete:
            return block
        for name, count in block.clipped.items():
            self.clipped[name] = self.clipped.get(name, 0) + count
        if self.keep_in_memory:
            self._kept.append(replace(block, told=None))
        return block

    def each(self, work: Callable[[SourceBlock], Out], after: int = 0) -> Iterator[Out]:
        """Yield what `work` makes of every encoded block, in order; the first `after` are passed by."""

        def encode_and_work(piece: Piece | SourceBlock) -> tuple[SourceBlock, Out]:
            block = self.encode(piece)
            made = work(block)
            if not self.keep_in_memory:  # what is left to note: the memory of the rows is free for the next block
                block = replace(block, X=np.empty((0, block.X.shape[1])), y=None, told=None)
            return block, made

        clipped = self.clipped  # a pass that leaves blocks out cannot count anew
        pieces = (piece for piece in self.pieces() if piece.number >= after)
        for block, made in in_order(pieces, encode_and_work):
            self.note(block)
            yield made
        self._complete = self.keep_in_memory
        if after:
            self.clipped = clipped

    def add_up(self, work: Callable[[SourceBlock], _Sum], seen: Callable[[_Sum], None]) -> _Sum | None:
        """The sum of what `work` makes of every encoded block; None where there are no rows. `seen` is told of every
        summand, in order; of a pass that a killed run had finished, of the sum only."""
        if self.kept is not None and (saved := self.kept.saved_sum()) is not None:
            found: _Sum
            found, self.clipped, self.most_rows_of_a_person = saved
            seen(found)
            return found
        total: _Sum | None = None
        for made in self.each(work):
            total = made if total is None else total + made
            seen(made)
        if self.kept is not None and total is not None:
            self.kept.save_sum((total, self.clipped, self.most_rows_of_a_person))
        return total

    def _within_cap(self, persons: NDArray[np.uint64], seen: dict[int, int]) -> Flags:
        """Which rows are among the first `max_rows_per_person` of their person."""
        unique, inverse, counts = np.unique(persons, return_inverse=True, return_counts=True)
        before = np.array([seen.get(int(person), 0) for person in unique], dtype=np.int64)
        order = np.argsort(inverse, kind="stable")
        starts = np.cumsum(counts) - counts
        rank = np.empty(len(persons), dtype=np.int64)
        rank[order] = np.arange(len(persons)) - np.repeat(starts, counts)
        rank += before[inverse]
        cap = self.max_rows_per_person
        keep = rank < cap if cap is not None else np.ones(len(persons), dtype=bool)
        for person, total in zip(unique, before + counts, strict=True):
            seen[int(person)] = int(total)
        used = before + counts if cap is None else np.minimum(before + counts, cap)
        self.most_rows_of_a_person = max(self.most_rows_of_a_person, int(used.max(initial=0)))
        return keep


def play(
    phases: Iterable[Phase],
    source: Source,
    fingerprint: Fingerprint,
    progress: Progress,
    before_noise: Callable[[], None] = lambda: None,
) -> int:
    """Play all phases; returns the number of rows. The first pass is always made: it reads and checks every value
    before any noise is drawn, and counts and fingerprints the rows for the ledger. Where the end of a phase draws the
    noise that the release rests on, `before_noise` is called first, once."""
    rows: int | None = None
    paid = False
    for phase in phases:
        found = _add_up(phase, source, progress, fingerprint if rows is None else None)
        rows = found.rows if rows is None else rows
        if phase.is_paid_before and not paid:
            before_noise()
            paid = True
        phase.finish(found.statistics)
    return rows or 0


@dataclass
class _Sum:
    """What one block adds, or several."""

    rows: int
    statistics: Any
    sums: NDArray[np.uint64] | None = None
    told: Told | None = None
    """Whose rows were worked through, until the roll has it."""
    ends: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __add__(self, other: _Sum) -> _Sum:
        sums = self.sums if self.sums is None or other.sums is None else self.sums + other.sums
        for name, (low, high) in other.ends.items():
            known = self.ends.get(name, (low, high))
            self.ends[name] = min(low, known[0]), max(high, known[1])
        return _Sum(self.rows + other.rows, self.statistics + other.statistics, sums, ends=self.ends)


def _add_up(phase: Phase, source: Source, progress: Progress, fingerprint: Fingerprint | None) -> _Sum:
    rows = 0

    def work(block: SourceBlock) -> _Sum:
        sums = None if fingerprint is None else fingerprint.sums(block.X)
        return _Sum(len(block.X), phase.observe(block), sums, block.told, dict(block.ends))

    def seen(part: _Sum) -> None:
        nonlocal rows
        rows += part.rows
        if part.told is not None and source.roll is not None:
            source.roll.add(part.told)
        part.told = None
        progress(phase.step, rows, source.table.rows)

    total = source.add_up(work, seen)
    if source.roll is not None and total is not None and len(source.roll) != total.rows:
        for told in source.each(lambda block: block.told):  # a killed run had made this pass, and kept the sums only
            if told is not None:
                source.roll.add(told)
    source.roll = None  # told once
    if total is None:
        return _Sum(0, phase.observe(source.no_rows()))
    source.ends = source.ends or total.ends
    if fingerprint is not None and total.sums is not None:
        fingerprint.merge(total.sums, total.rows)
    return total
