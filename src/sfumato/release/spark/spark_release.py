"""Perturb every partition where it lies, shuffle the rows by random keys, and lay them down in one file."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.core.errors import TableError
from sfumato.core.wording import counted
from sfumato.mechanisms import Block
from sfumato.noise import Streams, content_hash
from sfumato.release.engines.release import Work
from sfumato.release.source import Piece, Source, SourceBlock, block_rows_for
from sfumato.release.spark.spark_table import Batches, Seal, SparkTable, as_it_is, partition_number, tasks_errors
from sfumato.release.write_release import Laid
from sfumato.table import Encoding, Table
from sfumato.table.tables import resized

# A private table in Spark's partitions as encoded blocks: every pass is made by the executors, and must see the same.
#
# Blocks are numbered by partition and place in it, never by attempt. The first pass notes what every partition holds,
# as a hash of its blocks. Every later pass, recomputed tasks and speculative copies included, has to find the same or
# fails: so a row is released once, with the noise of its block, whatever died on the way.


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


ORDER, SOURCE = "__order", "__source"
STAGED = ".parts"


class CarriedStreams(Streams):
    """Streams that tasks may take along. They travel sealed, and only so: see `sealed`."""

    def __reduce__(self) -> Any:
        return _carried, (self.export_key(), self.reproducible)


def _carried(key: bytes, reproducible: bool) -> CarriedStreams:
    return CarriedStreams(key, reproducible=reproducible)


def carried(streams: Streams) -> CarriedStreams:
    """The same streams, able to travel."""
    return CarriedStreams(streams.export_key(), reproducible=streams.reproducible)


def release_in_spark(work: Work, perturb: Callable[[SourceBlock], Block], folder: Path) -> Iterator[Laid]:
    """Released rows in random order, with the numbers of their source rows.

    Executors write them into parts inside the folder that is not yet the release, each part whole or not at all. Here
    they are joined into one file: they are perturbed by now.
    """
    source, layout, rows = work.source, work.layout, work.released
    table = source.table
    assert isinstance(source, SparkSource)
    assert isinstance(table, SparkTable)
    width = layout.mechanism.recipe_.width
    labelled = source.labelled and source.encoding.schema.label is not None
    written = layout.table(np.empty((0, width)), np.empty(0, dtype=np.int64) if labelled else None).schema
    plain = pa.schema([pa.field(one.name, _plain(one.type)) for one in written])
    sealed = table.seal.close(
        (table.reader, source.encoder, source.starts(), source.looks, perturb, layout, work.streams, plain)
    )
    seal = table.seal

    def perturbed(batches: Batches) -> Batches:
        return perturb_partition(seal, sealed, partition_number(), batches)

    staged = folder / STAGED
    frame = table.frame.mapInArrow(perturbed, spark_schema(plain))
    shuffled = frame.repartition(table.partitions, ORDER).sortWithinPartitions(ORDER).drop(ORDER)
    work.progress("Perturbing", 0, rows)
    with tasks_errors():
        shuffled.write.parquet(staged.absolute().as_uri(), compression="none")
    done = 0
    for part in sorted(staged.glob("part-*.parquet")):
        with pq.ParquetFile(part, pre_buffer=False, buffer_size=1 << 16) as file:
            for batch in file.iter_batches():
                numbers = batch.column(batch.schema.get_field_index(SOURCE)).to_numpy()
                done += batch.num_rows
                yield pa.Table.from_batches([batch]).select(written.names).cast(written), numbers
                work.progress("Writing", done, rows)
        part.unlink()
    shutil.rmtree(staged)


def perturb_partition(seal: Seal, sealed: bytes, number: int, batches: Batches) -> Batches:
    """The released rows of one partition; fails where it does not hold what the fit saw."""
    read, encoder, starts, looks, perturb, layout, streams, schema = seal.open(sealed)
    assert isinstance(encoder, Encoder)
    digest = Digest()
    for block in encoder.blocks(number, read(batches), starts.get(number, 0)):
        digest.add(block)
        released = perturb(block)
        rows = layout.table(released.X, released.y).cast(schema)
        # the keys are the block's own: another attempt deals its rows alike
        order = streams.generator(block.number, b"", b"spark order").integers(1 << 63, size=rows.num_rows)
        rows = rows.append_column(SOURCE, pa.array(released.source.astype(np.int64)))
        yield from rows.append_column(ORDER, pa.array(order.astype(np.int64))).combine_chunks().to_batches()
    if digest.look() != looks.get(number, Digest().look()):
        raise TableError(CHANGED)


def spark_schema(schema: pa.Schema) -> Any:
    """Spark's names for the release's types, with the two columns that only travel."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema.append(pa.field(SOURCE, pa.int64())).append(pa.field(ORDER, pa.int64())))


def _plain(kind: pa.DataType) -> pa.DataType:
    """As Spark has it: no dictionaries, no unsigned numbers."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_large_string(kind) or pa.types.is_string(kind):
        return pa.string()
    return pa.int64() if pa.types.is_integer(kind) else kind
