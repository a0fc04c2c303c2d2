"""Who may do what: bearer tokens of owners and sites, and sessions of people at a browser. A token is 256 random bits
with a prefix that says what it is, should one ever be found somewhere. A session is a random id that stands for a
token, for some hours."""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from sfumato.core.errors import UsageError
from sfumato.core.records import Record
from sfumato.study.protocol.agreed import spelled
from sfumato.study.server.store.database import StorePart, told
from sfumato.study.server.store.sql_tables import sessions, signed_requests, site_keys, sites, studies, tokens

OWNER, SITE = ROLES = ("owner", "site")
_TOKEN = re.compile(r"sfu_(owner|site|session)_[A-Za-z0-9_-]{43}")


class Caller(NamedTuple):
    """Who a token belongs to: the owner of one study, or one of its sites. `token` is the stored hash."""

    study: str
    role: str
    site: str | None
    token: str


class TokenStore(StorePart):
    def new_owner_token(self, study: str) -> str:
        """A new token for an owner who lost hers; it ends the older ones. To be called at the server itself."""
        with self._database.writing() as connection:
            if connection.execute(select(studies.c.id).where(studies.c.id == study)).one_or_none() is None:
                raise UsageError("There is no study with this id here.")
            older = update(tokens).where(tokens.c.study == study, tokens.c.role == OWNER)
            connection.execute(older.values(revoked=True))
            return add_token(connection, study, OWNER)

    def authenticate(self, token: str) -> Caller | None:
        """The caller, or None for a token that is unknown, revoked or expired; the answer does not say which."""
        return self._caller(token_hash(token)) if _TOKEN.fullmatch(token) else None

    def _caller(self, hashed: str) -> Caller | None:
        row = self._database.row(select(tokens).where(tokens.c.hash == hashed))
        if row is None or row.revoked or (row.expires is not None and row.expires <= self._database.now()):
            return None
        return Caller(row.study, row.role, row.site, row.hash)

    def open_session(self, token: str, hours: float = 8.0) -> str | None:
        """A session id for the cookie, or None for a token that is not good."""
        caller = self.authenticate(token)
        if caller is None:
            return None
        session, now = _new_token("session"), self._database.now()
        expires = int(now + hours * 3600)
        with self._database.writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.expires <= now))
            connection.execute(insert(sessions).values(hash=token_hash(session), token=caller.token, expires=expires))
        return session

    def session(self, session: str) -> Caller | None:
        """Who the session belongs to; None once it is over, or its token revoked or expired."""
        if not _TOKEN.fullmatch(session):
            return None
        row = self._database.row(select(sessions).where(sessions.c.hash == token_hash(session)))
        return None if row is None or row.expires <= self._database.now() else self._caller(row.token)

    def close_session(self, session: str) -> None:
        self._database.change(delete(sessions).where(sessions.c.hash == token_hash(session)))


def add_token(
    connection: Connection, study: str, role: str, site: str | None = None, expires: int | None = None
) -> str:
    """A new token, of which only the hash is kept."""
    token = _new_token(role)
    about = {"hash": token_hash(token), "study": study, "role": role, "site": site, "expires": expires}
    connection.execute(insert(tokens).values(**about, revoked=False))
    return token


def _new_token(role: str) -> str:
    """`sfu_owner_...`: a prefix and 43 letters, digits, hyphens and underscores."""
    return f"sfu_{role}_{secrets.token_urlsafe(32)}"


def token_hash(token: str) -> str:
    """What is stored: 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_id() -> str:
    """A short name for a study or model, hard to guess and easy to read out: 59 random bits."""
    letters = "abcdefghjkmnpqrstuvwxyz23456789"  # without those that look like others
    return "".join(secrets.choice(letters) for _ in range(12))


@dataclass(frozen=True)
class SiteKey(Record):
    """Whose key it is, its fingerprint in words, and the day on which the operator enrolled it."""

    site: str
    fingerprint: str
    enrolled: str


class KeyStore(StorePart):
    """The keys that sign what sites ask for, by their fingerprints, and the numbers that signatures have used up."""

    def enroll(self, study: str, site: str, fingerprint: str) -> None:
        """From now on this site's requests must be signed; by this key, or by another that is enrolled too."""
        site = spelled(site)
        known = select(sites.c.name).where(sites.c.study == study, sites.c.name == site)
        if self._database.value(known) is None:
            raise UsageError("There is no site with this name in this study. Invite it first, or check the spelling.")
        here = {"study": study, "site": site, "fingerprint": fingerprint, "enrolled": self._database.today()}
        try:
            self._database.change(insert(site_keys).values(**here))
        except IntegrityError:
            raise UsageError("This key is enrolled already.") from None

    def remove(self, study: str, site: str, fingerprint: str) -> None:
        """Take nothing any more that this key signs. After the last key a token alone suffices again."""
        here = (site_keys.c.study == study, site_keys.c.site == spelled(site), site_keys.c.fingerprint == fingerprint)
        if not self._database.change(delete(site_keys).where(*here)):
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
            self._database.change(insert(signed_requests).values(hash=used))
        except IntegrityError:
            return False
        return True
