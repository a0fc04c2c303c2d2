"""The public log of a coordinator: what was acknowledged, in one order that can be checked and never changed.

An entry is written in the transaction of what it speaks of, and is durable before that is acknowledged. Entries come
one after the other, whichever process writes them: no two checkpoints contradict each other.
"""

from __future__ import annotations

import functools
import secrets
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select, text

from sfumato.core.errors import CardError, UsageError
from sfumato.ledger.notes import (
    TILE,
    TILE_LEVELS,
    Checkpoint,
    LogProof,
    Nodes,
    NoteSigner,
    grown,
    inclusion,
    kept_signer,
    leaf_hash,
    root_of,
    tile_width,
)
from sfumato.ledger.public_log import LONGEST_ENTRY, packed
from sfumato.study.protocol.messages import LogReceipt
from sfumato.study.server.settings import Settings
from sfumato.study.server.store.database import Database
from sfumato.study.server.store.sql_tables import log_cosignatures, log_entries, log_nodes

_LOCK = 0x5F0_106
"""Held while an entry is written on PostgreSQL; always the last lock that a transaction takes."""
KEY_FILE = "log.key"


class LogStore:
    """The part of the store that knows the log. `append` belongs inside somebody's transaction."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._settings = database, settings

    @functools.cached_property
    def signer(self) -> NoteSigner:
        """The log's key, made at first use: by one, whoever asks at the same time."""
        names = self._settings.host_names()
        name = self._settings.log_name or f"{names[0] if names else f'sfumato-{secrets.token_hex(6)}'}/log"
        try:
            return kept_signer(self._settings.data / KEY_FILE, name, known=self.size() > 0)
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
        for level, number, found in grown(_nodes(connection), size, leaf_hash(entry)):
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
        note = Checkpoint(self.signer.key.name, size, root_of(_nodes(connection), size)).signed_by(self.signer)
        seen = select(log_cosignatures.c.line).where(log_cosignatures.c.size == size).order_by(log_cosignatures.c.name)
        return note + "".join(connection.execute(seen).scalars())

    def proof(self, number: int) -> str:
        """That an entry is in the log, under the checkpoint that it made: the same text whenever it is asked for."""
        with self._database.reading() as connection:
            path = inclusion(_nodes(connection), number, number + 1)
            return LogProof(number, tuple(path), self._note(connection, number + 1)).text

    def tile(self, level: int, number: int, width: int) -> bytes | None:
        """Hashes of a tile; None where the log is not so long."""
        query = select(log_nodes.c.hash).where(log_nodes.c.level == level * TILE_LEVELS)
        found = self._part(level, number, width, query, log_nodes.c.number)
        return None if found is None else b"".join(found)

    def bundle(self, number: int, width: int) -> bytes | None:
        """Entries of a tile, each with its length."""
        found = self._part(0, number, width, select(log_entries.c.entry), log_entries.c.number)
        return None if found is None else packed(found)

    def _part(self, level: int, number: int, width: int, query: Select[Any], place: Any) -> list[bytes] | None:
        query = query.where(place.between(number * TILE, number * TILE + width - 1)).order_by(place)
        with self._database.reading() as connection:
            if width > tile_width(int(connection.execute(_SIZE).scalar_one()), level, number):
                return None
            return [bytes(one) for one in connection.execute(query).scalars()]


_SIZE = select(func.coalesce(func.max(log_entries.c.number) + 1, 0))


def _nodes(connection: Connection) -> Nodes:
    def node(level: int, number: int) -> bytes:
        here = (log_nodes.c.level == level, log_nodes.c.number == number)
        found = connection.execute(select(log_nodes.c.hash).where(*here)).scalar()
        if found is None:
            raise CardError("The log of this server is damaged: a part of it is missing. Restore the backup.")
        return bytes(found)

    return node
