"""A survey as a respondent's program sees it: every message of docs/survey-protocol.md, and every check of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from sfumato.channels.guidance import GuidanceError, decode_matrix, hash_matrix
from sfumato.core.array_types import Floats
from sfumato.core.errors import CardError, CoordinatorError, SfumatoError, UsageError
from sfumato.study.client.answers import body_of
from sfumato.study.client.connection import Address, Connection, Patience
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.protocol.survey_guidance import inputs_hash
from sfumato.study.protocol.survey_log import LogEntry, check_chain, read_number

# The link of a survey: where it is and what it must be. Whoever gives it away vouches for it, not the server.


API = "/api/v1/surveys/"
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HASH = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


@dataclass(frozen=True)
class SurveyLink:
    """`hash` is that of the survey file, `witnesses` are addresses that must have seen the same log; both may lack."""

    base: str
    identity: str
    hash: str | None = None
    witnesses: tuple[str, ...] = ()


def read_link(link: str) -> SurveyLink:
    """Read a link that somebody was given: the page's, also of a page elsewhere, or the survey's own address."""
    parts = urlsplit(link.strip())
    fragment = parse_qs(parts.fragment)
    survey = fragment.get("survey", [""])[0]
    if survey.startswith(("https://", "http://")):  # a page elsewhere names the server in full
        where = read_link(survey)
        base, identity = where.base, where.identity
    else:
        base, _, last = parts.path.rstrip("/").partition(API)
        if survey:
            base = base.removesuffix("index.html").rstrip("/").removesuffix("/survey")
        base, identity = f"{parts.scheme}://{parts.netloc}{base}", survey or last
    if not _ID.fullmatch(identity) or parts.query or not parts.scheme:
        raise UsageError("This is not the link of a survey. It looks like https://host/survey/#survey=ID&hash=HASH.")
    return SurveyLink(base, identity, _hash(fragment.get("hash")), tuple(fragment.get("witness", ())))


def _hash(found: list[str] | None) -> str | None:
    if found is None:
        return None
    fits = _HASH.fullmatch(found[0]) if len(found) == 1 else None
    if fits is None:  # half a hash would be checked by nobody
        raise UsageError("The link's hash is not whole: it has 64 letters. Ask for the link again.")
    return f"sha256:{fits[1]}"


LARGEST_COUNTS = 1 << 30  # bytes: 2,000 bits and two classes make 8 MB in the first batch, more with every digit
LONGEST_LOG = 1_000_000  # versions: a log that never ends keeps a program busy for ever


@dataclass(frozen=True)
class Inquiry:
    """Round 1: the level k* that is asked for at present."""

    version: int
    k: int
    head: str


@dataclass(frozen=True)
class IssuedGuidance:
    """Round 2: guidance that passed every check of its own."""

    version: int
    k: int
    V: Floats
    sha256: str


class SurveyServer:
    """Speaks to one survey at its `link`: the page's address with #survey=ID&hash=HASH, or .../api/v1/surveys/ID."""

    def __init__(
        self,
        link: str,
        *,
        insecure_http: bool = False,
        patience: Patience | None = None,
        transport: Any = None,
    ):
        self.link: SurveyLink = read_link(link)
        self.identity = self.link.identity
        self.address = Address.read(self.link.base, insecure_http=insecure_http)
        self._connection = Connection(self.address, None, patience=patience, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @property
    def name(self) -> str:
        """The survey's own address: what heads are remembered by."""
        return f"{self.address.base}{API}{self.identity}"

    def describe(self) -> tuple[SurveyStudy, str]:
        """The survey, checked against its hash and the one in the link, and whether it is open."""
        found = self._ask("GET", "")
        try:
            survey = SurveyStudy.from_dict(found["survey"])
            stated, state = str(found["hash"]), str(found["state"])
        except (SfumatoError, KeyError, TypeError, AttributeError) as error:
            raise CoordinatorError("What answered is not a survey that this program can read.") from error
        if survey.hash != stated:
            raise CardError("The survey was changed in transit: its hash does not match. Nothing was sent.")
        if self.link.hash not in (None, survey.hash):
            raise CardError(
                "This is not the survey that the link names: its hash is another. Nothing was sent. Tell whoever gave "
                "you the link."
            )
        return survey, state

    def inquire(self) -> Inquiry:
        found = self._ask("GET", "/inquiry")
        return Inquiry(_whole(found, "version"), _whole(found, "k"), _text(found, "head"))

    def guidance(self, asked: Inquiry, width: int) -> IssuedGuidance:
        """Guidance of the version and level that the inquiry named, and no other."""
        found = self._ask("POST", "/ready", json={"version": asked.version})
        if (_whole(found, "version"), _whole(found, "k")) != (asked.version, asked.k):
            raise GuidanceError("The server sent guidance of another version or level than it announced.")
        V = decode_matrix(_text(found, "v"), width, asked.k)
        if hash_matrix(V) != _text(found, "sha256"):
            raise GuidanceError("The guidance was changed in transit: its hash does not match.")
        return IssuedGuidance(asked.version, asked.k, V, hash_matrix(V))

    def exchange(self, code: str, hidden: str) -> int:
        """Use up an invitation for the signature of a blinded name; the same two give the same signature again."""
        found = self._ask("POST", "/tickets", json={"code": code, "blinded": hidden})
        try:
            return read_number(_text(found, "signature"))
        except ValueError:
            raise CoordinatorError("The server's answer lacks a proper 'signature': this is not a survey.") from None

    def log(self, root: str) -> list[LogEntry]:
        """All entries from the beginning, each following from the one before."""
        entries: list[LogEntry] = []
        while True:
            found = self._ask("GET", "/log", params={"after": str(len(entries))})
            try:
                page = [LogEntry.from_dict(entry) for entry in found["entries"]]
            except (KeyError, TypeError) as error:
                raise CardError("The log of guidance cannot be read. Nothing was sent.") from error
            if not page:
                break
            if page[0].version != len(entries) + 1 or len(entries) > LONGEST_LOG:  # the same page for ever, or no end
                raise CardError(f"The log of guidance is broken after version {len(entries)}. Nothing was sent.")
            entries += page
        check_chain(entries, root)
        return entries

    def inputs(self, entry: LogEntry) -> str:
        """The published counts behind a version, as the log promised them."""
        with self._connection.answer("GET", f"{API}{self.identity}/log/{entry.version}/inputs") as response:
            text = body_of(response, LARGEST_COUNTS).decode("ascii", errors="replace")
        if inputs_hash(text) != entry.inputs_sha256:
            raise CardError(f"The counts behind version {entry.version} are not those that the log promised.")
        return text

    def send(self, answer: dict[str, Any]) -> bool:
        """Send one answer; whether the server counted it only now. The same id is never counted twice."""
        with self._connection.answer("POST", f"{API}{self.identity}/answers", json=answer) as response:
            new = response.status_code == 201
            body_of(response)
        return new

    def _ask(self, method: str, path: str, **words: Any) -> Any:
        return self._connection.ask(method, f"{API}{self.identity}{path}", **words)


def _whole(found: Any, key: str) -> int:
    value = found.get(key) if isinstance(found, dict) else None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CoordinatorError(f"The server's answer lacks a proper {key!r}: this is not a survey.")
    return value


def _text(found: Any, key: str) -> str:
    value = found.get(key) if isinstance(found, dict) else None
    if not isinstance(value, str):
        raise CoordinatorError(f"The server's answer lacks a proper {key!r}: this is not a survey.")
    return value
