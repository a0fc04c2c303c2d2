"""The keys that sign what sites ask for, by their fingerprints, and the numbers that signatures have used up."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from sfumato.core.errors import UsageError
from sfumato.core.records import Record
from sfumato.study.protocol.spelling import spelled
from sfumato.study.server.store.database import Database, told
from sfumato.study.server.store.sql_tables import signed_requests, site_keys, sites


@dataclass(frozen=True)
class SiteKey(Record):
    """Whose key it is, its fingerprint in words, and the day on which the operator enrolled it."""

    site: str
    fingerprint: str
    enrolled: str


class KeyStore:
    """The part of the store that knows keys of sites."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def enroll(self, study: str, site: str, fingerprint: str) -> None:
        """From now on this site's requests must be signed; by this key, or by another that is enrolled too."""
        site = spelled(site)
        known = select(sites.c.name).where(sites.c.study == study, sites.c.name == site)
        if self._database.value(known) is None:
            raise UsageError("There is no site with this name in this study. Invite it first, or check the spelling.")
        here = {"study": study, "site": site, "fingerprint": fingerprint, "enrolled": self._database.today()}
        try:
            with self._database.writing() as connection:
                connection.execute(insert(site_keys).values(**here))
        except IntegrityError:
            raise UsageError("This key is enrolled already.") from None

    def remove(self, study: str, site: str, fingerprint: str) -> None:
        """Take nothing any more that this key signs. After the last key a token alone suffices again."""
        here = (site_keys.c.study == study, site_keys.c.site == spelled(site), site_keys.c.fingerprint == fingerprint)
        with self._database.writing() as connection:
            if not connection.execute(delete(site_keys).where(*here)).rowcount:
                raise UsageError("This key is not enrolled for this site.")

    def all(self, study: str, site: str | None = None) -> list[SiteKey]:
        """The enrolled keys of a study, or of one of its sites."""
        query = select(site_keys).where(site_keys.c.study == study).order_by(site_keys.c.site, site_keys.c.enrolled)
        if site is not None:
            query = query.where(site_keys.c.site == spelled(site))
        return [told(SiteKey, row) for row in self._database.rows(query)]

    def first_use(self, study: str, site: str, once: str) -> bool:
        """Use up the number of a signature, durably; False where it was used before."""
        used = hashlib.sha256(f"{study}|{site}|{once}".encode()).digest()
        try:
            with self._database.writing() as connection:
                connection.execute(insert(signed_requests).values(hash=used))
        except IntegrityError:
            return False
        return True
