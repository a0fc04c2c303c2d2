"""A survey as a respondent's program sees it: every message of docs/survey-protocol.md, and every check of it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx

from sfumato.channels.guidance.guidance import GuidanceError, SurveyCounts, decode_matrix, hash_matrix
from sfumato.core.accepted import Whole
from sfumato.core.array_types import Floats
from sfumato.core.errors import CardError, CoordinatorError, SfumatoError, UsageError
from sfumato.core.files import write_whole
from sfumato.core.progress import Progress, silent
from sfumato.core.records import FieldError, Record
from sfumato.study.client.connection import Address, Connection, Kind, Patience, Speaker, body_of
from sfumato.study.client.private_notes import RememberedHeads
from sfumato.study.protocol.agreed import Head, LogEntry, check_chain, read_number
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.protocol.survey_guidance import inputs_hash, verify_guidance

# The link of a survey: where it is and what it must be. Whoever gives it away vouches for it, not the server.

API = "/api/v1/surveys/"
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_HASH = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


class SurveyLink(NamedTuple):
    """`hash` is that of the survey file, `witnesses` are addresses that must have seen the same log; both may lack."""

    base: str
    identity: str
    hash: str | None = None
    witnesses: tuple[str, ...] = ()


def read_link(link: str) -> SurveyLink:
    """Read the link that a respondent was given: the page's, also of a page elsewhere, or the survey's own address."""
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
    stated = [_HASH.fullmatch(one) for one in fragment.get("hash", ())]
    if len(stated) > 1 or None in stated:  # half a hash cannot be checked
        raise UsageError("The link's hash is not whole: it has 64 letters. Ask for the link again.")
    whole = next((f"sha256:{fits[1]}" for fits in stated if fits), None)
    return SurveyLink(base, identity, whole, tuple(fragment.get("witness", ())))


LARGEST_COUNTS = 1 << 30  # bytes: 2,000 bits and two classes make 8 MB in the first batch, more with every digit
LONGEST_LOG = 1_000_000  # versions: a log that never ends keeps a program busy for ever
SomeWhole = Annotated[int, Whole(1, 1 << 62)]


@dataclass(frozen=True)
class Inquiry(Record):
    """Round 1: the level k* that is asked for at present."""

    version: SomeWhole
    k: SomeWhole
    head: str


@dataclass(frozen=True)
class GuidanceSent(Record):
    """Round 2 as it travels."""

    version: SomeWhole
    k: SomeWhole
    v: str
    sha256: str


class SurveyServer(Speaker):
    """Speaks to one survey at its `link`: the page's address with #survey=ID&hash=HASH, or .../api/v1/surveys/ID."""

    def __init__(
        self, link: str, *, insecure_http: bool = False, patience: Patience | None = None, transport: Any = None
    ):
        self.link = read_link(link)
        self._path = f"{API}{self.link.identity}"
        address = Address.read(self.link.base, insecure_http=insecure_http)
        self.name = address.base + self._path
        """The survey's own address: what heads are remembered by."""
        self._connection = Connection(address, None, patience=patience, transport=transport)

    def describe(self) -> tuple[SurveyStudy, str]:
        """The survey, checked against its hash and the one in the link, and whether it is open."""
        found = self._connection.ask("GET", self._path)
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
        return self._message(Inquiry, "GET", "/inquiry")

    def guidance(self, asked: Inquiry, width: int) -> Floats:
        """Guidance of the version and level that the inquiry named, and no other."""
        sent = self._message(GuidanceSent, "POST", "/ready", json={"version": asked.version})
        if (sent.version, sent.k) != (asked.version, asked.k):
            raise GuidanceError("The server sent guidance of another version or level than it announced.")
        V = decode_matrix(sent.v, width, asked.k)
        if hash_matrix(V) != sent.sha256:
            raise GuidanceError("The guidance was changed in transit: its hash does not match.")
        return V

    def exchange(self, code: str, hidden: str) -> int:
        """Use up an invitation for the signature of a blinded name; the same two give the same signature again."""
        sent = self._connection.ask("POST", f"{self._path}/tickets", json={"code": code, "blinded": hidden})
        try:
            return read_number(sent["signature"])
        except (ValueError, KeyError, TypeError):
            raise CoordinatorError("The server's answer lacks a proper 'signature': this is not a survey.") from None

    def log(self, root: str) -> list[LogEntry]:
        """All entries from the beginning, each following from the one before."""
        entries: list[LogEntry] = []
        while True:
            found = self._connection.ask("GET", f"{self._path}/log", params={"after": str(len(entries))})
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
        with self._connection.answer("GET", f"{self._path}/log/{entry.version}/inputs") as response:
            text = body_of(response, LARGEST_COUNTS).decode("ascii", errors="replace")
        if inputs_hash(text) != entry.inputs_sha256:
            raise CardError(f"The counts behind version {entry.version} are not those that the log promised.")
        return text

    def send(self, answer: dict[str, Any]) -> bool:
        """Send one answer; whether the server counted it only now. The same id is never counted twice."""
        with self._connection.answer("POST", f"{self._path}/answers", json=answer) as response:
            new = response.status_code == 201
            body_of(response)
        return new

    def _message(self, kind: type[Kind], method: str, path: str, **words: Any) -> Kind:
        try:
            return kind.from_dict(self._connection.ask(method, self._path + path, **words))
        except FieldError as problem:
            sentence = f"The server's answer lacks a proper {problem.field!r}: this is not a survey."
            raise CoordinatorError(sentence) from None


# What a respondent's program checks before it draws: the log, what others saw of it, and that guidance follows.


def check_log(
    server: SurveyServer,
    survey: SurveyStudy,
    V: Floats,
    asked: Inquiry,
    heads: RememberedHeads | None,
    pinned: Sequence[str] = (),
) -> str:
    """Whether the guidance follows from its counts and stands in a log that continues the one remembered. Returns what
    witnesses say. Those that the survey file or the link names may be silent; `pinned` ones may not."""
    entries = server.log(survey.root)
    by_version = {entry.version: entry for entry in entries}
    mine = by_version.get(asked.version)
    if mine is None or (mine.sha256, mine.k, mine.hash) != (hash_matrix(V), asked.k, asked.head):
        raise GuidanceError("The guidance is not the one in the public log. Nothing was sent.")
    remembered = heads.head(server.name) if heads else None
    if remembered is not None and getattr(by_version.get(remembered[0]), "hash", None) != remembered[1]:
        raise GuidanceError(
            f"The log is not the one that this device saw before (version {remembered[0]}): the server shows "
            "different people different guidance, or started again. Nothing was sent."
        )
    said = ask_witnesses(survey, by_version, server.link.witnesses, pinned)
    check_counts(server, survey, mine, V)
    if heads is not None:
        heads.remember(server.name, entries[-1].version, entries[-1].hash)
    return said


def check_counts(server: SurveyServer, survey: SurveyStudy, entry: LogEntry, V: Floats) -> None:
    """Recompute one version from its published counts."""
    inputs = server.inputs(entry)
    if SurveyCounts.from_json(inputs).n != entry.answers:
        raise CardError(f"Version {entry.version} states a number of answers that differs from its counts.")
    verify_guidance(survey, inputs, V, entry.k)


def ask_witnesses(
    survey: SurveyStudy, log: dict[int, LogEntry], linked: Sequence[str] = (), pinned: Sequence[str] = ()
) -> str:
    """Whether every witness that answers saw this survey and this log, in words that say who chose them."""
    chosen = dict.fromkeys([*pinned, *linked])
    agreeing: dict[str, bool] = {}
    for witness in [*chosen, *survey.witnesses]:
        seen: Head | None = None
        with suppress(httpx.HTTPError, httpx.InvalidURL, OSError, ValueError):  # at an address or in a file, or silent
            if witness.startswith(("https://", "http://")):
                told = httpx.get(witness, timeout=15.0, follow_redirects=False).raise_for_status().json()
            else:
                told = json.loads(Path(witness).read_text(encoding="utf-8"))
            seen = Head.from_dict(told)
        agreeing[witness] = seen is not None
        if seen and (seen.survey != survey.hash or getattr(log.get(seen.version), "hash", None) != seen.hash):
            raise GuidanceError(f"The witness {witness} saw another survey or another log. Nothing was sent.")
    for witness in pinned:
        if not agreeing[witness]:
            raise GuidanceError(f"The witness {witness}, which you named, cannot be read. Nothing was sent.")
    if not any(agreeing.values()):
        return "not witnessed"
    words = f"{sum(agreeing.values())} of {len(agreeing)} witnesses agree"
    independent = any(agreeing[witness] for witness in chosen)
    return words if independent else f"{words}, all of them named by the survey itself"


# Anybody's check of a survey: the log from its beginning, guidance from published counts, heads for others to see.


class Verified(NamedTuple):
    """What was checked; `survey` is the hash of its file, `pinned` whether the link named it."""

    entries: int
    recomputed: int
    answers: int
    version: int
    head: str
    survey: str
    pinned: bool
    witnesses: str


def verify_survey(
    server: SurveyServer, *, last: int | None = None, pinned: Sequence[str] = (), progress: Progress = silent
) -> Verified:
    """Follow the log, and recompute the `last` versions (all without it); an error says what does not fit. Witnesses
    are asked as a respondent asks them; `pinned` ones must answer."""
    survey, _ = server.describe()
    entries = server.log(survey.root)
    if not entries:
        raise CardError("The survey has no guidance yet, so there is nothing to verify.")
    said = ask_witnesses(survey, {entry.version: entry for entry in entries}, server.link.witnesses, pinned)
    chosen = entries if last is None else entries[-last:]
    for number, entry in enumerate(chosen, start=1):
        check_counts(server, survey, entry, server.guidance(Inquiry(entry.version, entry.k, entry.hash), survey.width))
        progress("Versions", number, len(chosen))
    newest, counted = entries[-1], (len(entries), len(chosen), entries[-1].answers)
    return Verified(*counted, newest.version, newest.hash, survey.hash, bool(server.link.hash), said)


def witness_survey(server: SurveyServer, path: Path) -> dict[str, Any]:
    """Write the newest entry, if the log continues the one that was written before."""
    survey, _ = server.describe()
    entries = server.log(survey.root)
    if path.exists():
        try:
            known = Head.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise CardError(f"{path} is not what an earlier run wrote. Move it away to start again.") from error
        seen = {entry.version: entry.hash for entry in entries}
        if known.survey != survey.hash or seen.get(known.version) != known.hash:
            raise CardError(
                f"The log does not continue what was witnessed before (version {known.version}): it was changed, or "
                "the server shows different people different logs. Nothing was written; tell others."
            )
    found = Head(survey.hash, entries[-1].version, entries[-1].hash).to_dict()
    write_whole(path, json.dumps(found) + "\n")
    return found
