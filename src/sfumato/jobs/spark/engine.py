"""The engine of a cluster, and tables whose rows stay there. PySpark is an extra: this can be imported without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sfumato.errors import UsageError
from sfumato.jobs.engines import perturber
from sfumato.jobs.engines.here import Work
from sfumato.jobs.source import Source
from sfumato.jobs.spark.sealed import Seal, seal_for
from sfumato.jobs.spark.session import checked_secret, running_session, settings_of
from sfumato.jobs.spark.spark_files import files_in_spark
from sfumato.jobs.spark.spark_release import CarriedStreams, carried, release_in_spark
from sfumato.jobs.spark.spark_source import SparkSource
from sfumato.jobs.spark.spark_table import SparkTable
from sfumato.jobs.write_release import InFolder, Laid
from sfumato.noise import Streams
from sfumato.table import open_table


class InSpark:
    """Spark's executors."""

    def source(self, *given: Any, **words: Any) -> Source:
        return SparkSource(*given, **words)

    def streams(self, streams: Streams) -> Streams:
        return carried(streams)

    def laid(self, work: Work) -> Iterator[Laid]:
        assert isinstance(work.source, SparkSource)
        assert isinstance(work.streams, CarriedStreams)
        if not isinstance(work.landing, InFolder):
            raise UsageError("--engine spark writes to a folder. Say where, with --out.")
        perturb = perturber(work.layout.mechanism, work.streams, work.response, work.counts)
        return release_in_spark(
            work.source, perturb, work.layout, work.streams, work.landing.folder, work.released, work.progress
        )


@contextmanager
def table_in_spark(table: Any, master: str | None = None) -> Iterator[SparkTable]:
    """A data frame of Spark, or files, as a table whose rows stay with the executors."""
    if is_frame(table):
        with _sealed(table.sparkSession) as seal:
            yield _of_frame(table, seal)
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


def _of_frame(frame: Any, seal: Seal) -> SparkTable:
    from pyspark.sql.pandas.types import to_arrow_schema

    return SparkTable(frame, to_arrow_schema(frame.schema), seal)
