"""One database behind the store, SQLite in the data folder or PostgreSQL by URL, and the public log in it."""

from __future__ import annotations

import contextlib
import functools
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import URL, Connection, Engine, Executable, Select, delete, event, func, insert, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError

from sfumato.core.errors import CardError, UsageError
from sfumato.ledger import notes
from sfumato.ledger.public_log import LONGEST_ENTRY, packed
from sfumato.study.protocol.messages import LogReceipt
from sfumato.study.server.settings import Settings
from sfumato.study.server.store.sql_tables import log_cosignatures, log_entries, log_nodes

FILE = "sfumato.db"
BUSY_SECONDS = 15
CACHE_KIB = 32 << 10
"""Of a connection to SQLite: answers lie in the order of random names, so that each is on a page of its own."""


class Database:
    """Connections and transactions; the parts of the store are built on it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def reading(self) -> Connection:
        """A connection for queries, in a `with` block."""
        return self.engine.connect()

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
        with contextlib.suppress(FileNotFoundError):
            file.chmod(0o600)  # of a restored one: SQLite makes the files beside it as open as it is
        url = URL.create("sqlite", database=str(file))
    else:
        try:
            url = sa.make_url(settings.database)
        except ArgumentError:
            raise UsageError("The database must be a URL like postgresql://user:password@host/name.") from None
    pool: dict[str, Any] = {"pool_size": 10, "pool_timeout": BUSY_SECONDS, "hide_parameters": True}
    if url.get_backend_name() == "postgresql":
        options = f"-c lock_timeout={BUSY_SECONDS}s -c statement_timeout=60s -c idle_in_transaction_session_timeout=60s"
        pool |= {"max_overflow": 20, "pool_pre_ping": True}
        pool["connect_args"] = {"connect_timeout": 5, "options": options}
        return sa.create_engine(url.set(drivername="postgresql+psycopg"), **pool)
    if url.get_backend_name() != "sqlite":
        raise UsageError("The database must be PostgreSQL (postgresql://...), or be left out for SQLite.")
    engine = sa.create_engine(url, max_overflow=30, **pool)
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


class StorePart:
    """A part of the store; methods may be called from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database


# The public log of a coordinator: what was acknowledged, in one order that can be checked and never changed. An entry
# is written in the transaction of what it speaks of, and is durable before that is acknowledged. Entries come one after
# the other, whichever process writes them: no two checkpoints contradict each other.

_LOCK = 0x5F0_106  # held while an entry is written on PostgreSQL; always the last lock that a transaction takes
KEY_FILE = "log.key"


class LogStore:
    """The part of the store that knows the log. `append` belongs inside somebody's transaction."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._settings = database, settings

    @functools.cached_property
    def signer(self) -> notes.NoteSigner:
        """The log's key, made at first use: by one, whoever asks at the same time."""
        names = self._settings.host_names()
        name = self._settings.log_name or f"{names[0] if names else f'sfumato-{secrets.token_hex(6)}'}/log"
        try:
            return notes.kept_signer(self._settings.data / KEY_FILE, name, known=self.size() > 0)
        except ValueError as error:
            raise UsageError(f"SFUMATO_LOG_NAME cannot be the name of the log. {error}") from None

    def size(self) -> int:
        return int(self._database.value(_SIZE))

    def append(self, connection: Connection, entry: bytes) -> int:
        """Write an entry with what the transaction does; returns its number."""
        if len(entry) > LONGEST_ENTRY:
            raise UsageError(f"An entry of the log has at most {LONGEST_ENTRY:,} bytes.")
        _ = self.signer  # an entry without a key could never be shown
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        size = int(connection.execute(_SIZE).scalar_one())
        connection.execute(insert(log_entries).values(number=size, entry=entry))
        for level, number, found in notes.grown(_nodes(connection), size, notes.leaf_hash(entry)):
            connection.execute(insert(log_nodes).values(level=level, number=number, hash=found))
        return size

    def add(self, entry: bytes) -> int:
        """Write an entry by itself."""
        with self._database.writing() as connection:
            return self.append(connection, entry)

    def receipt(self, entry: bytes) -> LogReceipt:
        """Write an entry by itself, and prove it."""
        return LogReceipt(entry.decode(), self.signer.key.text, self.proof(self.add(entry)))

    def cosign(self, size: int, name: str, line: str) -> None:
        """Keep what a witness says of a checkpoint, in the place of what it said before; older sizes stay."""
        here = (log_cosignatures.c.size == size, log_cosignatures.c.name == name)
        with self._database.writing() as connection:
            connection.execute(delete(log_cosignatures).where(*here))
            connection.execute(insert(log_cosignatures).values(size=size, name=name, line=line + "\n"))

    def checkpoint(self, size: int | None = None) -> str:
        """The signed note of the log at a size, or now, with what witnesses said of it."""
        with self._database.reading() as connection:
            return self._note(connection, int(connection.execute(_SIZE).scalar_one()) if size is None else size)

    def _note(self, connection: Connection, size: int) -> str:
        note = notes.Checkpoint(self.signer.key.name, size, notes.root_of(_nodes(connection), size)).signed_by(
            self.signer
        )
        seen = select(log_cosignatures.c.line).where(log_cosignatures.c.size == size).order_by(log_cosignatures.c.name)
        return note + "".join(connection.execute(seen).scalars())

    def proof(self, number: int) -> str:
        """That an entry is in the log, under the checkpoint that it made: the same text whenever it is asked for."""
        with self._database.reading() as connection:
            path = notes.inclusion(_nodes(connection), number, number + 1)
            return notes.LogProof(number, tuple(path), self._note(connection, number + 1)).text

    def tile(self, level: int, number: int, width: int) -> bytes | None:
        """Hashes of a tile; None where the log is not so long."""
        query = select(log_nodes.c.hash).where(log_nodes.c.level == level * notes.TILE_LEVELS)
        found = self._part(level, number, width, query, log_nodes.c.number)
        return None if found is None else b"".join(found)

    def bundle(self, number: int, width: int) -> bytes | None:
        """Entries of a tile, each with its length."""
        found = self._part(0, number, width, select(log_entries.c.entry), log_entries.c.number)
        return None if found is None else packed(found)

    def _part(self, level: int, number: int, width: int, query: Select[Any], place: Any) -> list[bytes] | None:
        query = query.where(place.between(number * notes.TILE, number * notes.TILE + width - 1)).order_by(place)
        with self._database.reading() as connection:
            if width > notes.tile_width(int(connection.execute(_SIZE).scalar_one()), level, number):
                return None
            return [bytes(one) for one in connection.execute(query).scalars()]


_SIZE = select(func.coalesce(func.max(log_entries.c.number) + 1, 0))


def _nodes(connection: Connection) -> notes.Nodes:
    def node(level: int, number: int) -> bytes:
        here = (log_nodes.c.level == level, log_nodes.c.number == number)
        found = connection.execute(select(log_nodes.c.hash).where(*here)).scalar()
        if found is None:
            raise CardError("The log of this server is damaged: a part of it is missing. Restore the backup.")
        return bytes(found)

    return node
