"""Studies, sites, releases, models and surveys in SQLite or PostgreSQL, behind one class."""

from sfumato.server.store.release_store import Recorded, TestTable
from sfumato.server.store.store import Store
from sfumato.server.store.token_store import Caller

__all__ = ["Caller", "Recorded", "Store", "TestTable"]
