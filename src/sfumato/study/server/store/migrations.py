"""What an older database lacks is added from the tables of the code; a step does what no new column tells.

A database that is made now gets all tables at once. Steps are for what is in them: one that was released is never
edited.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from sfumato.core.errors import OutputError
from sfumato.core.files import exclusive
from sfumato.study.server.settings import Settings
from sfumato.study.server.store.database import FILE, engine_of
from sfumato.study.server.store.sql_tables import metadata, survey_codes
from sfumato.study.server.store.token_store import TicketKey

NEWEST = "0010"
"""The version of the tables: one more whenever they change."""
_LOCK = 0x5F0_A70  # any number that no other program uses for its advisory locks
_VERSION = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def totals(connection: Connection) -> Iterator[None]:
    """How often the rows of a release were released before, and what that comes to: both are on their cards."""
    yield
    connection.execute(sa.text("UPDATE releases SET total_epsilon = epsilon"))
    for number, card, epsilon in _cards(connection):
        stated = card.get("earlier_releases") or {}
        if count := min(int(stated.get("count") or 0), 2**31 - 1):
            total = stated.get("total_epsilon_record")
            values = {"n": number, "count": count, "total": None if total is None or epsilon is None else total}
            connection.execute(
                sa.text("UPDATE releases SET earlier = :count, total_epsilon = :total WHERE number = :n"), values
            )


def tickets(connection: Connection) -> Iterator[None]:
    """Tickets of surveys by invitation; start-up rows in survey files become counts.

    Codes move to a new table in the order of their hashes: nothing is left of the order in which they were used.
    A survey whose file changes keeps its log: `origin` is the hash that the log began from.
    """
    codes: list[dict[str, Any]] = []
    if sa.inspect(connection).has_table("survey_codes"):
        rows = connection.execute(sa.text("SELECT study, hash, used FROM survey_codes ORDER BY hash"))
        codes = [{"study": study, "hash": name, "used": bool(used), "blinded": bytes(32)} for study, name, used in rows]
        connection.execute(sa.text("DROP TABLE survey_codes"))
    yield
    if codes:
        connection.execute(sa.insert(survey_codes), codes)
    surveys = connection.execute(sa.text("SELECT id, hash, definition FROM studies WHERE kind = 'survey'")).all()
    for study in surveys:
        found, key = renewed(json.loads(study.definition), study.hash)
        if found is None:
            continue
        text = json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        connection.execute(
            sa.text("UPDATE studies SET definition = :text, hash = :hash WHERE id = :id"),
            {"text": text, "hash": "sha256:" + hashlib.sha256(text.encode()).hexdigest(), "id": study.id},
        )
        if key is not None:
            kept = sa.text("INSERT INTO survey_keys (study, private) VALUES (:study, :private)")
            connection.execute(kept, {"study": study.id, "private": key})


def renewed(found: dict[str, Any], before: str) -> tuple[dict[str, Any] | None, bytes | None]:
    """The file with counts and a key where it lacked them, and the private key; (None, None): nothing to change."""
    rows, key = found.get("start_up"), None
    if not isinstance(rows, list) and not found.get("invitations"):
        return None, None
    if isinstance(rows, list):
        found["start_up"] = counts_of(rows, [len(question["choices"]) for question in found["questions"]])
    if found.get("invitations"):
        made = TicketKey.new()
        found["ticket_key"], key = made.public, made.stored
    found["origin"] = before
    return found, key


def counts_of(rows: list[list[int]], sizes: list[int]) -> dict[str, Any]:
    """For every class the number of rows and of pairs of choices, from the diagonal on, row by row."""
    width = sum(sizes)
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    classes: dict[int, dict[str, Any]] = {}
    for *choices, label in rows:
        part = classes.setdefault(label, {"n": 0, "upper": [0] * (width * (width + 1) // 2)})
        part["n"] += 1
        ones = [start + choice for start, choice in zip(starts, choices, strict=True)]
        for place, i in enumerate(ones):
            for j in ones[place:]:
                part["upper"][i * width - i * (i - 1) // 2 + j - i] += 1
    return {"width": width, "classes": {str(label): classes[label] for label in sorted(classes)}}


def presence(connection: Connection) -> Iterator[None]:
    """What releases of rows that belong to nobody prove about somebody's presence: it is on their cards."""
    yield
    for number, card, _ in _cards(connection):
        stated, earlier = card.get("guarantee") or {}, card.get("earlier_releases") or {}
        if stated.get("kind") != "central-dp" or (earlier.get("count") and earlier.get("total_epsilon_record") != 0):
            continue
        central = (earlier.get("central") if earlier.get("count") else None) or stated["central"]
        connection.execute(
            sa.text("UPDATE releases SET presence_epsilon = :epsilon, presence_delta = :delta WHERE number = :n"),
            {"n": number, "epsilon": central["epsilon"], "delta": central["delta"]},
        )


def _cards(connection: Connection) -> Iterator[tuple[int, dict[str, Any], float | None]]:
    """Number, card and epsilon of every release, one card in memory at a time."""
    for number in connection.execute(sa.text("SELECT number FROM releases")).scalars().all():
        row = connection.execute(sa.text("SELECT card, epsilon FROM releases WHERE number = :n"), {"n": number}).one()
        yield number, json.loads(row.card), row.epsilon


STEPS = {"0004": totals, "0005": tickets, "0008": presence}
"""By the version that they lead to. What comes before `yield` works on the older tables."""


def open_engine(settings: Settings) -> Engine:
    """An engine for the settings' database, its schema brought up to date."""
    engine = engine_of(settings)
    try:
        _upgrade(engine, settings.data)
    except DBAPIError as error:
        engine.dispose()
        where = engine.url.render_as_string(hide_password=True)
        if engine.url.get_backend_name() == "sqlite":
            advice = "Its disk is full, you may not write it, or it is not a database: then restore the backup."
        else:
            advice = "Check that it runs, that the address and password are right, and that the user may create tables."
        raise OutputError(f"The database {where} cannot be used: {type(error.orig).__name__}. {advice}") from None
    except OutputError:
        engine.dispose()
        raise
    return engine


def _upgrade(engine: Engine, data: Path) -> None:
    """Bring it up to date; of several processes that start together, one does it and the others wait."""
    sqlite = engine.url.get_backend_name() == "sqlite"
    lock = exclusive(data / FILE) if sqlite else contextlib.nullcontext()
    with lock, engine.connect().execution_options(writes=True) as connection, connection.begin():
        if not sqlite:
            connection.execute(sa.text("SET LOCAL lock_timeout = '120s'"))
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        _VERSION.create(connection, checkfirst=True)
        done = connection.execute(sa.select(_VERSION.c.version_num)).scalar() or ""
        if done > NEWEST:
            raise OutputError(
                "A newer version of sfumato has used this database. Upgrade sfumato, or restore the backup "
                "from before that version was started."
            )
        if done != NEWEST:
            steps = [step(connection) for number, step in STEPS.items() if done and done < number]
            for step in steps:
                next(step)
            _complete(connection)
            for step in steps:
                next(step, None)
            connection.execute(_VERSION.delete())
            connection.execute(_VERSION.insert().values(version_num=NEWEST))
    if sqlite and engine.url.database:
        Path(engine.url.database).chmod(0o600)


def _complete(connection: Connection) -> None:
    """Add the tables, columns and indexes that the code has and the database has not."""
    there, operations = sa.inspect(connection), Operations(MigrationContext.configure(connection))
    for table in metadata.sorted_tables:
        if not there.has_table(table.name):
            table.create(connection)
            continue
        columns = {column["name"] for column in there.get_columns(table.name)}
        for column in table.columns:
            if column.name not in columns:
                operations.add_column(table.name, column)
        indexes = {index["name"] for index in there.get_indexes(table.name)}
        for index in table.indexes:
            if index.name not in indexes:
                index.create(connection)
