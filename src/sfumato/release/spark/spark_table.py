"""A table whose rows stay with Spark's executors: they observe it, and only what was found comes to the driver.

Every partition gives one sealed finding. Findings are merged as a tree, a few partitions at a time, and the last merge
is made by an executor too: the driver gets one row, whatever the size of the table.
"""

from __future__ import annotations

import os
import pickle
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from operator import or_
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sfumato.core import errors
from sfumato.core.array_types import Codes
from sfumato.core.errors import SfumatoError, TableError, UsageError
from sfumato.core.files import write_whole
from sfumato.table import BLOCK_ROWS, Table
from sfumato.table.csv_table import CsvTable
from sfumato.table.readers import ParquetTable, PartsTable
from sfumato.table.tables import bare, resized

# What travels to Spark's tasks and back is sealed: nothing private stands in a closure, a log or a spilled file.

VARIABLE = "_SPARK_AUTH_SECRET"
"""Where Spark hands its secret to executors, which hand it on to their Python processes."""
INFO, NONCE_BYTES, SALT_BYTES = b"sfumato/spark/seal/1", 12, 16


@dataclass(frozen=True)
class Seal:
    """Says where the secret is, and never what it is: this is all that a closure holds in the clear."""

    salt: bytes
    file: str | None = None

    def close(self, value: Any) -> bytes:
        """The value, encrypted; functions that were defined anywhere travel as well."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + AESGCM(self._key()).encrypt(nonce, _dumps(value), INFO)

    def open(self, sealed: bytes) -> Any:
        """The inverse of `close`; what was not closed under the same secret is never looked at."""
        try:
            plain = AESGCM(self._key()).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], INFO)
        except InvalidTag:
            raise UsageError(
                "A task of another Spark application, or an executor with another spark.authenticate.secret, answered. "
                "Nothing was released."
            ) from None
        return pickle.loads(plain)

    def _key(self) -> bytes:
        secret = Path(self.file).read_bytes() if self.file else os.environ.get(VARIABLE, "").encode()
        if not secret:
            raise UsageError(
                f"Executors do not hold Spark's secret ({VARIABLE}), so the run key cannot reach them. Standalone and "
                "Kubernetes clusters hand it to them; on YARN, use a client of one machine (--master local[*])."
            )
        return HKDF(algorithm=SHA256(), length=32, salt=self.salt, info=INFO).derive(secret)


@contextmanager
def seal_for(master: str, secret: str | None) -> Iterator[Seal]:
    """The seal of one run: with Spark's own secret, or on one machine with a file of the owner's."""
    if not is_one_machine(master):
        assert secret is not None  # checked when the session was
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = secret  # for this process, which has it from Spark's settings
        try:
            yield Seal(os.urandom(SALT_BYTES))
        finally:
            if before is None:
                os.environ.pop(VARIABLE)
            else:
                os.environ[VARIABLE] = before
        return
    with tempfile.TemporaryDirectory(prefix="sfumato-", ignore_cleanup_errors=True) as folder:  # 0700
        file = Path(folder) / "seal"
        write_whole(file, os.urandom(32), private=True)
        yield Seal(os.urandom(SALT_BYTES), str(file))


def is_one_machine(master: str) -> bool:
    """Whether driver and tasks are threads and children of one process; local-cluster is a cluster that pretends."""
    return master == "local" or master.startswith("local[")


def _dumps(value: Any) -> bytes:
    try:
        from pyspark import cloudpickle
    except ImportError:  # without Spark only our own tests come here, with functions that have a name
        return pickle.dumps(value)
    return bytes(cloudpickle.dumps(value))


Found = TypeVar("Found")
Batches = Iterator[pa.RecordBatch]
FINDINGS = "part long, found binary"
FINDINGS_SCHEMA = pa.schema({"part": pa.int64(), "found": pa.binary()})
FAN = 16
"""Findings that are merged at a time."""


@dataclass(frozen=True)
class Failed:
    """A user's mistake that a task met; it becomes an error on the driver, without Java's long story."""

    kind: str
    message: str


class SparkTable(Table):
    """A data frame of Spark, or the files `of` a table that its executors read: `read` turns what a task is given into
    rows."""

    def __init__(
        self,
        frame: Any,
        schema: pa.Schema,
        seal: Seal,
        *,
        read: Callable[[Batches], Batches] | None = None,
        of: Table | None = None,
    ) -> None:
        super().__init__("The data frame" if of is None else of.where)
        self.frame, self.seal = frame, seal
        self.reader: Callable[[Batches], Batches] = read or as_it_is
        self.files, self.folders = (of.files, of.folders) if of is not None else ((), ())
        self.partitions: int = frame.rdd.getNumPartitions()
        self._rows, self._schema = None if of is None else of.rows, bare(schema)
        self._select(self._schema.names)

    @property
    def arrow_schema(self) -> pa.Schema:
        return self._schema

    @property
    def rows(self) -> int | None:
        return self._rows

    def _batches(self, rows: int) -> Batches:  # noqa: ARG002
        raise TypeError("The rows of this table stay with Spark's executors.")

    def gather(
        self,
        observe: Callable[[Batches], Found],
        merge: Callable[[Found, Found], Found],
        finish: Callable[[Found], Found],
    ) -> Found:
        """What `observe` finds in every partition, merged and finished by the executors."""
        return self.run(lambda _, batches: observe(resized(batches, BLOCK_ROWS)), merge, finish)

    def rows_at(self, wanted: Codes) -> tuple[pa.Table, int]:
        """Rows by their numbers (sorted): every partition is counted, and those that hold any are asked for them."""

        def count(number: int, batches: Batches) -> dict[int, int]:
            return {number: sum(batch.num_rows for batch in batches)}

        counts = self.run(count, or_, as_it_is)
        numbers, total = sorted(counts), sum(counts.values())
        starts = dict(zip(numbers, accumulate((counts[number] for number in numbers), initial=0), strict=False))

        def pick(number: int, batches: Batches) -> dict[int, list[pa.RecordBatch]]:
            found, row = [], starts[number]
            for batch in batches:
                here = wanted[np.searchsorted(wanted, row) : np.searchsorted(wanted, row + batch.num_rows)]
                if len(here):
                    found.append(batch.take(pa.array(here - row)))
                row += batch.num_rows
            return {number: found}

        picked = self.run(pick, or_, as_it_is)
        found = [batch for number in numbers for batch in picked[number]]
        schema = self.arrow_schema
        return pa.Table.from_batches(found).cast(schema) if found else schema.empty_table(), total

    def run(
        self,
        observe: Callable[[int, Batches], Found],
        merge: Callable[[Found, Found], Found],
        finish: Callable[[Found], Found],
    ) -> Found:
        """The same, for what has to know the number of its partition."""
        seal = self.seal
        observing, merging = seal.close((self.reader, observe)), seal.close((merge, finish))

        def look(batches: Batches) -> Batches:
            return observed(seal, observing, partition_number(), batches)

        level, parts = self.frame.mapInArrow(look, FINDINGS), self.partitions
        while parts > FAN:
            parts = -(-parts // FAN)
            level = level.repartition(parts, "part").mapInArrow(lambda b: merged(seal, merging, b, FAN), FINDINGS)
        level = level.repartition(1).mapInArrow(lambda b: merged(seal, merging, b, None), FINDINGS)
        with tasks_errors():
            [row] = level.collect()
        found = seal.open(bytes(row["found"]))
        if isinstance(found, Failed):
            kind = getattr(errors, found.kind, TableError)
            raise kind(found.message)
        return found  # type: ignore[no-any-return]


@contextmanager
def tasks_errors() -> Iterator[None]:
    """Our own error that a task raised becomes that error again, without Java's long story of it."""
    try:
        yield
    except Exception as error:  # py4j's errors have no common parent that is importable without it
        found = re.search(rf"\b{re.escape(errors.__name__)}\.(\w+): (.+)", str(error))
        if found is None:
            raise
        kind = getattr(errors, found[1], TableError)
        raise kind(found[2].strip()) from None


def as_it_is(found: Found) -> Found:
    """Nothing is left behind where it was found."""
    return found


def partition_number() -> int:
    """Which partition a task works on: the same for every attempt at it."""
    from pyspark import TaskContext

    return int(TaskContext.get().partitionId())


def observed(seal: Seal, sealed: bytes, number: int, batches: Batches) -> Batches:
    """One partition's finding, as the one row that the task returns."""
    read, observe = seal.open(sealed)
    try:
        found = observe(number, read(batches))
    except SfumatoError as error:
        found = Failed(type(error).__name__, told_where(str(error), number, read))
    yield _row(number // FAN, seal.close((number, found)))


def told_where(message: str, number: int, read: Any) -> str:
    """An error of a task, with the place from which it counts rows."""
    names_a_row = re.search(r"\brow \d", message) is not None
    begins = f", which begins in {read.first_file(number)}" if hasattr(read, "first_file") else ""
    return f"{message} ({'Rows are counted within' if names_a_row else 'In'} partition {number}{begins}.)"


def merged(seal: Seal, sealed: bytes, batches: Batches, fan: int | None) -> Batches:
    """Findings that met in one task, in the order of their partitions: one for every group, or the last one."""
    merge, finish = seal.open(sealed)
    groups: dict[int, list[tuple[int, Any]]] = {}
    for batch in batches:
        for part, found in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            groups.setdefault(part if fan else 0, []).append(seal.open(found))
    for part, findings in groups.items():
        findings.sort(key=lambda finding: finding[0])
        first, total = findings[0]
        for _, found in findings[1:]:
            if isinstance(total, Failed):
                break
            total = found if isinstance(found, Failed) else merge(total, found)
        if fan:
            yield _row(part // fan, seal.close((first, total)))
        else:
            yield _row(0, seal.close(total if isinstance(total, Failed) else finish(total)))


def _row(part: int, found: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"part": [part], "found": [found]}, schema=FINDINGS_SCHEMA)


# Files that Spark's executors read with our own readers: the same rows in the same order as on one machine.

MOST_ROWS, FEWEST_ROWS = 1 << 20, 1 << 16
TASK_BYTES = 1 << 26
"""Files of unknown numbers of rows are read together up to this size."""
Part = tuple[int, tuple[int, ...] | None]
"""A part of the table by its place, and which row groups of it; None for all of it."""


@dataclass(frozen=True)
class ReadPieces:
    """What a task that is given numbers does: read the pieces of these numbers."""

    table: PartsTable
    tasks: tuple[tuple[Part, ...], ...]

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
    return SparkTable(frame, parts.arrow_schema, seal, read=ReadPieces(parts, tasks), of=table)


def deal(table: PartsTable, workers: int) -> list[list[Part]]:
    """Consecutive pieces of about the same size for every task; large Parquet files are cut between row groups."""
    rows = table.rows
    wanted = MOST_ROWS if rows is None else max(FEWEST_ROWS, min(MOST_ROWS, rows // (4 * workers)))
    tasks: list[list[Part]] = [[]]
    filled = 0.0
    for place, part in enumerate(table.parts):
        pieces: list[tuple[Part, float]]
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
