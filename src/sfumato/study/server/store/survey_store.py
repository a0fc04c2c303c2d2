"""Answers as they arrive (decoded in one step, checked against the survey, packed into bytes), and what a survey keeps:
answers, invitations and the log of guidance. The same statements on SQLite and PostgreSQL."""

from __future__ import annotations

import base64
import hashlib
import secrets
import zlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_der_private_key
from sqlalchemy import Connection, bindparam, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from sfumato.core.array_types import Bits, Floats
from sfumato.study.protocol import agreed
from sfumato.study.protocol.agreed import EXPONENT, Head, LogEntry
from sfumato.study.protocol.survey_file import MOST_ANSWERS
from sfumato.study.server.store import sql_tables
from sfumato.study.server.store.database import BUSY_SECONDS, Database, LogStore, StorePart, told
from sfumato.study.server.store.sql_tables import studies, survey_answers, survey_codes, survey_keys, survey_versions

ID_LETTERS = 22  # 128 random bits in base64url
ID_BYTES = 16
LONGEST_CODE = 64
UNKNOWN_VERSION = "unknown-version"
BAD_TICKET = "bad-ticket"


class SentAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """The message itself: numbers of the bits that are 1, ascending; nothing about the respondent."""

    id: Annotated[str, msgspec.Meta(extra_json_schema={"pattern": f"^[A-Za-z0-9_-]{{{ID_LETTERS}}}$"})]
    version: int
    label: int
    bits: Annotated[list[int], msgspec.Meta(description="Numbers of the bits that are 1, in ascending order.")]
    ticket: str | None = None


class Answer(NamedTuple):
    """One answer as it is stored: a random name, the guidance it was perturbed by, its class and its bits."""

    id: bytes
    version: int
    label: int
    bits: bytes


class AnswerError(ValueError):
    """An answer that cannot be counted: a short code for programs, and a message."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


_decoder = msgspec.json.Decoder(SentAnswer)


def read_answer(
    body: bytes, *, width: int, classes: int, latest: int, good_ticket: Callable[[str, str], bool] | None = None
) -> Answer:
    """Check everything that can be checked without the database; `latest` is the newest version of the guidance.
    `good_ticket` says whether a ticket is good for the name of an answer, where the survey is by invitation."""
    try:
        sent = _decoder.decode(body)
    except msgspec.MsgspecError:
        words = "An answer is a JSON object with `id`, `version`, `label`, `bits` and, by invitation, `ticket`."
        raise AnswerError("malformed", words) from None
    if not 1 <= sent.version <= latest:
        raise AnswerError(UNKNOWN_VERSION, "There is no such version of the guidance. Ask for guidance again.")
    if not 0 <= sent.label < classes:
        raise AnswerError("unknown-label", f"`label` must be the number of a class, 0 to {classes - 1}.")
    try:
        name = base64.b64decode(sent.id + "==", altchars=b"-_", validate=True)
    except ValueError:
        name = b""
    # The last letter holds four bits that do not count: a second spelling of one name would be counted twice.
    if len(name) != ID_BYTES or spelled(name) != sent.id:
        raise AnswerError("bad-id", f"The id of an answer is 128 random bits: {ID_LETTERS} letters of base64url.")
    answer = Answer(name, sent.version, sent.label, pack(sent.bits, width))
    if good_ticket is not None and not (sent.ticket and good_ticket(sent.id, sent.ticket)):
        words = "This survey is by invitation, and this answer has no valid ticket. Exchange your code for one."
        raise AnswerError(BAD_TICKET, words)
    return answer


def spelled(identifier: bytes) -> str:
    """The id as it travels."""
    return base64.urlsafe_b64encode(identifier).rstrip(b"=").decode("ascii")


def pack(ones: Sequence[int], width: int) -> bytes:
    """Bit j of the answer is bit ``j % 8`` of byte ``j // 8``."""
    value, before = 0, -1
    for place in ones:
        if not before < place < width:
            raise AnswerError("bad-bits", f"The bits must be ascending numbers below {width}, each at most once.")
        value |= 1 << place
        before = place
    return value.to_bytes((width + 7) // 8, "little")


def unpack(packed: Sequence[bytes], width: int) -> Bits:
    """Rows of zeros and ones (m x width)."""
    rows = np.frombuffer(b"".join(packed), dtype=np.uint8).reshape(len(packed), (width + 7) // 8)
    return np.unpackbits(rows, axis=1, count=width, bitorder="little")


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
        key = rsa.generate_private_key(EXPONENT, agreed.KEY_BITS)
        return cls(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()))

    @property
    def public(self) -> str:
        """The modulus, as the survey file has it."""
        return agreed.write_number(self._n)

    def sign(self, hidden: int) -> int:
        """The signature of a blinded name, below the modulus. A random factor of our own goes in and out again, so that
        the time it takes tells nothing about the key; the result is checked, because one wrong half would give the key
        away."""
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
            signature = agreed.read_number(ticket).to_bytes(agreed.KEY_BYTES, "big")
            self._public.verify(signature, agreed.message(survey_hash, name), _PSS, SHA384())
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


class Exchange(NamedTuple):
    """A code, and the hash of the blinded name that its holder wants signed."""

    code: bytes
    blinded: bytes


class CodeStore(StorePart):
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
        """Use up codes in one transaction; for each whether its blinded name may be signed. A code is good for one
        blinded name for ever: who lost the signature asks again and gets the same."""
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
                written = [{"name": name, "for_name": one} for name, one in sorted(state.items()) if one is not None]
                used_up = update(survey_codes).where(*mine).values(used=True, blinded=bindparam("for_name"))
                connection.execute(used_up, written)
        return outcomes

    def forget_order(self) -> bool:
        """Empty SQLite's write-ahead log, which tells what was written when; False if a reader was in the way.
        PostgreSQL has no such call: its log is the operator's to keep or not."""
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


NEW, SAME, DIFFERENT = "new", "same", "different"
AT_ONCE = 500  # names in one statement: SQLite allows 32,766 parameters
Row = tuple[Any, ...]


class Version(NamedTuple):
    """One version of the guidance with what it was computed from; `inputs` is the published text."""

    entry: LogEntry
    matrix: bytes
    inputs: str
    hour: str

    @property
    def directions(self) -> Floats:
        return np.frombuffer(self.matrix, dtype="<f8").reshape(-1, self.entry.k)


class _CountedBeforeError(Exception):
    """Some of the answers belong to another version already."""


class SurveyStore(StorePart):
    def __init__(self, database: Database, log: LogStore):
        super().__init__(database)
        self._log = log
        self.codes = CodeStore(database)
        # Of answers there are many: these statements go to the driver as they are. Left to itself SQLite looks through
        # all answers of the study for those that wait.
        sqlite = database.engine.dialect.name == "sqlite"
        place, by = ("?", f" INDEXED BY {sql_tables.WAITING}") if sqlite else ("%s", "")
        here = f"WHERE study = {place} AND batch IS NULL"
        self._waiting = f"FROM survey_answers{by} {here}"
        self._mark = f"UPDATE survey_answers SET batch = {place} {here} AND id = {place}"
        self._insert = "INSERT INTO survey_answers (study, id, version, label, bits) VALUES"
        self._row = f"({', '.join([place] * 5)})"

    def add(self, study: str, answers: Sequence[Answer]) -> list[str]:
        """Keep answers in one transaction; for each one whether it is new, the same as before, or not to be kept.
        Usually none comes twice, so nothing is looked up before the database has refused one that it has."""
        first = {answer.id: answer for answer in reversed(answers)}
        # One order: no two groups wait for each other.
        rows = [(study, *answer) for answer in sorted(first.values())]
        kept, known = set(first), first
        try:
            with self._database.writing() as connection:
                if rows:
                    connection.exec_driver_sql(f"{self._insert} {self._row}", rows)
        except IntegrityError:  # of the group nothing was kept
            with self._database.writing() as connection:
                kept, known = self._keep_others(connection, rows)
        outcomes = []
        for answer in answers:
            if answer.id in kept:
                outcomes.append(NEW)
                kept.remove(answer.id)  # a second one of the same group is a repetition
            else:
                outcomes.append(SAME if known[answer.id] == answer else DIFFERENT)
        return outcomes

    def _keep_others(self, connection: Connection, rows: Sequence[Row]) -> tuple[set[bytes], dict[bytes, Answer]]:
        """Keep what is not there: the names of what was kept, and what all hold by then. What other processes keep
        meanwhile is no error."""
        kept: set[bytes] = set()
        known: dict[bytes, Answer] = {}
        table = survey_answers.c
        for start in range(0, len(rows), AT_ONCE):
            some = rows[start : start + AT_ONCE]
            values = f"{', '.join([self._row] * len(some))} ON CONFLICT DO NOTHING RETURNING id"
            new = connection.exec_driver_sql(f"{self._insert} {values}", tuple(cell for row in some for cell in row))
            kept.update(bytes(name) for name in new.scalars())
            query = select(table.id, table.version, table.label, table.bits).where(table.study == some[0][0])
            for one in connection.execute(query.where(table.id.in_([row[1] for row in some]))):
                known[bytes(one.id)] = Answer(bytes(one.id), one.version, one.label, bytes(one.bits))
        return kept, known

    def count(self, study: str, *, waiting: bool = False) -> int:
        """How many answers there are, or how many no guidance has counted yet."""
        if waiting:
            with self._database.reading() as connection:
                return int(connection.exec_driver_sql(f"SELECT count(*) {self._waiting}", (study,)).scalar_one())
        query = select(func.count()).select_from(survey_answers).where(survey_answers.c.study == study)
        return int(self._database.value(query))

    def waiting(self, study: str) -> list[Answer]:
        """Answers that no guidance has counted yet, in the order of their random names."""
        query = f"SELECT id, version, label, bits {self._waiting} ORDER BY id LIMIT {MOST_ANSWERS}"
        with self._database.reading() as connection:
            rows = connection.exec_driver_sql(query, (study,)).all()
        return [Answer(bytes(name), version, label, bytes(bits)) for name, version, label, bits in rows]

    def answers(self, study: str, version: int) -> Iterator[tuple[int, bytes]]:
        """(class, bits) of every answer that was perturbed by one version, in the order of their random names."""
        table = survey_answers.c
        query = select(table.label, table.bits).where(table.study == study, table.version == version).order_by(table.id)
        with self._database.reading() as connection:
            for row in connection.execute(query):
                yield row.label, bytes(row.bits)

    def closed(self, study: str) -> bool:
        return bool(self._database.value(select(studies.c.state).where(studies.c.id == study)) == sql_tables.CLOSED)

    def add_version(self, study: str, version: Version, counted: Sequence[bytes]) -> bool:
        """Append a version and mark the answers it counts, all or nothing; False if another process was first."""
        entry, packed = version.entry, zlib.compress(version.inputs.encode("ascii"))
        row = {"study": study, **entry.to_dict(), "hour": version.hour, "matrix": version.matrix, "inputs": packed}
        try:
            with self._database.writing() as connection:
                connection.execute(insert(survey_versions).values(**row))
                marked = [(entry.version, study, name) for name in counted]
                if marked and connection.exec_driver_sql(self._mark, marked).rowcount != len(marked):
                    raise _CountedBeforeError
                self._log.append(connection, Head(study, entry.version, entry.hash).entry())
        except (IntegrityError, _CountedBeforeError):
            return False
        return True

    def version(self, study: str, number: int | None = None) -> Version | None:
        """One version, or the latest."""
        table = survey_versions.c
        query = select(survey_versions).where(table.study == study).order_by(table.version.desc()).limit(1)
        if number is not None:
            query = query.where(table.version == number)
        row = self._database.row(query)
        if row is None:
            return None
        return Version(told(LogEntry, row), bytes(row.matrix), zlib.decompress(row.inputs).decode("ascii"), row.hour)

    def latest(self, study: str) -> int:
        """Number of the newest version; 0 before the first."""
        query = select(func.max(survey_versions.c.version)).where(survey_versions.c.study == study)
        return int(self._database.value(query) or 0)

    def log(self, study: str, after: int = 0, limit: int = 1000) -> list[tuple[LogEntry, str]]:
        """Entries after a version, each with the hour it was written."""
        table = survey_versions.c
        wanted = [table[name] for name in (*LogEntry.__dataclass_fields__, "hour")]
        query = select(*wanted).where(table.study == study, table.version > after).order_by(table.version).limit(limit)
        return [(told(LogEntry, row), row.hour) for row in self._database.rows(query)]

    def hour(self) -> str:
        """The hour in UTC: what pages show answers by, and no finer."""
        return datetime.fromtimestamp(self._database.now(), UTC).strftime("%Y-%m-%dT%H")
