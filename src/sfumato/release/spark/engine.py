"""The engine of a cluster, and tables whose rows stay there. PySpark is an extra: this can be imported without it."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from importlib.util import find_spec
from itertools import accumulate
from operator import add
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.core.errors import TableError, UsageError
from sfumato.core.files import write_whole
from sfumato.core.wording import counted
from sfumato.noise import Streams
from sfumato.noise.streams import content_hash
from sfumato.release.engine import Engine, Work, perturber
from sfumato.release.sanitize_options import Options
from sfumato.release.source import Piece, Source, SourceBlock, block_rows_for
from sfumato.release.spark.spark_table import (
    Batches,
    Seal,
    SparkTable,
    as_it_is,
    files_in_spark,
    is_one_machine,
    partition_number,
    seal_for,
    tasks_errors,
)
from sfumato.release.write_release import InFolder, Laid
from sfumato.table import Table, open_table
from sfumato.table.tables import resized

# A private table in Spark's partitions as encoded blocks: every pass is made by the executors, and must see the same.
#
# Blocks are numbered by partition and place in it, never by attempt. The first pass notes what every partition holds,
# as a hash of its blocks. Every later pass, recomputed tasks and speculative copies included, has to find the same or
# fails: so a row is released once, with the noise of its block, whatever died on the way.

CHANGED = (
    "The table was different when it was read again: a file changed, or the data frame is computed anew each time, in "
    "another order. Nothing was released. Write it to Parquet (or use localCheckpoint) and release that."
)
PARTITION = 1 << 32
"""Blocks that a partition may have: block number = partition * PARTITION + place."""


@dataclass(frozen=True)
class Look:
    """What one partition held: its rows, and a hash of its blocks in order."""

    rows: int = 0
    digest: bytes = b""

    def then(self, block: SourceBlock) -> Look:
        """With one more block."""
        content = self.digest + content_hash(block.X.T, block.y)
        return Look(self.rows + len(block.X), hashlib.sha256(content).digest())


def blocks_of(encoder: Source, number: int, batches: Iterator[pa.RecordBatch], first: int = 0) -> Iterator[SourceBlock]:
    """The blocks of one partition, whose rows are counted from `first`."""
    row = 0
    for place, batch in enumerate(resized(batches, block_rows_for(encoder.encoding.width))):
        rows = np.arange(first + row, first + row + batch.num_rows)
        yield encoder.encode(Piece(number * PARTITION + place, rows, batch, row))
        row += batch.num_rows


@dataclass(frozen=True)
class _Pass:
    """What a pass found in one partition, or in several."""

    total: Any = None
    clipped: Mapping[str, int] = field(default_factory=dict)
    looks: Mapping[int, Look] = field(default_factory=dict)

    def __add__(self, other: _Pass) -> _Pass:
        totals = [one.total for one in (self, other) if one.total is not None]
        clipped = Counter(self.clipped) + Counter(other.clipped)
        return _Pass(reduce(add, totals) if totals else None, clipped, {**self.looks, **other.looks})


@dataclass
class SparkSource(Source):
    """The same source as ever, but for who goes through it."""

    elsewhere = True
    looks: Mapping[int, Look] = field(default_factory=dict)

    @property
    def encoder(self) -> Source:
        """All that a task needs to encode the rows that it is given; it travels."""
        none = open_table(self.table.arrow_schema.empty_table())
        return Source(none, self.encoding, self.out_of_bounds, labelled=self.labelled, blind=self.blind)

    def add_up(self, work: Callable[[SourceBlock], Any], seen: Callable[[Any], None]) -> Any:
        encoder = self.encoder

        def observe(number: int, batches: Iterator[pa.RecordBatch]) -> _Pass:
            found, look = _Pass(), Look()
            for block in blocks_of(encoder, number, batches):
                found += _Pass(work(block), block.clipped)
                look = look.then(block)
            return replace(found, looks={number: look})

        assert isinstance(self.table, SparkTable)
        found = self.table.run(observe, add, as_it_is)
        rows = sum(look.rows for look in found.looks.values())
        if rows < 2 and not self.blind:
            raise TableError(f"The table has {counted(rows, 'row')}; at least two are needed.")
        if self.looks and found.looks != self.looks:
            raise TableError(CHANGED)
        self.looks, self.clipped = found.looks, dict(found.clipped)
        if found.total is not None:
            seen(found.total)
        return found.total


ORDER, SOURCE = "__order", "__source"
STAGED = ".parts"


class CarriedStreams(Streams):
    """Streams that tasks may take along. They travel sealed, and only so: see `sealed`."""

    def __reduce__(self) -> Any:
        return partial(CarriedStreams, reproducible=self.reproducible), (self.export_key(),)


def perturb_partition(seal: Seal, sealed: bytes, number: int, batches: Batches) -> Batches:
    """The released rows of one partition; fails where it does not hold what the fit saw."""
    read, encoder, starts, looks, perturb, layout, streams, schema = seal.open(sealed)
    look = Look()
    for block in blocks_of(encoder, number, read(batches), starts.get(number, 0)):
        look = look.then(block)
        released = perturb(block)
        rows = layout.table(released.X, released.y).cast(schema)
        # the keys are the block's own: another attempt deals its rows alike
        order = streams.generator(block.number, b"", b"spark order").integers(1 << 63, size=rows.num_rows)
        rows = rows.append_column(SOURCE, pa.array(released.source.astype(np.int64)))
        yield from rows.append_column(ORDER, pa.array(order.astype(np.int64))).combine_chunks().to_batches()
    if look != looks.get(number, Look()):
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
    The secret goes into a private file, for what is given as a setting stands in the list of processes."""
    if not master.startswith("local"):
        yield
        return
    mine = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    settings["spark.driver.bindAddress"] = "127.0.0.1"
    with tempfile.TemporaryDirectory(prefix="sfumato-", ignore_cleanup_errors=True) as folder:
        if not is_one_machine(master) and "SPARK_CONF_DIR" not in os.environ:
            lines = [f"{name} true" for name in GUARDED] + [f"{SECRET} {secrets.token_hex(32)}"]
            write_whole(Path(folder) / "spark-defaults.conf", "\n".join(lines), private=True)
            mine["SPARK_CONF_DIR"] = folder
        mine = {name: value for name, value in mine.items() if name not in os.environ}
        os.environ.update(mine)
        try:
            yield
        finally:
            for name in mine:
                os.environ.pop(name, None)


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


def _reason(error: Exception) -> str:
    """What Java says was wrong, or else the first line."""
    text = str(error).strip() or type(error).__name__
    found = re.search(r"^(?:: |Caused by: )[\w.$]+: (.+)$", text, re.MULTILINE)
    return (found[1] if found else text.splitlines()[0])[:200]


def _hint(error: Exception, master: str) -> str:
    if "JAVA_GATEWAY_EXITED" in str(error) or "UnsupportedClassVersion" in str(error):
        return f"What Java said stands above. Is it version 17 or newer? {MISSING}"
    return "" if master.startswith("local") else "Does a cluster run there, and can it be reached from here?"


class InSpark(Engine):
    """Spark's executors."""

    source: ClassVar[type[Source]] = SparkSource

    def opened(self, table: Any, options: Options) -> AbstractContextManager[Table]:
        return table_in_spark(table, options.master)

    def streams(self, streams: Streams) -> Streams:
        return CarriedStreams(streams.export_key(), reproducible=streams.reproducible)

    def perturbed(self, work: Work) -> Iterator[Laid]:
        """Released rows in random order, with the numbers of their source rows. Executors write them into parts inside
        the folder that is not yet the release, each part whole or not at all. Here they are joined into one file: they
        are perturbed by now."""
        if not isinstance(work.landing, InFolder):
            raise UsageError("--engine spark writes to a folder. Say where, with --out.")
        perturb = perturber(work.layout.mechanism, work.streams, work.response)
        source, layout, rows = work.source, work.layout, work.released
        table = source.table
        assert isinstance(source, SparkSource)
        assert isinstance(table, SparkTable)
        width = layout.mechanism.recipe_.width
        labelled = source.labelled and source.encoding.schema.label is not None
        written = layout.table(np.empty((0, width)), np.empty(0, dtype=np.int64) if labelled else None).schema
        plain = pa.schema([pa.field(one.name, _plain(one.type)) for one in written])
        numbers = sorted(source.looks)
        firsts = accumulate((source.looks[number].rows for number in numbers), initial=0)
        starts = dict(zip(numbers, firsts, strict=False))  # number of the first row of every partition
        seal = table.seal
        sealed = seal.close((table.reader, source.encoder, starts, source.looks, perturb, layout, work.streams, plain))

        def perturbed(batches: Batches) -> Batches:
            return perturb_partition(seal, sealed, partition_number(), batches)

        staged = work.landing.folder / STAGED
        frame = table.frame.mapInArrow(perturbed, spark_schema(plain))
        shuffled = frame.repartition(table.partitions, ORDER).sortWithinPartitions(ORDER).drop(ORDER)
        work.progress("Perturbing", 0, rows)
        with tasks_errors():
            shuffled.write.parquet(staged.absolute().as_uri(), compression="none")
        done = 0
        for part in sorted(staged.glob("part-*.parquet")):
            with pq.ParquetFile(part, pre_buffer=False, buffer_size=1 << 16) as file:
                for batch in file.iter_batches():
                    rows_at = batch.column(batch.schema.get_field_index(SOURCE)).to_numpy()
                    done += batch.num_rows
                    yield pa.Table.from_batches([batch]).select(written.names).cast(written), rows_at
                    work.progress("Writing", done, rows)
            part.unlink()
        shutil.rmtree(staged)


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
    with seal_for(master, checked_secret(master, dict(running.sparkContext.getConf().getAll()))) as seal:
        yield seal
