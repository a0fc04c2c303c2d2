"""What each site has at the coordinator, held against its quota in the transaction that adds to it."""

from __future__ import annotations

from sqlalchemy import Connection, case, func, select

from sfumato.protocol.quota import Quota
from sfumato.server.store.tables import releases


class QuotaExceededError(Exception):
    """A release too many, or too large; `quota` says which of the three it exceeds."""

    def __init__(self, quota: str) -> None:
        super().__init__(quota)
        self.quota = quota


def kept_of(connection: Connection, study: str, site: str) -> Quota:
    """Releases that were ever pushed; rows and bytes of those that were not withdrawn."""
    there = releases.c.withdrawn.is_(None)
    query = select(
        func.count().label("releases"),
        func.sum(case((there, releases.c.rows), else_=0)).label("rows"),
        func.sum(case((there, releases.c.bytes), else_=0)).label("bytes"),
    ).where(releases.c.study == study, releases.c.site == site)
    row = connection.execute(query).one()
    return Quota(bytes=int(row.bytes or 0), rows=int(row.rows or 0), releases=row.releases)


def check_quota(connection: Connection, quota: Quota, study: str, site: str, size: int, rows: int) -> None:
    """Refuse one more release of this size; the caller lets in one push of a study at a time."""
    exceeded = quota.exceeded(kept_of(connection, study, site), more_bytes=size, more_rows=rows)
    if exceeded is not None:
        raise QuotaExceededError(exceeded)
