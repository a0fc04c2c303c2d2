"""Noise that an auditor can recompute: what an owner commits to before the noise can be known, and the seed for it.

    commitment = SHA-256(domain | s | r | SHA-256(table) | SHA-256(parameters))      s and r: 256 secret bits each
    answer     = HMAC-SHA256(HKDF(secret key of the auditor, or of a coordinator's log), commitment)
    run key    = HKDF-SHA256(s, salt = answer, info = domain | commitment)

Neither side rules the noise. The owner cannot compute it before the commitment is known to the auditor (or stands in
the log), and cannot change s, the table or a parameter afterwards. The auditor does not know s when it answers. Whoever
has s and the release has the table: s and r are sealed to the auditor, and erased here before the release stands.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import platform
import re
import secrets
import stat
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pyrage import DecryptError, IdentityError, RecipientError, decrypt, encrypt
from pyrage.x25519 import Identity, Recipient

from sfumato import __version__
from sfumato.channels.base import EXACT_COUNTS, EXACT_PATHS
from sfumato.core.errors import CardError, OutputError, UsageError
from sfumato.core.files import exclusive, is_private, write_whole
from sfumato.core.records import Record
from sfumato.ledger.public_log import Entry, entry_of
from sfumato.noise import Streams
from sfumato.release.signature import content_digest, content_of
from sfumato.release.unfinished import erase
from sfumato.table import Schema, Table

if TYPE_CHECKING:
    from sfumato.mechanisms import Mechanism
    from sfumato.release.sanitize_options import Plan

KIND = "noise"
"""Of a log's entry that holds a commitment."""
COMMITMENT, SEALED, SECRET = ".commitment.json", ".seed.age", ".seed.secret"
"""Beside the folder of the release: what is published, what the auditor alone can open, and what is erased."""
SECRET_BYTES = 32
_COMMITTED, _RUN, _ANSWER = (f"sfumato/auditable/{what}/1".encode() for what in ("commitment", "run", "answer"))
_ANSWERED = re.compile("[0-9a-f]{64}-[0-9a-f]{8}")
REPEATED = (
    "unlabelled",
    "private_label",
    "max_rows_per_person",
    "out_of_bounds",
    "like_original",
    "format",
    "engine",
    "measured_only",
    "unprotected",
)
"""Options that shape rows, beside the schema and the strength."""


def committed(s: bytes, r: bytes, table: bytes, parameters: Mapping[str, Any]) -> str:
    """The commitment; every part has a fixed length."""
    return hashlib.sha256(_COMMITTED + s + r + table + parameters_digest(parameters)).hexdigest()


def parameters_digest(parameters: Mapping[str, Any]) -> bytes:
    """Of the one spelling of all that shapes a release beside its table."""
    return hashlib.sha256(json.dumps(parameters, sort_keys=True, allow_nan=False).encode()).digest()


def run_key(s: bytes, commitment: str, answer: str) -> bytes:
    """The key of the run whose noise follows from secret and answer."""
    info = _RUN + bytes.fromhex(commitment)
    return HKDF(algorithm=SHA256(), length=32, salt=bytes.fromhex(answer), info=info).derive(s)


def answer_of(secret: bytes, commitment: str) -> str:
    """What an auditor or a log with this secret key answers to a commitment: always the same, and unknown to all
    others until then."""
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=_ANSWER).derive(secret)
    return hmac.digest(key, bytes.fromhex(commitment), "sha256").hex()


def spoken(commitment: str, answer: str) -> str:
    """An answer as it is handed over, with eight digits more: one that was copied wrongly, or is of another commitment,
    would make a release that no audit accepts."""
    return f"{answer}-{hashlib.sha256(_ANSWER + bytes.fromhex(commitment + answer)).hexdigest()[:8]}"


def here() -> dict[str, str]:
    """The versions on which the bits of a release depend."""
    packages = {name: version(name) for name in ("numpy", "scipy", "pyarrow", "randomgen")}
    python = ".".join(map(str, sys.version_info[:2]))
    return {"sfumato": __version__, "python": python, "machine": platform.machine(), **packages}


def parameters_of(plan: Plan, schema: Schema) -> dict[str, Any]:
    """All that shapes the release beside its table, as plain JSON."""
    options = {name: getattr(plan.options, name) for name in REPEATED}
    found = {"schema": schema.to_dict(), "strength": asdict(plan.strength), "options": options, "versions": here()}
    try:
        return json.loads(json.dumps(found, allow_nan=False))  # type: ignore[no-any-return]
    except (TypeError, ValueError):
        raise UsageError(
            "--auditable needs parameters that can be written down: numbers, text and lists of them."
        ) from None


def check_path(mechanism: Mechanism) -> None:
    """Only noise of exact arithmetic is the same everywhere."""
    if mechanism.recipe_.path not in (EXACT_COUNTS, *EXACT_PATHS):
        raise UsageError(
            f"--auditable needs noise that is drawn exactly, and {mechanism.name} has other noise with these "
            "parameters. Nothing was released. Use --epsilon, which chooses a method that draws exactly."
        )


@dataclass(frozen=True, kw_only=True)
class NoiseCommitment(Record):
    """What is published before the noise can be known; `auditor` is the public key of who can recompute it."""

    takes_more = False

    format: Literal["sfumato-noise-commitment"] = "sfumato-noise-commitment"
    commitment: str
    auditor: str

    def __post_init__(self) -> None:
        _hex(self.commitment)
        recipient(self.auditor)

    @classmethod
    def load(cls, path: Path | str) -> NoiseCommitment:
        """From the file that `sanitize --auditable` wrote."""
        try:
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, UsageError, RecursionError):
            raise CardError(f"{path} is no commitment of `sfumato sanitize --auditable`, or it was changed.") from None


def noise_entry(told: Mapping[str, str], answer: str, day: str) -> Entry:
    """As a commitment stands in a log, with the log's answer and the day on which the coordinator took it."""
    told = {"commitment": told["commitment"], "auditor": told["auditor"]}
    return entry_of(KIND, {**told, "answer": answer, "logged": day})


def _hex(text: str) -> bytes:
    if len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise ValueError("not 256 bits")
    return bytes.fromhex(text)


@dataclass(frozen=True, repr=False)
class Seed:
    """The two secrets, and what they are for; sealed to the auditor, and in a private file until the release stands."""

    s: bytes
    r: bytes
    table: bytes
    parameters: Mapping[str, Any]

    @property
    def commitment(self) -> str:
        return committed(self.s, self.r, self.table, self.parameters)

    def to_json(self) -> bytes:
        told = {name: getattr(self, name).hex() for name in ("s", "r", "table")}
        return json.dumps({"format": "sfumato-seed", **told, "parameters": self.parameters}).encode()

    @classmethod
    def from_json(cls, text: bytes) -> Seed:
        """ValueError where this is none."""
        try:
            found = json.loads(text)
            if found["format"] != "sfumato-seed" or not isinstance(found["parameters"], dict):
                raise ValueError("another file")
            s, r, table = (_hex(found[name]) for name in ("s", "r", "table"))
            return cls(s, r, table, found["parameters"])
        except (LookupError, TypeError, AttributeError, RecursionError):
            raise ValueError("not a seed") from None


# Files that one person alone can open, in the form of age (https://c2sp.org/age), and the files of keys for it.
#
# A key of `age-keygen` can be used here, and a file that was made here is opened by `age --decrypt`.

PUBLIC_AGE, SECRET_AGE = "age1", "AGE-SECRET-KEY-1"
"""What keys begin with."""


def recipient(text: str) -> Recipient:
    """The public key age1...; else `UsageError`."""
    try:
        return Recipient.from_str(text.strip())
    except RecipientError:
        raise UsageError("That is not a public key of age (age1...): a letter is missing or wrong.") from None


def load_recipient(path: Path | str) -> Recipient:
    """From the file of a public key."""
    line = _only_line(path, "the auditor's public key (age1...)")
    if line.upper().startswith(SECRET_AGE):
        raise UsageError(f"{path} is a secret key: only its owner may have it. Ask them for the public one.")
    return recipient(line)


def load_identity(path: Path | str) -> Identity:
    """From a file that its owner alone can read, as `age-keygen` and `sfumato auditor key` write it."""
    line = _only_line(path, "the auditor's secret key (AGE-SECRET-KEY-1...)")
    if line.lower().startswith(PUBLIC_AGE):
        raise UsageError(f"{path} is a public key, which opens nothing. Give the secret one that belongs to it.")
    if not is_private(Path(path)):
        raise CardError(
            f"The secret key {path} can be read by others on this machine. Find out who could have; then make a "
            f"new one, or: chmod 600 {path}"
        )
    try:
        return Identity.from_str(line)
    except IdentityError:
        raise UsageError(f"{path} is not the secret key of an auditor: a letter is missing or wrong.") from None


def seal(content: bytes, to: Recipient) -> bytes:
    """A file with this content, which only the owner of the secret key can open."""
    return bytes(encrypt(content, [to]))


def unsealed(sealed: bytes, by: Identity) -> bytes:
    """The content of a file; `CardError` where it was sealed to another key, or is not whole."""
    try:
        return bytes(decrypt(sealed, [by]))
    except DecryptError:
        raise CardError(
            "The sealed file cannot be opened with this key: it was sealed to another one, or was changed or cut short."
        ) from None


def _only_line(path: Path | str, what: str) -> str:
    """The line of a key file that holds the key; comments are left out."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError):
        raise UsageError(f"{path} cannot be read. Give the file of {what}.") from None
    found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if len(found) != 1:
        raise UsageError(f"{path} must hold one key, {what}, and holds {len(found)}.")
    return found[0]


# The auditor's side: a key, and an answer to each commitment.


def new_auditor(path: Path) -> Recipient:
    """Make the auditor's key in a private file, and the public half beside it."""
    identity, public = Identity.generate(), path.with_name(path.name + ".pub")
    for one in (path, public):
        if one.exists():  # never replaced: what was sealed to it could be opened no more
            raise OutputError(f"{one} exists already. Choose another name.")
    write_whole(path, f"# public key: {identity.to_public()}\n{identity}\n", private=True)
    write_whole(public, f"{identity.to_public()}\n")
    return identity.to_public()


def answer(path: Path | str, key: Path) -> tuple[str, int]:
    """Answer the commitment in a file, and note it beside the key: the value, and how many were answered in all."""
    auditor, told = load_identity(key), NoiseCommitment.load(path)
    if told.auditor != str(auditor.to_public()):
        raise UsageError(f"{path} is a commitment to another auditor: {told.auditor}.")
    with exclusive(_notes(key)):
        every = (answered(key) or set()) | {told.commitment}
        write_whole(_notes(key), "".join(f"{one}\n" for one in sorted(every)), private=True)
    return spoken(told.commitment, answer_of(str(auditor).encode(), told.commitment)), len(every)


def answered(key: Path) -> set[str] | None:
    """The commitments that this auditor's key answered; None where the notes of it are not beside the key."""
    notes = _notes(key)
    return set(notes.read_text(encoding="utf-8").split()) if notes.is_file() else None


def _notes(key: Path) -> Path:
    return key.with_name(key.name + ".answered")


# The owner's side: commit, then release with the answer, then forget.


def beside(out: Path, suffix: str) -> Path:
    """A file of the release that will be at `out`."""
    return out.with_name(out.name + suffix)


@dataclass(frozen=True)
class Committed:
    """What was just committed to: the commitment is to be published, `sealed` is for the auditor alone."""

    commitment: NoiseCommitment
    published: Path
    sealed: Path
    secret: Path


def commit(table: Table, plan: Plan, schema: Schema, out: Path) -> Committed:
    """Draw the secrets for this table and these parameters; nothing is released."""
    assert plan.options.auditable is not None
    auditor, secret = load_recipient(plan.options.auditable), beside(out, SECRET)
    if secret.exists() and not plan.options.force:
        raise OutputError(
            f"{out} was committed to before. Release it with --answer VALUE, or commit again, to another seed, with "
            "--force: whoever answers sees both commitments."
        )
    s, r = secrets.token_bytes(SECRET_BYTES), secrets.token_bytes(SECRET_BYTES)
    seed = Seed(s, r, content_digest(content_of(table)), parameters_of(plan, schema))
    told = NoiseCommitment(commitment=seed.commitment, auditor=str(auditor))
    out.parent.mkdir(parents=True, exist_ok=True)
    erase(secret)
    write_whole(secret, seed.to_json(), private=True)
    write_whole(beside(out, SEALED), seal(seed.to_json(), auditor), private=True)
    write_whole(beside(out, COMMITMENT), json.dumps(told.to_dict(), indent=1) + "\n")
    return Committed(told, beside(out, COMMITMENT), beside(out, SEALED), secret)


@dataclass(frozen=True, repr=False)
class Opened:
    """A commitment whose answer is known: the run may begin."""

    streams: Streams
    on_card: Mapping[str, str]
    secret: Path
    check = staticmethod(check_path)
    assumption: ClassVar[str] = (
        "The seed of the noise is known to the auditor alone, who keeps it secret and is no reader of the release."
    )


def opened(table: Table, plan: Plan, schema: Schema, out: Path | None) -> Opened:
    """Take up what was committed to; refused where table or parameters are others now."""
    assert out is not None and plan.options.auditable is not None  # noqa: PT018 (checked before)
    auditor, path = load_recipient(plan.options.auditable), beside(out, SECRET)
    value = str(plan.options.answer).strip()
    seed = _kept(path)
    published = NoiseCommitment.load(beside(out, COMMITMENT))
    if published.commitment != seed.commitment:
        raise CardError(f"{path} does not belong to {beside(out, COMMITMENT)}. Commit again, with --force.")
    if published.auditor != str(auditor):
        raise UsageError("The commitment was made for another auditor's key. Give that one to --auditable.")
    answer = value.partition("-")[0]
    if not _ANSWERED.fullmatch(value) or value != spoken(seed.commitment, answer):
        raise UsageError(
            "--answer is not an answer to this commitment, or was copied wrongly: 64 letters and digits, a hyphen and "
            "eight more, as `sfumato auditor answer` and `sfumato ledger publish` print them."
        )
    if parameters_digest(seed.parameters) != parameters_digest(now := parameters_of(plan, schema)):
        changed = ", ".join(name for name, value in now.items() if seed.parameters.get(name) != value)
        raise UsageError(
            f"You committed to other parameters ({changed}). Release with those, or commit again, to another seed, "
            "with --force and without --answer."
        )
    if content_digest(content_of(table)) != seed.table:
        raise UsageError(
            "You committed to another table: a cell, a column or the order of rows is not what it was. Release that "
            "one, or commit again, to another seed, with --force and without --answer."
        )
    on_card = {"auditor": str(auditor), "commitment": seed.commitment, "answer": answer}
    return Opened(Streams(run_key(seed.s, seed.commitment, answer)), on_card, path)


def _kept(path: Path) -> Seed:
    """The secrets of a commitment, in a file that no other user could have read or exchanged."""
    if not path.exists() or not stat.S_ISREG(path.lstat().st_mode):
        raise UsageError(
            f"There is no commitment to release: {path} is missing. Commit first: the same command without --answer."
        )
    if not is_private(path):
        raise CardError(f"{path} can be read by others on this machine: they may have the noise. Commit again.")
    try:
        return Seed.from_json(path.read_bytes())
    except ValueError:
        raise CardError(f"{path} is damaged. Commit again, with --force and without --answer.") from None
