"""Who may do what: bearer tokens of owners and sites, and sessions of people at a browser.

A token is 256 random bits with a prefix that says what it is, should one ever be found somewhere. A session is a random
id that stands for a token, for some hours.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_der_private_key
from sqlalchemy import Connection, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from sfumato.core.errors import UsageError
from sfumato.core.records import Record
from sfumato.study.protocol.agreed import EXPONENT, KEY_BITS, KEY_BYTES, message, read_number, spelled, write_number
from sfumato.study.server.store.database import BUSY_SECONDS, StorePart, told
from sfumato.study.server.store.sql_tables import (
    sessions,
    signed_requests,
    site_keys,
    sites,
    studies,
    survey_codes,
    survey_keys,
    tokens,
)

_PSS = padding.PSS(mgf=padding.MGF1(SHA384()), salt_length=0)


class TicketKey:
    """The private key behind a survey's tickets: made with the survey, kept in the database as bytes (`stored`), it
    signs blinded names that it cannot read, and checks tickets."""

    def __init__(self, stored: bytes):
        loaded = load_der_private_key(stored, password=None)
        assert isinstance(loaded, rsa.RSAPrivateKey)
        self.stored = stored
        self._numbers, self._public = loaded.private_numbers(), loaded.public_key()
        self._n = self._numbers.public_numbers.n

    @classmethod
    def new(cls) -> TicketKey:
        key = rsa.generate_private_key(EXPONENT, KEY_BITS)
        return cls(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))

    @property
    def public(self) -> str:
        """The modulus, as the survey file has it."""
        return write_number(self._n)

    def sign(self, hidden: int) -> int:
        """The signature of a blinded name, below the modulus.

        A random factor of our own goes in and out again, so that the time it takes tells nothing about the key; the
        result is checked, because one wrong half would give the key away.
        """
        n, p, q = self._n, self._numbers.p, self._numbers.q
        factor = 2 + secrets.randbelow(n - 2)
        given = hidden * pow(factor, EXPONENT, n) % n
        by_p, by_q = pow(given % p, self._numbers.dmp1, p), pow(given % q, self._numbers.dmq1, q)
        signature = (by_q + q * (self._numbers.iqmp * (by_p - by_q) % p)) * pow(factor, -1, n) % n
        if pow(signature, EXPONENT, n) != hidden:
            raise ArithmeticError("a signature came out wrong")
        return signature

    def fits(self, hidden: int) -> bool:
        """Whether a blinded name is one: a number that this key can sign, and no trivial one."""
        return 1 < hidden < self._n - 1

    def is_good(self, survey_hash: str, name: str, ticket: str) -> bool:
        """Whether this key signed the name of this answer for this survey."""
        try:
            signature = read_number(ticket).to_bytes(KEY_BYTES, "big")
            self._public.verify(signature, message(survey_hash, name), _PSS, SHA384())
        except (ValueError, InvalidSignature):
            return False
        return True


# Codes of invitation: which are used, and for which blinded name. Nothing here meets an answer, in value or in time.
#
# A code is used up in a transaction of its own. What could still tell the order in which codes were used is taken away:
#
# - A used code is an overwritten row of the same size, so that SQLite writes it where it was.
# - Used codes are written anew, a hundred at random with every exchange and in the order of their hashes: on PostgreSQL
#   `xmin` and `ctid` of a code say when it was written last, not when it was used.
# - SQLite's write-ahead log, which does keep an order, is emptied after every exchange (`forget_order`).

MIXED = 100  # used codes that are written anew with every exchange
PATIENCE = 250  # milliseconds that emptying the log waits for readers; it is tried again a second later
UNUSED = bytes(32)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A code, and the hash of the blinded name that its holder wants signed."""

    code: bytes
    blinded: bytes


class CodeStore(StorePart):
    """The part of the store that knows invitations."""

    def add(self, study: str, number: int) -> list[str]:
        """New single-use codes; only their hashes are kept."""
        codes = [secrets.token_urlsafe(12) for _ in range(number)]
        rows = [{"study": study, "hash": _hash(code.encode()), "used": False, "blinded": UNUSED} for code in codes]
        with self._database.writing() as connection:
            connection.execute(insert(survey_codes), rows)
        return codes

    def counts(self, study: str) -> tuple[int, int]:
        """How many codes there are, and how many were used."""
        query = select(survey_codes.c.used, func.count()).where(survey_codes.c.study == study)
        found = {bool(used): int(n) for used, n in self._database.rows(query.group_by(survey_codes.c.used))}
        return sum(found.values()), found.get(True, 0)

    def exchange(self, study: str, asked: Sequence[Exchange]) -> list[bool]:
        """Use up codes in one transaction; for each whether its blinded name may be signed.

        A code is good for one blinded name for ever: who lost the signature asks again and gets the same.
        """
        table = survey_codes.c
        wanted = {_hash(one.code) for one in asked}
        with self._database.writing() as connection:
            used = select(table.hash).where(table.study == study, table.used).order_by(func.random()).limit(MIXED)
            wanted |= {bytes(found) for found in connection.execute(used).scalars()}
            # One order for everybody: no two groups wait for each other.
            rows = select(table.hash, table.used, table.blinded).where(table.study == study, table.hash.in_(wanted))
            state: dict[bytes, bytes | None] = {
                bytes(row.hash): bytes(row.blinded) if row.used else None
                for row in connection.execute(rows.order_by(table.hash).with_for_update())
            }
            outcomes, new = [], False
            for one in asked:
                name = _hash(one.code)
                if name in state and state[name] is None:
                    state[name], new = one.blinded, True
                outcomes.append(state.get(name) == one.blinded)
            if new:
                mine = (table.study == study, table.hash == bindparam("name"))
                written: list[dict[str, Any]] = [
                    {"name": name, "for_name": blinded}
                    for name, blinded in sorted(state.items())
                    if blinded is not None
                ]
                connection.execute(
                    update(survey_codes).where(*mine).values(used=True, blinded=bindparam("for_name")), written
                )
        return outcomes

    def forget_order(self) -> bool:
        """Empty SQLite's write-ahead log, which tells what was written when; False if a reader was in the way.

        PostgreSQL has no such call: its log is the operator's to keep or not.
        """
        if self._database.engine.dialect.name != "sqlite":
            return True
        connection = self._database.engine.raw_connection()
        try:
            cursor = connection.cursor()
            cursor.execute(f"PRAGMA busy_timeout = {PATIENCE}")
            busy = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            cursor.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
            return not busy
        finally:
            connection.close()

    def key(self, study: str) -> TicketKey:
        """The key that signs the tickets of a survey by invitation."""
        return TicketKey(bytes(self._database.value(select(survey_keys.c.private).where(survey_keys.c.study == study))))


def _hash(code: bytes) -> bytes:
    return hashlib.sha256(code).digest()


OWNER, SITE = ROLES = ("owner", "site")
_TOKEN = re.compile(r"sfu_(owner|site|session)_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True)
class Caller:
    """Who a token belongs to: the owner of one study, or one of its sites. `token` is the stored hash."""

    study: str
    role: str
    site: str | None
    token: str


class TokenStore(StorePart):
    """The part of the store that knows tokens and sessions."""

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
