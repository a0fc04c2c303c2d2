"""Perturb every partition where it lies, shuffle the rows by random keys, and lay them down in one file."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import TableError
from sfumato.jobs.layout import Layout
from sfumato.jobs.progress import Progress
from sfumato.jobs.source import SourceBlock
from sfumato.jobs.spark.sealed import Seal
from sfumato.jobs.spark.spark_source import CHANGED, Digest, Encoder, SparkSource
from sfumato.jobs.spark.spark_table import Batches, SparkTable, partition_number, tasks_errors
from sfumato.jobs.write_release import Laid
from sfumato.mechanisms import Block
from sfumato.noise import Streams

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


def release_in_spark(
    source: SparkSource,
    perturb: Callable[[SourceBlock], Block],
    layout: Layout,
    streams: CarriedStreams,
    folder: Path,
    rows: int,
    progress: Progress,
) -> Iterator[Laid]:
    """Released rows in random order, with the numbers of their source rows.

    Executors write them into parts inside the folder that is not yet the release, each part whole or not at all. Here
    they are joined into one file: they are perturbed by now.
    """
    table = source.table
    assert isinstance(table, SparkTable)
    width = layout.mechanism.recipe_.width
    labelled = source.labelled and source.encoding.schema.label is not None
    written = layout.table(np.empty((0, width)), np.empty(0, dtype=np.int64) if labelled else None).schema
    plain = pa.schema([pa.field(one.name, _plain(one.type)) for one in written])
    sealed = table.seal.close(
        (table.reader, source.encoder, source.starts(), source.looks, perturb, layout, streams, plain)
    )
    seal = table.seal

    def perturbed(batches: Batches) -> Batches:
        return perturb_partition(seal, sealed, partition_number(), batches)

    staged = folder / STAGED
    frame = table.frame.mapInArrow(perturbed, spark_schema(plain))
    shuffled = frame.repartition(table.partitions, ORDER).sortWithinPartitions(ORDER).drop(ORDER)
    progress("Perturbing", 0, rows)
    with tasks_errors():
        shuffled.write.parquet(staged.absolute().as_uri(), compression="none")
    done = 0
    for part in sorted(staged.glob("part-*.parquet")):
        with pq.ParquetFile(part, pre_buffer=False, buffer_size=1 << 16) as file:
            for batch in file.iter_batches():
                numbers = batch.column(batch.schema.get_field_index(SOURCE)).to_numpy()
                done += batch.num_rows
                yield pa.Table.from_batches([batch]).select(written.names).cast(written), numbers
                progress("Writing", done, rows)
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
