"""The store: everything that must survive, in one database. Its methods are short enough for a request."""

from __future__ import annotations

from typing import Self

from sfumato.server.settings import Settings
from sfumato.server.store.database import Database, open_engine
from sfumato.server.store.model_store import ModelStore
from sfumato.server.store.release_store import ReleaseStore
from sfumato.server.store.shared_row_store import SharedRowStore
from sfumato.server.store.site_store import SiteStore
from sfumato.server.store.study_store import StudyStore
from sfumato.server.store.survey_store import SurveyStore
from sfumato.server.store.token_store import TokenStore


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
