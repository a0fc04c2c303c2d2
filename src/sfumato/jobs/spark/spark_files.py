"""Files that Spark's executors read with our own readers: the same rows in the same order as on one machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sfumato.errors import UsageError
from sfumato.jobs.spark.sealed import Seal
from sfumato.jobs.spark.spark_table import SparkTable
from sfumato.table import Table
from sfumato.table.csv_table import CsvTable
from sfumato.table.parts import PartsTable
from sfumato.table.readers import ParquetTable
from sfumato.table.tables import BLOCK_ROWS

MOST_ROWS, FEWEST_ROWS = 1 << 20, 1 << 16
TASK_BYTES = 1 << 26
"""Files of unknown numbers of rows are read together up to this size."""
Piece = tuple[int, tuple[int, ...] | None]
"""A part of the table by its place, and which row groups of it; None for all of it."""


@dataclass(frozen=True)
class ReadPieces:
    """What a task that is given numbers does: read the pieces of these numbers."""

    table: PartsTable
    tasks: tuple[tuple[Piece, ...], ...]

    def first_file(self, number: int) -> str:
        """The file in which the task of this number begins."""
        return self.table.parts[self.tasks[number][0][0]].where

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for part, groups in self.tasks[number]:
                    yield from self.table.of_part(part, BLOCK_ROWS, groups)


def files_in_spark(running: Any, table: Table, seal: Seal) -> SparkTable:
    """A table of files, dealt to the executors; they must see the files under the same paths."""
    if not table.files:
        raise UsageError("--engine spark reads files or a data frame of Spark. Write the table to a file first.")
    parts = table if isinstance(table, PartsTable) else PartsTable(table.where, [table])
    for part in parts.parts:
        if isinstance(part, CsvTable):
            if part.decimal != ".":
                raise UsageError("--decimal , cannot be used with --engine spark. Write the table as Parquet first.")
            part.read_as({})  # text, whose meaning the schema settles: no row is read here to guess types
    tasks = tuple(tuple(task) for task in deal(parts, running.sparkContext.defaultParallelism))
    frame = running.range(0, len(tasks), 1, len(tasks))
    return SparkTable(
        frame,
        parts.arrow_schema,
        seal,
        read=ReadPieces(parts, tasks),
        where=table.where,
        rows=parts.rows,
        files=table.files,
        folders=table.folders,
    )


def deal(table: PartsTable, workers: int) -> list[list[Piece]]:
    """Consecutive pieces of about the same size for every task; large Parquet files are cut between row groups."""
    rows = table.rows
    wanted = MOST_ROWS if rows is None else max(FEWEST_ROWS, min(MOST_ROWS, rows // (4 * workers)))
    tasks: list[list[Piece]] = [[]]
    filled = 0.0
    for place, part in enumerate(table.parts):
        pieces: list[tuple[Piece, float]]
        if isinstance(part, ParquetTable):
            pieces = [((place, (group,)), count / wanted) for group, count in enumerate(part.row_groups)]
        else:
            pieces = [((place, None), sum(file.stat().st_size for file in part.files) / TASK_BYTES)]
        for piece, share in pieces:
            if tasks[-1] and filled + share > 1:
                tasks.append([])
                filled = 0.0
            tasks[-1].append(piece)
            filled += share
    return tasks
