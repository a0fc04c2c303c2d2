"""What a survey keeps: answers and the log of guidance. The same statements on SQLite and PostgreSQL."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from sqlalchemy import Connection, func, insert, select
from sqlalchemy.exc import IntegrityError

from sfumato.core.array_types import Floats
from sfumato.study.protocol.agreed import Head, LogEntry
from sfumato.study.protocol.survey_file import MOST_ANSWERS
from sfumato.study.server.store.database import Database, StorePart, told
from sfumato.study.server.store.log_store import LogStore
from sfumato.study.server.store.sql_tables import CLOSED, WAITING, studies, survey_answers, survey_versions
from sfumato.study.server.store.token_store import CodeStore
from sfumato.study.server.survey.received_answer import Answer

NEW, SAME, DIFFERENT = "new", "same", "different"
AT_ONCE = 500  # names in one statement: SQLite allows 32,766 parameters


@dataclass(frozen=True)
class Version:
    """One version of the guidance with what it was computed from; `inputs` is the published text."""

    entry: LogEntry
    matrix: bytes
    inputs: str
    hour: str

    @property
    def directions(self) -> Floats:
        return np.frombuffer(self.matrix, dtype="<f8").reshape(-1, self.entry.k)


class _CountedBeforeError(Exception):
    """Some of the answers belong to another version already."""


class SurveyStore(StorePart):
    """The part of the store that knows surveys."""

    def __init__(self, database: Database, log: LogStore):
        super().__init__(database)
        self._log = log
        self.codes = CodeStore(database)
        # Of answers there are many: these statements go to the driver as they are. Left to itself SQLite looks through
        # all answers of the study for those that wait.
        sqlite = database.engine.dialect.name == "sqlite"
        place, by = ("?", f" INDEXED BY {WAITING}") if sqlite else ("%s", "")
        self._waiting = f"FROM survey_answers{by} WHERE study = {place} AND batch IS NULL"
        self._mark = (
            f"UPDATE survey_answers SET batch = {place} WHERE study = {place} AND id = {place} AND batch IS NULL"
        )
        self._insert = "INSERT INTO survey_answers (study, id, version, label, bits) VALUES"
        self._row = f"({', '.join([place] * 5)})"

    def add(self, study: str, answers: Sequence[Answer]) -> list[str]:
        """Keep answers in one transaction; for each one whether it is new, the same as before, or not to be kept.

        Usually none comes twice, so nothing is looked up before the database has refused one that it has.
        """
        first: dict[bytes, tuple[Any, ...]] = {}
        for answer in answers:
            first.setdefault(answer.id, _content(answer))
        # One order: no two groups wait for each other.
        rows = [(study, name, *content) for name, content in sorted(first.items())]
        kept, known = set(first), first
        try:
            with self._database.writing() as connection:
                if rows:
                    connection.exec_driver_sql(f"{self._insert} {self._row}", rows)
        except IntegrityError:  # of the group nothing was kept
            with self._database.writing() as connection:
                kept = self._keep_others(connection, rows)
                known = self._known(connection, study, list(first))
        outcomes = []
        for answer in answers:
            if answer.id in kept:
                outcomes.append(NEW)
                kept.remove(answer.id)  # a second one of the same group is a repetition
            else:
                outcomes.append(SAME if known[answer.id] == _content(answer) else DIFFERENT)
        return outcomes

    def _keep_others(self, connection: Connection, rows: Sequence[tuple[Any, ...]]) -> set[bytes]:
        """Keep what is not there; the names of what was kept. What other processes keep meanwhile is no error."""
        kept: set[bytes] = set()
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            values = f"{', '.join([self._row] * len(some))} ON CONFLICT DO NOTHING RETURNING id"
            found = connection.exec_driver_sql(f"{self._insert} {values}", tuple(cell for row in some for cell in row))
            kept.update(bytes(name) for name in found.scalars())
        return kept

    def _known(self, connection: Connection, study: str, names: Sequence[bytes]) -> dict[bytes, tuple[Any, ...]]:
        found: dict[bytes, tuple[Any, ...]] = {}
        table = survey_answers.c
        for start in range(0, len(names), AT_ONCE):
            some = names[start : start + AT_ONCE]
            query = select(table.id, table.version, table.label, table.bits)
            for row in connection.execute(query.where(table.study == study, table.id.in_(some))):
                found[bytes(row.id)] = (row.version, row.label, bytes(row.bits))
        return found

    def count(self, study: str, *, waiting: bool = False) -> int:
        """How many answers there are, or how many no guidance has counted yet."""
        if waiting:
            with self._database.reading() as connection:
                return int(connection.exec_driver_sql(f"SELECT count(*) {self._waiting}", (study,)).scalar_one())
        query = select(func.count()).select_from(survey_answers).where(survey_answers.c.study == study)
        return int(self._database.value(query))

    def waiting(self, study: str) -> list[Answer]:
        """Answers that no guidance has counted yet, in the order of their random names."""
        query = f"SELECT id, version, label, bits {self._waiting} ORDER BY id LIMIT {MOST_ANSWERS}"
        with self._database.reading() as connection:
            rows = connection.exec_driver_sql(query, (study,)).all()
        return [Answer(bytes(name), version, label, bytes(bits)) for name, version, label, bits in rows]

    def answers(self, study: str, version: int) -> Iterator[tuple[int, bytes]]:
        """(class, bits) of every answer that was perturbed by one version, in the order of their random names."""
        table = survey_answers.c
        query = select(table.label, table.bits).where(table.study == study, table.version == version).order_by(table.id)
        with self._database.reading() as connection:
            for row in connection.execute(query):
                yield row.label, bytes(row.bits)

    def closed(self, study: str) -> bool:
        """Whether the owner closed the survey by hand."""
        return bool(self._database.value(select(studies.c.state).where(studies.c.id == study)) == CLOSED)

    def add_version(self, study: str, version: Version, counted: Sequence[bytes]) -> bool:
        """Append a version and mark the answers it counts, all or nothing; False if another process was first."""
        entry = version.entry
        try:
            with self._database.writing() as connection:
                about = {"hour": version.hour, "matrix": version.matrix}
                packed = zlib.compress(version.inputs.encode("ascii"))
                connection.execute(
                    insert(survey_versions).values(study=study, **entry.to_dict(), **about, inputs=packed)
                )
                marked = [(entry.version, study, name) for name in counted]
                if marked and connection.exec_driver_sql(self._mark, marked).rowcount != len(marked):
                    raise _CountedBeforeError
                self._log.append(connection, Head(study, entry.version, entry.hash).entry())
        except (IntegrityError, _CountedBeforeError):
            return False
        return True

    def version(self, study: str, number: int | None = None) -> Version | None:
        """One version, or the latest."""
        table = survey_versions.c
        query = select(survey_versions).where(table.study == study).order_by(table.version.desc()).limit(1)
        if number is not None:
            query = query.where(table.version == number)
        row = self._database.row(query)
        if row is None:
            return None
        return Version(told(LogEntry, row), bytes(row.matrix), zlib.decompress(row.inputs).decode("ascii"), row.hour)

    def latest(self, study: str) -> int:
        """Number of the newest version; 0 before the first."""
        query = select(func.max(survey_versions.c.version)).where(survey_versions.c.study == study)
        return int(self._database.value(query) or 0)

    def log(self, study: str, after: int = 0, limit: int = 1000) -> list[tuple[LogEntry, str]]:
        """Entries after a version, each with the hour it was written."""
        table = survey_versions.c
        wanted = [table[name] for name in (*LogEntry.__dataclass_fields__, "hour")]
        query = select(*wanted).where(table.study == study, table.version > after).order_by(table.version).limit(limit)
        return [(told(LogEntry, row), row.hour) for row in self._database.rows(query)]

    def hour(self) -> str:
        """The hour in UTC: what pages show answers by, and no finer."""
        return datetime.fromtimestamp(self._database.now(), UTC).strftime("%Y-%m-%dT%H")


def _content(answer: Answer) -> tuple[Any, ...]:
    return answer.version, answer.label, answer.bits
