"""Who may do what: bearer tokens of owners and sites, and sessions of people at a browser.

A token is 256 random bits with a prefix that says what it is, should one ever be found somewhere. A session is a random
id that stands for a token, for some hours.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from sfumato.errors import UsageError
from sfumato.server.store.database import Database
from sfumato.server.store.sql_tables import sessions, studies, tokens

OWNER, SITE = ROLES = ("owner", "site")
_TOKEN = re.compile(r"sfu_(owner|site|session)_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class Caller:
    """Who a token belongs to: the owner of one study, or one of its sites. `token` is the stored hash."""

    study: str
    role: str
    site: str | None
    token: str


class TokenStore:
    """The part of the store that knows tokens and sessions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def new_owner_token(self, study: str) -> str:
        """A new token for an owner who lost hers; it ends the older ones. To be called at the server itself."""
        token = new_token(OWNER)
        with self._database.writing() as connection:
            if connection.execute(select(studies.c.id).where(studies.c.id == study)).one_or_none() is None:
                raise UsageError("There is no study with this id here.")
            connection.execute(
                update(tokens).where(tokens.c.study == study, tokens.c.role == OWNER).values(revoked=True)
            )
            add_token(connection, token, study, OWNER)
        return token

    def authenticate(self, token: str) -> Caller | None:
        """The caller, or None for a token that is unknown, revoked or expired: nobody is told which."""
        return self._caller(token_hash(token)) if looks_like_a_token(token) else None

    def _caller(self, hashed: str) -> Caller | None:
        with self._database.reading() as connection:
            row = connection.execute(select(tokens).where(tokens.c.hash == hashed)).one_or_none()
        if row is None or row.revoked or (row.expires is not None and row.expires <= self._database.now()):
            return None
        return Caller(row.study, row.role, row.site, row.hash)

    def open_session(self, token: str, hours: float = 8.0) -> str | None:
        """A session id for the cookie, or None for a token that is not good."""
        caller = self.authenticate(token)
        if caller is None:
            return None
        session, now = new_token("session"), self._database.now()
        expires = int(now + hours * 3600)
        with self._database.writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.expires <= now))
            connection.execute(insert(sessions).values(hash=token_hash(session), token=caller.token, expires=expires))
        return session

    def session(self, session: str) -> Caller | None:
        """Who the session belongs to; None once it is over, or its token revoked or expired."""
        if not looks_like_a_token(session):
            return None
        query = select(sessions).where(sessions.c.hash == token_hash(session))
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None or row.expires <= self._database.now() else self._caller(row.token)

    def close_session(self, session: str) -> None:
        with self._database.writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.hash == token_hash(session)))


def add_token(
    connection: Connection, token: str, study: str, role: str, site: str | None = None, expires: int | None = None
) -> None:
    """Keep the hash of a new token."""
    connection.execute(
        insert(tokens).values(hash=token_hash(token), study=study, role=role, site=site, expires=expires, revoked=False)
    )


def new_token(role: str) -> str:
    """`sfu_owner_...`: a prefix and 43 letters, digits, hyphens and underscores."""
    return f"sfu_{role}_{secrets.token_urlsafe(32)}"


def looks_like_a_token(text: str) -> bool:
    """Whether it is worth asking the database."""
    return _TOKEN.fullmatch(text) is not None


def token_hash(token: str) -> str:
    """What is stored: 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_id() -> str:
    """A short name for a study or model, hard to guess and easy to read out: 59 random bits."""
    letters = "abcdefghjkmnpqrstuvwxyz23456789"  # without those that look like others
    return "".join(secrets.choice(letters) for _ in range(12))
