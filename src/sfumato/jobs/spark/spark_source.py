"""A private table in Spark's partitions as encoded blocks: every pass is made by the executors, and must see the same.

Blocks are numbered by partition and place in it, never by attempt. The first pass notes what every partition holds, as
a hash of its blocks. Every later pass, recomputed tasks and speculative copies included, has to find the same or fails:
so a row is released once, with the noise of its block, whatever died on the way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from sfumato.errors import TableError
from sfumato.jobs.source import Piece, Source, SourceBlock, block_rows_for
from sfumato.jobs.spark.spark_table import SparkTable, as_it_is
from sfumato.noise import content_hash
from sfumato.table import Encoding, Table
from sfumato.table.tables import resized
from sfumato.wording import counted

Out = TypeVar("Out")
CHANGED = (
    "The table was different when it was read again: a file changed, or the data frame is computed anew each time, in "
    "another order. Nothing was released. Write it to Parquet (or use localCheckpoint) and release that."
)
PARTITION = 1 << 32
"""Blocks that a partition may have: block number = partition * PARTITION + place."""


@dataclass(frozen=True)
class Look:
    """What one partition held: its rows, and a hash of its blocks in order."""

    rows: int
    digest: bytes


@dataclass(frozen=True)
class Encoder:
    """All that a task needs to encode rows; it travels."""

    encoding: Encoding
    out_of_bounds: str
    labelled: bool
    blind: bool = False

    def blocks(self, number: int, batches: Iterator[pa.RecordBatch], first: int = 0) -> Iterator[SourceBlock]:
        """The blocks of one partition, whose rows are counted from `first`."""
        source = Source(_Nowhere(""), self.encoding, self.out_of_bounds, labelled=self.labelled, blind=self.blind)
        row = 0
        for place, batch in enumerate(resized(batches, block_rows_for(self.encoding.width))):
            rows = np.arange(first + row, first + row + batch.num_rows)
            yield source.encode(Piece(number * PARTITION + place, rows, batch, row))
            row += batch.num_rows


class _Nowhere(Table):
    """An encoder is given its rows; it has no table."""

    @property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema([])

    def _batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        raise TypeError(f"These {rows} rows lie elsewhere.")


class Digest:
    """A hash over the blocks of a partition as they pass."""

    def __init__(self) -> None:
        self._hash, self._rows = hashlib.sha256(), 0

    def add(self, block: SourceBlock) -> None:
        self._hash.update(content_hash(block.X.T, block.y))
        self._rows += len(block.X)

    def look(self) -> Look:
        return Look(self._rows, self._hash.digest())


@dataclass
class _Pass:
    """What a pass found in one partition, or in several."""

    total: Any
    clipped: dict[str, int]
    looks: dict[int, Look]


@dataclass
class SparkSource(Source):
    """The same source as ever, but for who goes through it."""

    looks: dict[int, Look] = field(default_factory=dict)

    def pieces(self) -> Iterator[Piece | SourceBlock]:
        raise TypeError("The rows of this table stay with Spark's executors.")

    @property
    def encoder(self) -> Encoder:
        labelled = self.labelled and self.encoding.schema.label is not None
        return Encoder(self.encoding, self.out_of_bounds, labelled, self.blind)

    def starts(self) -> dict[int, int]:
        """Number of the first row of every partition."""
        starts, row = {}, 0
        for number in sorted(self.looks):
            starts[number] = row
            row += self.looks[number].rows
        return starts

    def add_up(self, work: Callable[[SourceBlock], Out], add: Callable[[Out, Out], Out]) -> Out | None:
        encoder = self.encoder

        def observe(number: int, batches: Iterator[pa.RecordBatch]) -> _Pass:
            total: Any = None
            clipped: dict[str, int] = {}
            digest = Digest()
            for block in encoder.blocks(number, batches):
                made = work(block)
                total = made if total is None else add(total, made)
                _count(clipped, block.clipped)
                digest.add(block)
            return _Pass(total, clipped, {number: digest.look()})

        def merge(one: _Pass, other: _Pass) -> _Pass:
            both = one.total is not None and other.total is not None
            total = add(one.total, other.total) if both else one.total if other.total is None else other.total
            _count(one.clipped, other.clipped)
            return _Pass(total, one.clipped, {**one.looks, **other.looks})

        assert isinstance(self.table, SparkTable)
        found = self.table.run(observe, merge, as_it_is)
        rows = sum(look.rows for look in found.looks.values())
        if rows < 2 and not self.blind:
            raise TableError(f"The table has {counted(rows, 'row')}; at least two are needed.")
        if self.looks and found.looks != self.looks:
            raise TableError(CHANGED)
        self.looks, self.clipped = found.looks, found.clipped
        return found.total  # type: ignore[no-any-return]


def _count(counts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count
