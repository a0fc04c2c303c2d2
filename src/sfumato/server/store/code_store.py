"""Codes of invitation: which are used, and for which blinded name. Nothing here meets an answer, in value or in time.

A code is used up in a transaction of its own. What could still tell the order in which codes were used is taken away:

- A used code is an overwritten row of the same size, so that SQLite writes it where it was.
- Used codes are written anew, a hundred at random with every exchange and in the order of their hashes: on PostgreSQL
  `xmin` and `ctid` of a code say when it was written last, not when it was used.
- SQLite's write-ahead log, which does keep an order, is emptied after every exchange (`forget_order`).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, func, insert, select, update

from sfumato.server.store.database import BUSY_SECONDS, Database
from sfumato.server.store.sql_tables import survey_codes, survey_keys
from sfumato.server.survey.ticket_key import TicketKey

MIXED = 100  # used codes that are written anew with every exchange
PATIENCE = 250  # milliseconds that emptying the log waits for readers; it is tried again a second later
UNUSED = bytes(32)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A code, and the hash of the blinded name that its holder wants signed."""

    code: bytes
    blinded: bytes


class CodeStore:
    """The part of the store that knows invitations; methods may be called from any thread."""

    def __init__(self, database: Database):
        self._database = database

    def add(self, study: str, number: int) -> list[str]:
        """New single-use codes; only their hashes are kept."""
        codes = [secrets.token_urlsafe(12) for _ in range(number)]
        rows = [{"study": study, "hash": _hash(code.encode()), "used": False, "blinded": UNUSED} for code in codes]
        with self._database.writing() as connection:
            connection.execute(insert(survey_codes), rows)
        return codes

    def counts(self, study: str) -> tuple[int, int]:
        """How many codes there are, and how many were used."""
        query = select(survey_codes.c.used, func.count()).where(survey_codes.c.study == study)
        with self._database.reading() as connection:
            found = {bool(used): int(n) for used, n in connection.execute(query.group_by(survey_codes.c.used))}
        return sum(found.values()), found.get(True, 0)

    def exchange(self, study: str, asked: Sequence[Exchange]) -> list[bool]:
        """Use up codes in one transaction; for each whether its blinded name may be signed.

        A code is good for one blinded name for ever: who lost the signature asks again and gets the same.
        """
        table = survey_codes.c
        wanted = {_hash(one.code) for one in asked}
        with self._database.writing() as connection:
            used = select(table.hash).where(table.study == study, table.used).order_by(func.random()).limit(MIXED)
            wanted |= {bytes(found) for found in connection.execute(used).scalars()}
            # One order for everybody: no two groups wait for each other.
            rows = select(table.hash, table.used, table.blinded).where(table.study == study, table.hash.in_(wanted))
            state: dict[bytes, bytes | None] = {
                bytes(row.hash): bytes(row.blinded) if row.used else None
                for row in connection.execute(rows.order_by(table.hash).with_for_update())
            }
            outcomes, new = [], False
            for one in asked:
                name = _hash(one.code)
                if name in state and state[name] is None:
                    state[name], new = one.blinded, True
                outcomes.append(state.get(name) == one.blinded)
            if new:
                mine = (table.study == study, table.hash == bindparam("name"))
                written: list[dict[str, Any]] = [
                    {"name": name, "for_name": blinded}
                    for name, blinded in sorted(state.items())
                    if blinded is not None
                ]
                connection.execute(
                    update(survey_codes).where(*mine).values(used=True, blinded=bindparam("for_name")), written
                )
        return outcomes

    def forget_order(self) -> bool:
        """Empty SQLite's write-ahead log, which tells what was written when; False if a reader was in the way.

        PostgreSQL has no such call: its log is the operator's to keep or not.
        """
        if self._database.engine.dialect.name != "sqlite":
            return True
        connection = self._database.engine.raw_connection()
        try:
            cursor = connection.cursor()
            cursor.execute(f"PRAGMA busy_timeout = {PATIENCE}")
            busy = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            cursor.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
            return not busy
        finally:
            connection.close()

    def key(self, study: str) -> TicketKey:
        """The key that signs the tickets of a survey by invitation."""
        with self._database.reading() as connection:
            found = connection.execute(select(survey_keys.c.private).where(survey_keys.c.study == study)).scalar_one()
        return TicketKey(bytes(found))


def _hash(code: bytes) -> bytes:
    return hashlib.sha256(code).digest()
