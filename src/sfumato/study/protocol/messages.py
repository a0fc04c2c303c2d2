"""What the two ends tell each other, as plain dataclasses: JSON objects whose keys are the fields' names.

Days, never times: the hour of a push stays with the site.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from sfumato.core.errors import CardError
from sfumato.core.records import BRIEF, Record
from sfumato.guarantee.signer import PublicKey, Signer, checked
from sfumato.ledger.notes import LogProof, NoteKey, leaf_hash
from sfumato.ledger.public_log import Entry, entry_of

SITE_ASSERTED = "site-asserted"
"""How what a site says about itself is labelled: no server can see the rows that a release was made from."""

PURPOSES = ("train", "test")
QUEUED, RUNNING, DONE, FAILED = ("queued", "running", "done", "failed")


@dataclass(frozen=True)
class ErrorMessage(Record):
    """`error` is a short code for programs, `message` says what, where and what to do, `request` names the log line."""

    error: str
    message: str
    request: str
    objections: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class StudyInfo(Record):
    id: str
    kind: str
    name: str
    hash: str
    definition: dict[str, Any]
    created: str
    state: str


@dataclass(frozen=True)
class Invited(Record):
    """The token is shown this once; the server keeps only its hash."""

    name: str
    token: str
    expires: str


@dataclass(frozen=True)
class SiteInfo(Record):
    """`guarantee` is in words, for people; `last_push` is a day.

    `epsilon` is that of the weakest release, `total_epsilon` that of who sees all releases of the same rows, by what
    the cards say of `earlier` ones (the most that one of them names); None where there is no bound. `presence`: epsilon
    and delta of rows that belong to nobody, where all releases are of that kind.
    """

    name: str
    created: str
    expires: str
    revoked: bool
    releases: int
    rows: int
    last_push: str | None
    guarantee: str | None
    epsilon: float | None = None
    earlier: int = 0
    total_epsilon: float | None = None
    presence: dict[str, float] | None = None


@dataclass(frozen=True)
class Receipt(Record):
    """A release is durable once this was sent, and its receipt is in the public log of the coordinator.

    `proof` shows that, signed by the key `log`; a coordinator of 0.2 has neither.
    """

    sha256: str
    bytes: int
    rows: int
    purpose: str
    site: str
    study: str
    received: str
    assertions: str = SITE_ASSERTED
    log: Annotated[str | None, BRIEF] = None
    proof: Annotated[str | None, BRIEF] = None

    def entry(self) -> Entry:
        """What stands in the public log: a hash of the receipt, so that only who has it knows what it says."""
        told = replace(self, log=None, proof=None).to_dict()
        return entry_of("receipt", {"sha256": hashlib.sha256(entry_of("receipt", told)).hexdigest()})

    def check(self) -> None:
        """Whether the coordinator signed it; `CardError` where log and receipt do not fit, or half is missing."""
        if self.log is not None or self.proof is not None:
            check_logged(self.entry(), self.log or "", self.proof or "")


def check_logged(entry: Entry, log: str, proof: str) -> int:
    """The number of an entry in the log with this key; `CardError` where the proof does not show it."""
    try:
        found = LogProof.read(proof)
        found.check(leaf_hash(entry), NoteKey.read(log))
    except ValueError as error:
        raise CardError(
            f"The coordinator's receipt cannot be believed: {error} What was sent may have arrived. Keep the receipt, "
            "and ask the coordinator."
        ) from None
    return found.index


@dataclass(frozen=True)
class LogReceipt(Record):
    """That an entry is in the public log: its text, the log's key, and the proof."""

    entry: str
    log: str
    proof: str

    def check(self) -> int:
        """Its number."""
        return check_logged(self.entry.encode(errors="replace"), self.log, self.proof)


@dataclass(frozen=True)
class ReleaseInfo(Record):
    """A release as owner and site see it: counts and card, never rows; figures as in `SiteInfo`."""

    sha256: str
    site: str
    purpose: str
    bytes: int
    rows: int
    received: str
    withdrawn: bool
    guarantee: str
    card: dict[str, Any]
    assertions: str = SITE_ASSERTED
    epsilon: float | None = None
    earlier: int = 0
    total_epsilon: float | None = None
    presence: dict[str, float] | None = None


@dataclass(frozen=True)
class SharedRows(Record):
    """Two releases with rows in common beyond what chance would give: shares of the one's and the other's rows."""

    sha256: str
    site: str
    purpose: str
    share: float
    other: str
    other_site: str
    other_purpose: str
    other_share: float
    expected: float


ALL_SITES, AGREEING_SITES = TRAINED_ON = ("all", "agreeing")


@dataclass(frozen=True)
class ModelInfo(Record):
    """`results` and `card` are there once the state is done; `card` says which releases were used."""

    id: str
    classifier: str
    state: str
    progress: float
    step: str
    created: str
    contains_rows: bool
    uses_withdrawn: bool
    results: dict[str, Any] | None = None
    card: dict[str, Any] | None = None
    failure: str | None = None
    sites: str = ALL_SITES
    column: str | None = None
    """What is reconstructed, where this is a density and no model."""
    parameters: dict[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The classifier and its changed parameters, in one line."""
        told = {name: one if isinstance(one, str) else json.dumps(one) for name, one in self.parameters.items()}
        return " ".join([self.classifier, *(f"{name}={value}" for name, value in told.items())])


@dataclass(frozen=True)
class AddedCounts(Record):
    """A model of everybody, from noisy counts of all `sites`, and the card of rows that are drawn from it. `scores`:
    the sum itself, where sites push scores that a plan is made from."""

    card: dict[str, Any]
    model: dict[str, Any]
    sites: list[str]
    releases: int
    scores: dict[str, Any] | None = None


@dataclass(frozen=True)
class DensityInfo(Record):
    """`found` is there once the state is done: the density or the shares as plain figures, with their band."""

    id: str
    column: str
    method: str
    state: str
    progress: float
    step: str
    created: str
    uses_withdrawn: bool
    found: dict[str, Any] | None = None
    releases: int = 0
    sites: list[str] = field(default_factory=list)
    failure: str | None = None

    @classmethod
    def of(cls, job: ModelInfo) -> DensityInfo:
        """A density waits and is worked on as a model is."""
        used = (job.card or {}).get("releases") or []
        same = ("id", "state", "progress", "step", "created", "uses_withdrawn", "failure")
        return cls(
            **{name: getattr(job, name) for name in same},
            column=job.column or "",
            method=job.classifier,
            found=job.results,
            releases=len(used),
            sites=sorted({str(one.get("site")) for one in used}),
        )


# A request that a site's own key signs, so that a stolen token alone pushes nothing.
#
# The key is the one that signs the site's releases, in a namespace of its own. The operator enrolls its fingerprint,
# which the site says by telephone or on paper. Each signature holds a number that was never used before, and says what
# is asked for: it cannot be sent again, for another study, for other rows, or for another purpose.

NAMESPACE = "sfumato-request"
HEADER = "Sfumato-Signed"
LONGEST = 2048
_ONCE = re.compile("[0-9a-f]{32}")


def push_wish(study: str, sha256: str, purpose: str) -> dict[str, str]:
    """What a push asks for."""
    return {"do": "push", "study": study, "sha256": sha256, "purpose": purpose}


def withdraw_wish(study: str, sha256: str) -> dict[str, str]:
    """What a withdrawal asks for."""
    return {"do": "withdraw", "study": study, "sha256": sha256}


def signed_header(signer: Signer, wish: Mapping[str, str]) -> dict[str, str]:
    """The header of one attempt."""
    once = secrets.token_hex(16)
    signature = signer.sign(_message(wish, once), NAMESPACE)
    return {HEADER: f"{once}.{base64.b64encode(signature.encode()).decode()}"}


def signed_by(header: str, wish: Mapping[str, str]) -> tuple[PublicKey, str]:
    """Whose key signed this wish, and the number that may be used once; `CardError` where none did."""
    once, _, packed = header[:LONGEST].partition(".")
    try:
        signature = base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError):
        signature = b""
    if not _ONCE.fullmatch(once):
        raise CardError("The signature of the request cannot be read.")
    return checked(signature, _message(wish, once), NAMESPACE), once


def _message(wish: Mapping[str, str], once: str) -> bytes:
    return json.dumps({**wish, "once": once}, sort_keys=True, separators=(",", ":")).encode()
