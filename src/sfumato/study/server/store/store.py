"""The store: everything that must survive, in one database. Its methods are short enough for a request."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import ColumnElement, Connection, Engine, and_, case, func, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from sfumato.core.errors import OutputError, UsageError
from sfumato.core.files import exclusive
from sfumato.study.protocol.messages import Invited, SiteInfo, StudyInfo
from sfumato.study.protocol.spelling import check_name, skeleton, spelled
from sfumato.study.protocol.study_file import Study, study_from_dict
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.server.settings import Settings
from sfumato.study.server.store.database import FILE, Database, StorePart, engine_of, told
from sfumato.study.server.store.log_store import LogStore
from sfumato.study.server.store.model_store import ModelStore
from sfumato.study.server.store.release_store import ReleaseStore, SharedRowStore, guarantee_words, presence_of
from sfumato.study.server.store.sql_tables import (
    CLOSED,
    OPEN,
    metadata,
    releases,
    sites,
    studies,
    survey_codes,
    survey_keys,
    tokens,
)
from sfumato.study.server.store.survey_store import SurveyStore
from sfumato.study.server.store.token_store import (
    OWNER,
    SITE,
    KeyStore,
    TicketKey,
    TokenStore,
    add_token,
    new_id,
    new_token,
)

# What an older database lacks is added from the tables of the code; a step does what no new column tells.
#
# A database that is made now gets all tables at once. Steps are for what is in them: one that was released is never
# edited.


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


# The sites of a study: invited, revoked, and what each has pushed.


DAY = 24 * 3600
LONGEST_DAYS = 3650


class SiteStore(StorePart):
    """The part of the store that knows sites."""

    def invite(self, study: str, name: str, days: int = 365) -> Invited:
        """A token for a site; inviting a site again gives it a new one and ends the old."""
        name = check_name(name, "site")
        if not 1 <= days <= LONGEST_DAYS:
            raise UsageError(f"A token must last between 1 and {LONGEST_DAYS} days. Got {days} instead.")
        token, expires = new_token(SITE), int(self._database.now()) + days * DAY
        with self._database.writing() as connection:
            # One invitation to a study at a time: two doubles must not come in together.
            connection.execute(select(studies.c.id).where(studies.c.id == study).with_for_update())
            # A site whose name looks like another's could be taken for it, on every page and in every list.
            known = connection.execute(select(sites.c.name).where(sites.c.study == study)).scalars().all()
            double = next((other for other in known if other != name and skeleton(other) == skeleton(name)), None)
            if double is not None and name not in known:
                raise UsageError(
                    f"The study has a site {double!r}, whose name looks like this one. Choose a name that no reader "
                    "can take for another, or invite that site again by its own spelling."
                )
            with contextlib.suppress(IntegrityError), connection.begin_nested():  # it may be known already
                connection.execute(insert(sites).values(study=study, name=name, created=self._database.today()))
            connection.execute(update(tokens).where(_tokens_of(study, name)).values(revoked=True))
            add_token(connection, token, study, SITE, name, expires)
        return Invited(name, token, self._database.day_of(expires))

    def revoke(self, study: str, name: str) -> bool:
        """End a site's tokens; whether there is such a site."""
        name = spelled(name)
        if self._database.value(select(sites.c.name).where(sites.c.study == study, sites.c.name == name)) is None:
            return False
        self._database.change(update(tokens).where(_tokens_of(study, name)).values(revoked=True))
        return True

    def all(self, study: str) -> list[SiteInfo]:
        """Every site with what it has pushed and not withdrawn."""
        kept = and_(releases.c.study == study, releases.c.withdrawn.is_(None))
        pushed = (
            select(
                releases.c.site,
                func.count().label("releases"),
                func.sum(releases.c.rows).label("rows"),
                func.max(releases.c.received).label("last_push"),
                func.max(releases.c.epsilon).label("epsilon"),
                func.count(releases.c.epsilon).label("formal"),
                func.max(releases.c.earlier).label("earlier"),
                func.max(releases.c.total_epsilon).label("total_epsilon"),
                func.count(releases.c.total_epsilon).label("bounded"),
                func.max(releases.c.presence_epsilon).label("presence_epsilon"),
                func.max(releases.c.presence_delta).label("presence_delta"),
                func.count(releases.c.presence_epsilon).label("hidden"),
            )
            .where(kept)
            .group_by(releases.c.site)
            .subquery()
        )
        good = tokens.c.revoked.is_(False)
        ends, last = func.max(case((good, tokens.c.expires))), func.max(tokens.c.expires)
        known = (
            select(tokens.c.site, func.count(case((good, 1))).label("good"), func.coalesce(ends, last).label("expires"))
            .where(tokens.c.study == study)
            .group_by(tokens.c.site)
            .subquery()
        )
        figures = [column for part in (pushed, known) for column in part.c if column.name != "site"]
        query = (
            select(sites.c.name, sites.c.created, *figures)
            .outerjoin(pushed, pushed.c.site == sites.c.name)
            .outerjoin(known, known.c.site == sites.c.name)
            .where(sites.c.study == study)
            .order_by(sites.c.name)
        )
        return [self._site(row) for row in self._database.rows(query)]

    def _site(self, row: Any) -> SiteInfo:
        weakest = row.epsilon if row.releases and row.formal == row.releases else None
        total = row.total_epsilon if row.releases and row.bounded == row.releases else None
        presence = presence_of(row) if row.releases and row.hidden == row.releases else None
        return told(
            SiteInfo,
            row,
            expires=self._database.day_of(row.expires or 0),
            revoked=not row.good,
            releases=row.releases or 0,
            rows=int(row.rows or 0),
            guarantee=guarantee_words(weakest, row.earlier, total, presence) if row.releases else None,
            epsilon=weakest,
            earlier=row.earlier or 0,
            total_epsilon=total,
            presence=presence,
        )


def _tokens_of(study: str, site: str) -> ColumnElement[bool]:
    return and_(tokens.c.study == study, tokens.c.site == site)


# Studies as their owners defined them.


class StudyStore(StorePart):
    """The part of the store that knows studies."""

    def create(self, study: Study) -> tuple[str, str]:
        """A new study; returns its id and the owner's token, which is kept nowhere else."""
        identity, token = new_id(), new_token(OWNER)
        study, key = with_ticket_key(study)
        with self._database.writing() as connection:
            connection.execute(
                insert(studies).values(
                    id=identity,
                    kind=study.kind,
                    name=study.name,
                    hash=study.hash,
                    definition=json.dumps(study.to_dict(), ensure_ascii=False, allow_nan=False),
                    created=self._database.today(),
                    state=OPEN,
                )
            )
            if key is not None:
                connection.execute(insert(survey_keys).values(study=identity, private=key))
            add_token(connection, token, identity, OWNER)
        return identity, token

    def find(self, identity: str) -> StudyInfo | None:
        row = self._database.row(select(studies).where(studies.c.id == identity))
        return None if row is None else told(StudyInfo, row, definition=json.loads(row.definition))

    def read(self, identity: str) -> Study | None:
        """What its owner defined, as an object of its kind."""
        found = self.find(identity)
        return None if found is None else study_from_dict(found.definition)

    def close(self, identity: str) -> None:
        """No more answers are accepted from now on; what was received stays."""
        self._database.change(update(studies).where(studies.c.id == identity).values(state=CLOSED))


def with_ticket_key(study: Study) -> tuple[Study, bytes | None]:
    """A survey by invitation gets its own key: the public half in the file that is hashed, the private one as bytes."""
    if not isinstance(study, SurveyStudy):
        return study, None
    if not study.invitations:
        return replace(study, origin=None), None
    key = TicketKey.new()
    return replace(study, ticket_key=key.public, origin=None), key.stored


class Store:
    """Small stores side by side on one database; methods may be called from any thread. Open it with `Store.open`."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.log = LogStore(database, settings)
        self.studies = StudyStore(database)
        self.tokens = TokenStore(database)
        self.sites = SiteStore(database)
        self.keys = KeyStore(database)
        self.releases = ReleaseStore(database, self.log)
        self.shared_rows = SharedRowStore(database)
        self.models = ModelStore(database)
        self.surveys = SurveyStore(database, self.log)

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """The settings' database, its schema brought up to date."""
        return cls(Database(open_engine(settings)), settings)

    def close(self) -> None:
        self.database.close()
