"""The store: everything that must survive, in one database. Its methods are short enough for a request."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from typing import Any, Self

from sqlalchemy import ColumnElement, and_, case, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from sfumato.core.errors import UsageError
from sfumato.study.protocol.messages import Invited, SiteInfo, StudyInfo
from sfumato.study.protocol.spelling import check_name, skeleton, spelled
from sfumato.study.protocol.study_file import Study
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.server.settings import Settings
from sfumato.study.server.store.database import Database, StorePart, told
from sfumato.study.server.store.log_store import LogStore
from sfumato.study.server.store.migrations import open_engine
from sfumato.study.server.store.model_store import ModelStore
from sfumato.study.server.store.release_store import ReleaseStore, SharedRowStore, guarantee_words, presence_of
from sfumato.study.server.store.sql_tables import CLOSED, OPEN, releases, sites, studies, survey_keys, tokens
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
        return None if row is None else _study(row)

    def close(self, identity: str) -> None:
        """No more answers are accepted from now on; what was received stays."""
        self._database.change(update(studies).where(studies.c.id == identity).values(state=CLOSED))

    def all(self) -> list[StudyInfo]:
        """All studies, the oldest first."""
        return [_study(row) for row in self._database.rows(select(studies).order_by(studies.c.created))]


def with_ticket_key(study: Study) -> tuple[Study, bytes | None]:
    """A survey by invitation gets its own key: the public half in the file that is hashed, the private one as bytes."""
    if not isinstance(study, SurveyStudy):
        return study, None
    if not study.invitations:
        return replace(study, origin=None), None
    key = TicketKey.new()
    return replace(study, ticket_key=key.public, origin=None), key.stored


def _study(row: Any) -> StudyInfo:
    return told(StudyInfo, row, definition=json.loads(row.definition))


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
