"""The store: everything that must survive, in one database. Its methods are short enough for a request."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Engine, case, func, insert, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from sfumato.core.errors import OutputError, UsageError
from sfumato.core.files import exclusive
from sfumato.study.protocol.agreed import check_name, skeleton, spelled
from sfumato.study.protocol.messages import Invited, SiteInfo, StudyInfo
from sfumato.study.protocol.study_file import Study, study_from_dict
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.server.settings import Settings
from sfumato.study.server.store.database import FILE, Database, StorePart, engine_of, told
from sfumato.study.server.store.log_store import LogStore
from sfumato.study.server.store.model_store import ModelStore
from sfumato.study.server.store.release_store import ReleaseStore, SharedRowStore, guarantee_words, presence_of
from sfumato.study.server.store.sql_tables import CLOSED, OPEN, metadata, releases, sites, studies, survey_keys, tokens
from sfumato.study.server.store.survey_store import SurveyStore
from sfumato.study.server.store.token_store import OWNER, SITE, KeyStore, TicketKey, TokenStore, add_token, new_id

# What an older database lacks is added from the tables of the code. A database that is made now gets all at once.

NEWEST, OLDEST = "0010", "0005"
"""The version of the tables: one more whenever they change. Version 0.2.0 made the oldest that is brought up to date;
what was in an older one had to be changed, which every version 0.2 does."""
_LOCK = 0x5F0_A70  # any number that no other program uses for its advisory locks
_VERSION = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def open_engine(settings: Settings) -> Engine:
    """An engine for the settings' database, its schema brought up to date."""
    engine = engine_of(settings)
    try:
        _upgrade(engine, settings.data)
    except OutputError:
        engine.dispose()
        raise
    except DBAPIError as error:
        engine.dispose()
        where = engine.url.render_as_string(hide_password=True)
        if engine.url.get_backend_name() == "sqlite":
            advice = "Its disk is full, you may not write it, or it is not a database: then restore the backup."
        else:
            advice = "Check that it runs, that the address and password are right, and that the user may create tables."
        raise OutputError(f"The database {where} cannot be used: {type(error.orig).__name__}. {advice}") from None
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
        if done and done < OLDEST:
            raise OutputError(
                "A version of sfumato before 0.2.0 made this database. Start version 0.2 with it once, which brings it "
                "up to date."
            )
        if done != NEWEST:
            _complete(connection)
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


DAY = 24 * 3600
LONGEST_DAYS = 3650


class SiteStore(StorePart):
    """The sites of a study: invited, revoked, and what each has pushed."""

    def invite(self, study: str, name: str, days: int = 365) -> Invited:
        """A token for a site; inviting a site again gives it a new one and ends the old."""
        name = check_name(name, "site")
        if not 1 <= days <= LONGEST_DAYS:
            raise UsageError(f"A token must last between 1 and {LONGEST_DAYS} days. Got {days} instead.")
        expires = int(self._database.now()) + days * DAY
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
            older = update(tokens).where(tokens.c.study == study, tokens.c.site == name)
            connection.execute(older.values(revoked=True))
            token = add_token(connection, study, SITE, name, expires)
        return Invited(name, token, self._database.day_of(expires))

    def revoke(self, study: str, name: str) -> bool:
        """End a site's tokens; whether there is such a site."""
        name = spelled(name)
        if self._database.value(select(sites.c.name).where(sites.c.study == study, sites.c.name == name)) is None:
            return False
        self._database.change(update(tokens).where(tokens.c.study == study, tokens.c.site == name).values(revoked=True))
        return True

    def all(self, study: str) -> list[SiteInfo]:
        """Every site with what it has pushed and not withdrawn."""
        kept = releases.c
        of_all = [kept.received, kept.epsilon, kept.earlier, kept.total_epsilon]
        of_all += [kept.presence_epsilon, kept.presence_delta]
        stated = {"formal": kept.epsilon, "bounded": kept.total_epsilon, "hidden": kept.presence_epsilon}
        pushed = (
            select(
                kept.site,
                func.count().label("releases"),
                func.sum(kept.rows).label("rows"),
                *(func.max(column).label(column.name) for column in of_all),
                *(func.count(column).label(name) for name, column in stated.items()),
            )
            .where(kept.study == study, kept.withdrawn.is_(None))
            .group_by(kept.site)
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
            last_push=row.received,
            guarantee=guarantee_words(weakest, row.earlier, total, presence) if row.releases else None,
            epsilon=weakest,
            earlier=row.earlier or 0,
            total_epsilon=total,
            presence=presence,
        )


class StudyStore(StorePart):
    """Studies as their owners defined them."""

    def create(self, study: Study) -> tuple[str, str]:
        """A new study; returns its id and the owner's token, which is kept nowhere else.

        A survey by invitation gets its own key: the public half in the file that is hashed, the private one here.
        """
        identity, key = new_id(), None
        if isinstance(study, SurveyStudy):
            key = TicketKey.new() if study.invitations else None
            study = replace(study, ticket_key=key.public if key else study.ticket_key, origin=None)
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
                connection.execute(insert(survey_keys).values(study=identity, private=key.stored))
            return identity, add_token(connection, identity, OWNER)

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
        self.database.engine.dispose()
