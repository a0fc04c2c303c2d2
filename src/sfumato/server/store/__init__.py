"""Studies, sites, releases and models in SQLite or PostgreSQL, behind one class."""

from sfumato.server.store.releases import Recorded, TestTable
from sfumato.server.store.store import Store
from sfumato.server.store.studies import Caller

__all__ = ["Caller", "Recorded", "Store", "TestTable"]
