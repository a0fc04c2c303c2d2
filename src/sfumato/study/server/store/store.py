"""The store: everything that must survive, in one database. Its methods are short enough for a request."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Engine, Select, and_, case, func, insert, or_, select, update
from sqlalchemy.exc import DBAPIError

from sfumato.core.errors import OutputError, UsageError
from sfumato.core.files import exclusive
from sfumato.study.protocol import messages
from sfumato.study.protocol.agreed import check_name, skeleton, spelled
from sfumato.study.protocol.messages import DONE, FAILED, QUEUED, RUNNING, Invited, ModelInfo, SiteInfo, StudyInfo
from sfumato.study.protocol.study_file import Study, study_from_dict
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.server.settings import Settings
from sfumato.study.server.store import sql_tables
from sfumato.study.server.store.database import FILE, Database, LogStore, StorePart, engine_of, told
from sfumato.study.server.store.release_store import ReleaseStore, guarantee_words, presence_of
from sfumato.study.server.store.sql_tables import model_releases, models, releases, sites, studies, tokens
from sfumato.study.server.store.survey_store import SurveyStore, TicketKey
from sfumato.study.server.store.token_store import OWNER, SITE, KeyStore, TokenStore, add_token, new_id

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
    for table in sql_tables.metadata.sorted_tables:
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
            if name not in known:
                if double := next((other for other in known if skeleton(other) == skeleton(name)), None):
                    raise UsageError(
                        f"The study has a site {double!r}, whose name looks like this one. Choose a name that no "
                        "reader can take for another, or invite that site again by its own spelling."
                    )
                connection.execute(insert(sites).values(study=study, name=name, created=self._database.today()))
            older = update(tokens).where(tokens.c.study == study, tokens.c.site == name)
            connection.execute(older.values(revoked=True))
            token = add_token(connection, study, SITE, name, expires)
        return Invited(name, token, self._database.day_of(expires))

    def revoke(self, study: str, name: str) -> bool:
        """End a site's tokens; whether there is such a site."""
        here = (tokens.c.study == study, tokens.c.site == spelled(name))
        return self._database.change(update(tokens).where(*here).values(revoked=True)) > 0

    def all(self, study: str) -> list[SiteInfo]:
        """Every site with what it has pushed and not withdrawn."""
        kept = releases.c
        bounds = (kept.epsilon, kept.total_epsilon, kept.presence_epsilon, kept.presence_delta)
        pushed = (
            select(
                kept.site,
                func.count().label("releases"),
                func.sum(kept.rows).label("rows"),
                func.max(kept.received).label("last_push"),
                func.max(kept.earlier).label("earlier"),
                # Of all releases together only where each of them has one.
                *(case((func.count(one) == func.count(), func.max(one))).label(one.name) for one in bounds),
            )
            .where(kept.study == study, kept.withdrawn.is_(None))
            .group_by(kept.site)
            .subquery()
        )
        good = tokens.c.revoked.is_(False)
        ends, last = func.max(case((good, tokens.c.expires))), func.max(tokens.c.expires)
        known = (
            select(tokens.c.site, func.count(case((good, 1))).label("good"), func.coalesce(ends, last).label("ends"))
            .where(tokens.c.study == study)
            .group_by(tokens.c.site)
            .subquery()
        )
        query = (
            select(sites.c.name, sites.c.created, pushed, known.c.good, known.c.ends)
            .outerjoin(pushed, pushed.c.site == sites.c.name)
            .outerjoin(known, known.c.site == sites.c.name)
            .where(sites.c.study == study)
            .order_by(sites.c.name)
        )
        return [self._site(row) for row in self._database.rows(query)]

    def _site(self, row: Any) -> SiteInfo:
        expires, revoked, presence = self._database.day_of(row.ends or 0), not row.good, presence_of(row)
        if not row.releases:
            return told(SiteInfo, row, expires=expires, revoked=revoked, releases=0, rows=0, earlier=0, guarantee=None)
        words = guarantee_words(row.epsilon, row.earlier, row.total_epsilon, presence)
        about = {"rows": int(row.rows), "guarantee": words, "presence": presence}
        return told(SiteInfo, row, expires=expires, revoked=revoked, **about)


class StudyStore(StorePart):
    """Studies as their owners defined them."""

    def create(self, study: Study) -> tuple[str, str]:
        """A new study; returns its id and the owner's token, which is kept nowhere else. A survey by invitation gets
        its own key: the public half in the file that is hashed, the private one here."""
        identity, key = new_id(), None
        if isinstance(study, SurveyStudy):
            key = TicketKey.new() if study.invitations else None
            study = replace(study, ticket_key=key.public if key else study.ticket_key, origin=None)
        with self._database.writing() as connection:
            about = {"kind": study.kind, "name": study.name, "hash": study.hash, "created": self._database.today()}
            definition = json.dumps(study.to_dict(), ensure_ascii=False, allow_nan=False)
            about |= {"id": identity, "definition": definition, "state": sql_tables.OPEN}
            connection.execute(insert(studies).values(**about))
            if key is not None:
                connection.execute(insert(sql_tables.survey_keys).values(study=identity, private=key.stored))
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
        self._database.change(update(studies).where(studies.c.id == identity).values(state=sql_tables.CLOSED))


# Models and densities are one queue of jobs: any worker claims one, keeps its lease alive, and finishes it or fails. A
# lease that runs out means that its worker died: the next one to ask takes the job again, at most `MOST_ATTEMPTS`
# times, so that a job that kills its worker does not kill all of them for ever.

Plain = Mapping[str, Any]
LEASE_SECONDS = 60.0
MOST_ATTEMPTS = 3
GAVE_UP = "The server stopped several times while it trained this model. Train it again, or choose a smaller one."


class ModelStore(StorePart):
    def queue(
        self,
        study: str,
        classifier: str,
        *,
        contains_rows: bool,
        sites: str = messages.ALL_SITES,
        column: str | None = None,
        parameters: Plain | None = None,
    ) -> ModelInfo:
        """Ask for a model, of all sites or of those that agree; or for the density of a `column`, by this method."""
        stated = json.dumps(parameters, allow_nan=False) if parameters else None
        asked = {"classifier": classifier, "sites": sites, "reconstructs": column, "parameters": stated}
        about = {"id": new_id(), "study": study, "created": self._database.today(), "contains_rows": contains_rows}
        fresh = {"state": QUEUED, "progress": 0.0, "step": "waiting", "uses_withdrawn": False, "attempts": 0}
        with self._database.writing() as connection:
            job = insert(models).values(**asked, **about, **fresh).returning(*models.c)
            return _model(connection.execute(job).one())

    def claim(self, worker: str, lease: float = LEASE_SECONDS) -> tuple[str, ModelInfo] | None:
        """The oldest job that waits or whose worker died, as (study, model), or None."""
        now = self._database.now()
        left = and_(models.c.state == RUNNING, models.c.lease < now)
        free = select(models.c.id).where(or_(models.c.state == QUEUED, left)).order_by(models.c.number)
        oldest = free.limit(1).with_for_update(skip_locked=True).scalar_subquery()
        with self._database.writing() as connection:
            given_up = update(models).where(left, models.c.attempts >= MOST_ATTEMPTS)
            connection.execute(given_up.values(state=FAILED, step="stopped", failure=GAVE_UP))
            claimed = {"state": RUNNING, "worker": worker, "lease": now + lease, "attempts": models.c.attempts + 1}
            claim = update(models).where(models.c.id == oldest).values(**claimed, progress=0.0, step="starting")
            row = connection.execute(claim.returning(*models.c)).one_or_none()
        return None if row is None else (row.study, _model(row))

    def update(self, model: str, worker: str, progress: float, step: str, lease: float = LEASE_SECONDS) -> bool:
        """Say how far it is, and keep the lease; False where the job is no longer this worker's."""
        values = {"progress": min(max(progress, 0.0), 1.0), "step": step, "lease": self._database.now() + lease}
        return self._change(model, worker, values)

    def finish(
        self, model: str, worker: str, *, results: Plain, card: Plain, used: Iterable[str], contains_rows: bool
    ) -> bool:
        """The model is done and its file is in place; `used` are hashes of the releases it was trained on. A release
        that was withdrawn while the model was trained marks it too."""
        used = sorted(set(used))
        with self._database.writing() as connection:
            held = select(models.c.study).where(*_held(model, worker)).with_for_update()
            if (study := connection.execute(held).scalar()) is None:
                return False
            for sha256 in used:
                connection.execute(insert(model_releases).values(model=model, sha256=sha256))
            # The share lock makes a withdrawal wait that would miss this model, and this wait for one under way.
            trained_on = (releases.c.study == study, releases.c.sha256.in_(used))
            states = connection.execute(select(releases.c.withdrawn).where(*trained_on).with_for_update(read=True))
            gone = any(state.withdrawn is not None for state in states)
            found = {"results": json.dumps(results, allow_nan=False), "card": json.dumps(card, allow_nan=False)}
            done = {"state": DONE, "progress": 1.0, "step": "done", "lease": None, "contains_rows": contains_rows}
            connection.execute(update(models).where(models.c.id == model).values(**done, **found, uses_withdrawn=gone))
        return True

    def fail(self, model: str, worker: str, message: str) -> bool:
        """The model cannot be trained, and why, in words that its owner may read."""
        return self._change(model, worker, {"state": FAILED, "step": "failed", "failure": message, "lease": None})

    def give_back(self, model: str, worker: str) -> bool:
        """Put a job back into the queue: its worker is told to stop, and that is not the job's fault."""
        back = {"state": QUEUED, "step": "waiting", "progress": 0.0, "lease": None, "attempts": models.c.attempts - 1}
        return self._change(model, worker, back)

    def _change(self, model: str, worker: str, values: Plain) -> bool:
        return self._database.change(update(models).where(*_held(model, worker)).values(**values)) == 1

    def all(self, study: str, *, density: bool = False) -> list[ModelInfo]:
        """All models of a study, or all densities, the oldest first."""
        return [_model(row) for row in self._database.rows(_in(study, density).order_by(models.c.number))]

    def find(self, study: str, model: str, *, density: bool = False) -> ModelInfo | None:
        row = self._database.row(_in(study, density).where(models.c.id == model))
        return None if row is None else _model(row)

    def waiting(self, study: str | None = None) -> int:
        """How many jobs wait or run, of one study or in all."""
        of = () if study is None else (models.c.study == study,)
        query = select(func.count()).select_from(models).where(models.c.state.in_((QUEUED, RUNNING)), *of)
        return int(self._database.value(query))


def _in(study: str, density: bool) -> Select[Any]:
    kind = models.c.reconstructs.is_not(None) if density else models.c.reconstructs.is_(None)
    return select(models).where(models.c.study == study, kind)


def _held(model: str, worker: str) -> tuple[Any, ...]:
    return models.c.id == model, models.c.worker == worker, models.c.state == RUNNING


def _model(row: Any) -> ModelInfo:
    return told(
        ModelInfo,
        row,
        results=None if row.results is None else json.loads(row.results),
        card=None if row.card is None else json.loads(row.card),
        sites=row.sites or messages.ALL_SITES,
        column=row.reconstructs,
        parameters=json.loads(row.parameters) if row.parameters else {},
    )


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
        self.models = ModelStore(database)
        self.surveys = SurveyStore(database, self.log)

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """The settings' database, its schema brought up to date."""
        engine = engine_of(settings)
        try:
            _upgrade(engine, settings.data)
        except (OutputError, DBAPIError) as error:
            engine.dispose()
            if isinstance(error, OutputError):
                raise
            where = engine.url.render_as_string(hide_password=True)
            advice = "Check that it runs, that the address and password are right, and that the user may create tables."
            if engine.url.get_backend_name() == "sqlite":
                advice = "Its disk is full, you may not write it, or it is not a database: then restore the backup."
            raise OutputError(f"The database {where} cannot be used: {type(error.orig).__name__}. {advice}") from None
        return cls(Database(engine), settings)

    def close(self) -> None:
        self.database.engine.dispose()
