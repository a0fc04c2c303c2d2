"""A data frame in this process that behaves as Spark's where we use it: partitions, attempts, a shuffle by hash."""

from __future__ import annotations

import random
import uuid
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq


class Frame:
    """Lazy, as Spark's: partitions are computed anew by every action; `again` makes some tasks run twice."""

    def __init__(self, compute, again=()):
        self._compute, self._again = compute, frozenset(again)
        self.rdd = SimpleNamespace(getNumPartitions=lambda: len(compute()))
        self.write = SimpleNamespace(parquet=self._write)

    @classmethod
    def of(cls, parts, again=()):
        return cls(lambda: [[part] for part in parts], again)

    def mapInArrow(self, function, schema):  # noqa: ARG002, N802 - Spark's name
        from sfumato.release.spark import engine, spark_table

        def compute():
            made = []
            for number, batches in enumerate(self._compute()):
                for _ in range(2 if number in self._again else 1):  # of a task that runs twice, one result counts
                    for module in (spark_table, engine):
                        module.partition_number = lambda number=number: number
                    found = list(function(iter(batches)))
                made.append(found)
            return made

        return Frame(compute, self._again)

    def repartition(self, count, column=None):
        def compute():
            parts = [[] for _ in range(count)]
            rows = [batch.slice(i, 1) for part in self._compute() for batch in part for i in range(batch.num_rows)]
            random.Random(1).shuffle(rows)  # rows arrive as the network has it
            for row in rows:
                place = 0 if column is None else hash(row.column(row.schema.get_field_index(column))[0].as_py()) % count
                parts[place].append(row)
            return parts

        return Frame(compute, self._again)

    def sortWithinPartitions(self, column):  # noqa: N802 - Spark's name
        def compute():
            tables = [pa.Table.from_batches(part).sort_by(column) for part in self._compute() if part]
            return [table.combine_chunks().to_batches() for table in tables]

        return Frame(compute, self._again)

    def drop(self, column):
        def compute():
            return [[batch.drop_columns([column]) for batch in part] for part in self._compute()]

        return Frame(compute, self._again)

    def collect(self):
        return [row for part in self._compute() for batch in part for row in batch.to_pylist()]

    def _write(self, address, compression):  # noqa: ARG002
        folder = Path(urlparse(address).path)
        folder.mkdir()
        for number, part in enumerate(self._compute()):
            if part:
                pq.write_table(pa.Table.from_batches(part), folder / f"part-{number:05}-{uuid.uuid4()}.parquet")
        (folder / "_SUCCESS").touch()


class Session:
    """As much of a session as files need."""

    sparkContext = SimpleNamespace(defaultParallelism=2, master="local[2]")  # noqa: N815

    def range(self, start, stop, step, partitions):
        assert (start, step, stop) == (0, 1, partitions)
        return Frame.of([pa.record_batch({"id": [number]}) for number in range(stop)])
