"""Studies, sites, releases, models and surveys in SQLite or PostgreSQL, behind one class."""

from sfumato.study.server.store.release_store import Recorded, TestTable
from sfumato.study.server.store.store import Store
from sfumato.study.server.store.token_store import Caller

__all__ = ["Caller", "Recorded", "Store", "TestTable"]
