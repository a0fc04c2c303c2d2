"""One database behind the store: SQLite in the data folder, or PostgreSQL by URL."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Executable, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from sfumato.core.errors import UsageError
from sfumato.study.server.settings import Settings

FILE = "sfumato.db"
BUSY_SECONDS = 15
CACHE_KIB = 32 << 10
"""Of a connection to SQLite: answers lie in the order of random names, so that each is on a page of its own."""


class Database:
    """Connections and transactions; the parts of the store are built on it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @contextlib.contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection for queries."""
        with self.engine.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is durable when the block ends, and did nothing if it raises."""
        with self.engine.connect().execution_options(writes=True) as connection, connection.begin():
            yield connection

    def rows(self, query: Executable) -> Sequence[Any]:
        """All rows of a query."""
        with self.reading() as connection:
            return connection.execute(query).all()

    def row(self, query: Executable) -> Any:
        """The only row of a query, or None."""
        with self.reading() as connection:
            return connection.execute(query).one_or_none()

    def value(self, query: Executable) -> Any:
        """The first column of the first row; None where there is none."""
        with self.reading() as connection:
            return connection.execute(query).scalar()

    def change(self, statement: Executable) -> int:
        """One statement, durably; how many rows it touched."""
        with self.writing() as connection:
            return int(connection.execute(statement).rowcount)

    def is_alive(self) -> bool:
        """Whether the database answers."""
        try:
            return bool(self.value(text("SELECT 1")) == 1)
        except DBAPIError:
            return False

    def now(self) -> float:
        """The clock, in one place for tests."""
        return time.time()

    def today(self) -> str:
        """The date in UTC, and no finer."""
        return self.day_of(self.now())

    @staticmethod
    def day_of(seconds: float) -> str:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()


class StorePart:
    """A part of the store; methods may be called from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database


Message = TypeVar("Message")


def told(kind: type[Message], row: Any, **other: Any) -> Message:
    """A row as a message: columns become the fields that are called like them, but for what is said otherwise."""
    columns = row._mapping
    names = [one.name for one in fields(kind) if one.name in columns and one.name not in other]  # type: ignore[arg-type]
    return kind(**{name: columns[name] for name in names}, **other)


def engine_of(settings: Settings) -> Engine:
    """Connections to the settings' database, as it is."""
    if settings.database is None:
        settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = settings.data.resolve() / FILE
        with contextlib.suppress(
            FileNotFoundError
        ):  # a restored one: SQLite makes the files beside it as open as it is
            file.chmod(0o600)
        url = URL.create("sqlite", database=str(file))
    else:
        try:
            url = make_url(settings.database)
        except ArgumentError:
            raise UsageError("The database must be a URL like postgresql://user:password@host/name.") from None
    pool: dict[str, Any] = {"pool_size": 10, "pool_timeout": BUSY_SECONDS, "hide_parameters": True}
    if url.get_backend_name() == "postgresql":
        options = f"-c lock_timeout={BUSY_SECONDS}s -c statement_timeout=60s -c idle_in_transaction_session_timeout=60s"
        pool |= {"max_overflow": 20, "pool_pre_ping": True}
        pool["connect_args"] = {"connect_timeout": 5, "options": options}
        return create_engine(url.set(drivername="postgresql+psycopg"), **pool)
    if url.get_backend_name() != "sqlite":
        raise UsageError("The database must be PostgreSQL (postgresql://...), or be left out for SQLite.")
    engine = create_engine(url, max_overflow=30, **pool)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    for pragma in (
        f"busy_timeout = {BUSY_SECONDS * 1000}",
        "journal_mode = WAL",
        "synchronous = FULL",
        "foreign_keys = ON",
        "secure_delete = ON",
        f"cache_size = -{CACHE_KIB}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _begin_sqlite(connection: Connection) -> None:
    """A writer takes its place in the queue at once: a reader that later wants to write could only fail."""
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
