"""The store: everything that must survive, in one database. Its methods are short enough for a request."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Self

from sqlalchemy import insert, select, update

from sfumato.study.protocol.messages import StudyInfo
from sfumato.study.protocol.study_file import Study
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.server.settings import Settings
from sfumato.study.server.store.database import Database, open_engine
from sfumato.study.server.store.model_store import ModelStore
from sfumato.study.server.store.release_store import ReleaseStore, SharedRowStore
from sfumato.study.server.store.site_store import SiteStore
from sfumato.study.server.store.sql_tables import CLOSED, OPEN, studies, survey_keys
from sfumato.study.server.store.survey_store import SurveyStore
from sfumato.study.server.store.token_store import OWNER, TokenStore, add_token, new_id, new_token
from sfumato.study.server.survey.ticket_key import TicketKey

# Studies as their owners defined them.


class StudyStore:
    """The part of the store that knows studies."""

    def __init__(self, database: Database) -> None:
        self._database = database

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
        with self._database.reading() as connection:
            row = connection.execute(select(studies).where(studies.c.id == identity)).one_or_none()
        return None if row is None else _study(row)

    def close(self, identity: str) -> None:
        """No more answers are accepted from now on; what was received stays."""
        with self._database.writing() as connection:
            connection.execute(update(studies).where(studies.c.id == identity).values(state=CLOSED))

    def all(self) -> list[StudyInfo]:
        """All studies, the oldest first."""
        with self._database.reading() as connection:
            return [_study(row) for row in connection.execute(select(studies).order_by(studies.c.created))]


def with_ticket_key(study: Study) -> tuple[Study, bytes | None]:
    """A survey by invitation gets its own key: the public half in the file that is hashed, the private one as bytes."""
    if not isinstance(study, SurveyStudy):
        return study, None
    if not study.invitations:
        return replace(study, origin=None), None
    key = TicketKey.new()
    return replace(study, ticket_key=key.public, origin=None), key.stored


def _study(row: Any) -> StudyInfo:
    return StudyInfo(row.id, row.kind, row.name, row.hash, json.loads(row.definition), row.created, row.state)


class Store:
    """Small stores side by side on one database; methods may be called from any thread. Open it with `Store.open`."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.studies = StudyStore(database)
        self.tokens = TokenStore(database)
        self.sites = SiteStore(database)
        self.releases = ReleaseStore(database)
        self.shared_rows = SharedRowStore(database)
        self.models = ModelStore(database)
        self.surveys = SurveyStore(database)

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """The settings' database, its schema brought up to date."""
        return cls(Database(open_engine(settings)))

    def close(self) -> None:
        self.database.close()
