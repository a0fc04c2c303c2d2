"""The engine of a cluster, and tables whose rows stay there. PySpark is an extra: this can be imported without it."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from sfumato.core.errors import UsageError
from sfumato.core.files import write_whole
from sfumato.noise import Streams
from sfumato.release.engines.release import Work, perturber
from sfumato.release.sanitize_options import Options
from sfumato.release.source import Source
from sfumato.release.spark.spark_release import SparkSource, carried, release_in_spark
from sfumato.release.spark.spark_table import Seal, SparkTable, is_one_machine, seal_for
from sfumato.release.write_release import InFolder, Laid
from sfumato.table import Table, open_table
from sfumato.table.csv_table import CsvTable
from sfumato.table.parts import PartsTable
from sfumato.table.readers import ParquetTable
from sfumato.table.tables import BLOCK_ROWS

# Files that Spark's executors read with our own readers: the same rows in the same order as on one machine.


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
    return SparkTable(frame, parts.arrow_schema, seal, read=ReadPieces(parts, tasks), of=table)


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


# A Spark session: started here for one machine, or somebody's own, checked for what a secret needs to travel.


MISSING = (
    "--engine spark needs PySpark and Java 17 or newer. Install them: pip install 'sfumato[spark]', and Java from your "
    "system, on Debian: apt-get install default-jre-headless."
)
QUIET = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "FATAL"}
"""What a task fails with is told by us; Java's story of it would be a page on the terminal."""
GUARDED = ("spark.authenticate", "spark.network.crypto.enabled")
SECRET = "spark.authenticate.secret"
MASTERS = ("local", "spark://", "k8s://", "yarn")
"""How Spark's own addresses begin."""


def check_installed() -> None:
    """One line that says what to install, before anything is read."""
    home = os.environ.get("JAVA_HOME")  # Spark looks there first, and then nowhere else
    java = shutil.which(Path(home) / "bin" / "java" if home else "java")
    if find_spec("pyspark") is None or (java is None and not home):
        raise UsageError(MISSING)
    if java is None:
        raise UsageError(
            f"JAVA_HOME is {home}, and there is no bin/java. Correct it, or unset it to use the one on PATH."
        )


@contextmanager
def running_session(master: str | None) -> Iterator[Any]:
    """The session that is running already, or a new one that ends with us."""
    if master is not None and not master.startswith(MASTERS):
        raise UsageError(
            f"--master {master} is no address of Spark. Examples: local[4], spark://host:7077, k8s://host."
        )
    check_installed()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        if master is not None and running.sparkContext.master != master:
            raise UsageError(f"A Spark session of {running.sparkContext.master} is running. Stop it, or use it.")
        yield running
        return
    master = master or "local[*]"
    settings = {**QUIET, "spark.io.encryption.enabled": "true"}
    with _own_settings(master, settings):
        builder = SparkSession.builder.master(master).appName("sfumato")
        for name, value in settings.items():
            builder = builder.config(name, value)
        try:
            started = builder.getOrCreate()
        except Exception as error:  # py4j's and Java's errors have no common parent
            raise UsageError(f"Spark could not start at {master}: {_reason(error)} {_hint(error, master)}") from None
    try:
        yield started
    finally:
        started.stop()


@contextmanager
def _own_settings(master: str, settings: dict[str, str]) -> Iterator[None]:
    """On this machine: on the loopback alone, this Python, and a secret of its own where there are several processes.

    The secret goes into a private file, for what is given as a setting stands in the list of processes.
    """
    if not master.startswith("local"):
        yield
        return
    folder = Path(tempfile.mkdtemp(prefix="sfumato-"))
    mine = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    if not is_one_machine(master) and "SPARK_CONF_DIR" not in os.environ:
        lines = [f"{name} true" for name in GUARDED] + [f"{SECRET} {secrets.token_hex(32)}"]
        write_whole(folder / "spark-defaults.conf", "\n".join(lines), private=True)
        mine["SPARK_CONF_DIR"] = str(folder)
    settings["spark.driver.bindAddress"] = "127.0.0.1"
    before = {name: os.environ.get(name) for name in mine}
    os.environ.update({name: value for name, value in mine.items() if before[name] is None})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
        shutil.rmtree(folder, ignore_errors=True)


def checked_secret(master: str, conf: dict[str, str]) -> str | None:
    """Spark's own secret; refused where the run key would cross a network that is not authenticated and encrypted."""
    if is_one_machine(master):
        return None
    off = [name for name in GUARDED if conf.get(name, "false").lower() != "true"]
    if off or not conf.get(SECRET):
        missing = " and ".join([f"{name} true" for name in off] + ([] if conf.get(SECRET) else [f"a {SECRET}"]))
        raise UsageError(
            f"The key of the noise travels to executors, so {master} needs {missing}. Put it into spark-defaults.conf, "
            "readable by you alone. Only on one machine (--master local[*]) it is not needed."
        )
    return conf[SECRET]


def settings_of(running: Any) -> dict[str, str]:
    """What the session was started with."""
    return dict(running.sparkContext.getConf().getAll())


def _reason(error: Exception) -> str:
    """What Java says was wrong, or else the first line."""
    text = str(error).strip() or type(error).__name__
    found = re.search(r"^(?:: |Caused by: )[\w.$]+: (.+)$", text, re.MULTILINE)
    return (found[1] if found else text.splitlines()[0])[:200]


def _hint(error: Exception, master: str) -> str:
    if "JAVA_GATEWAY_EXITED" in str(error) or "UnsupportedClassVersion" in str(error):
        return f"What Java said stands above. Is it version 17 or newer? {MISSING}"
    return "" if master.startswith("local") else "Does a cluster run there, and can it be reached from here?"


class InSpark:
    """Spark's executors."""

    source: ClassVar[type[Source]] = SparkSource

    def opened(self, table: Any, options: Options) -> AbstractContextManager[Table]:
        return table_in_spark(table, options.master)

    def streams(self, streams: Streams) -> Streams:
        return carried(streams)

    def perturbed(self, work: Work) -> Iterator[Laid]:
        if not isinstance(work.landing, InFolder):
            raise UsageError("--engine spark writes to a folder. Say where, with --out.")
        return release_in_spark(work, perturber(work.mechanism, work.streams, work.response), work.landing.folder)


@contextmanager
def table_in_spark(table: Any, master: str | None = None) -> Iterator[SparkTable]:
    """A data frame of Spark, or files, as a table whose rows stay with the executors."""
    if is_frame(table):
        from pyspark.sql.pandas.types import to_arrow_schema

        with _sealed(table.sparkSession) as seal:
            yield SparkTable(table, to_arrow_schema(table.schema), seal)
        return
    opened = open_table(table)
    with running_session(master) as running, _sealed(running) as seal:
        yield files_in_spark(running, opened, seal)


def is_frame(table: Any) -> bool:
    """Whether it is a data frame of Spark."""
    return any(parent.__module__.startswith("pyspark.sql") for parent in type(table).__mro__)


@contextmanager
def _sealed(running: Any) -> Iterator[Seal]:
    master = running.sparkContext.master
    with seal_for(master, checked_secret(master, settings_of(running))) as seal:
        yield seal
