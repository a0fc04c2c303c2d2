"""The store: everything that must survive, in one database, with methods that are short enough for a request."""

from __future__ import annotations

from typing import Self

from sqlalchemy import delete, insert, select

from sfumato.server.settings import Settings
from sfumato.server.store.database import open_engine
from sfumato.server.store.models import Models
from sfumato.server.store.studies import Caller
from sfumato.server.store.tables import sessions
from sfumato.server.store.tokens import looks_like_a_token, new_token, token_hash


class Store(Models):
    """Open it with `Store.open`; methods may be called from any thread."""

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """The settings' database, its schema brought up to date."""
        return cls(open_engine(settings))

    # Sessions of people at a browser: a random id that stands for a token, for some hours

    def open_session(self, token: str, hours: float = 8.0) -> str | None:
        """A session id for the cookie, or None for a token that is not good."""
        caller = self.authenticate(token)
        if caller is None:
            return None
        session = new_token("session")
        expires = int(self.now() + hours * 3600)
        with self.writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.expires <= self.now()))
            connection.execute(insert(sessions).values(hash=token_hash(session), token=caller.token, expires=expires))
        return session

    def session(self, session: str) -> Caller | None:
        """Who the session belongs to; None once it is over, or its token revoked or expired."""
        if not looks_like_a_token(session):
            return None
        query = select(sessions).where(sessions.c.hash == token_hash(session))
        with self.reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None or row.expires <= self.now() else self.caller_of(row.token)

    def close_session(self, session: str) -> None:
        with self.writing() as connection:
            connection.execute(delete(sessions).where(sessions.c.hash == token_hash(session)))
