"""A copy of a public log of releases: read from tiles at an address or in a folder, checked whole, and followed.

Everything in a copy follows from the signed checkpoint: entries hash to its root, or the copy is refused. A later copy
must continue an earlier one. Who keeps a copy therefore notices a log that was changed; who compares checkpoints with
others notices one that shows different people different logs.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato.core.errors import CardError, UsageError
from sfumato.core.files import file_digest, write_whole
from sfumato.core.records import Record
from sfumato.core.wording import counted
from sfumato.guarantee.all_releases import AllReleases
from sfumato.guarantee.card import Card
from sfumato.guarantee.cost import Values
from sfumato.guarantee.signer import PublicKey, Signer, checked
from sfumato.guarantee.words import Finding, cannot_check, ok, wrong
from sfumato.ledger.notes import (
    TILE,
    Checkpoint,
    NoteError,
    NoteKey,
    ProofError,
    leaf_hash,
    nodes_of,
    opened,
    root_of,
    tile_path,
    tile_width,
    time_signed,
)

Entry = bytes
Fetch = Callable[[str], bytes]
"""What stands at a path below the log's address."""
LONGEST_ENTRY = 16 << 10
LARGEST = 1 << 24
"""Entries of a log that is still read whole."""
CHECKPOINT, KEY = "checkpoint", "log.vkey"
LOG = "/log"
"""Where a coordinator shows its log."""


def entry_of(kind: str, told: Mapping[str, Any]) -> Entry:
    """An entry as it is hashed: JSON in one spelling."""
    text = json.dumps(
        {"kind": kind, **told}, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return text.encode()


def packed(entries: Iterable[Entry]) -> bytes:
    """A bundle of entries, each after its length."""
    return b"".join(len(one).to_bytes(2, "big") + one for one in entries)


def unpacked(bundle: bytes, number: int) -> list[Entry]:
    """The entries of a bundle, which are so many."""
    found, at = [], 0
    while at + 2 <= len(bundle):
        end = at + 2 + int.from_bytes(bundle[at : at + 2], "big")
        found.append(bundle[at + 2 : end])
        at = end
    if at != len(bundle) or len(found) != number:
        raise CardError("A part of the log cannot be read: it was cut short or changed.")
    return found


@dataclass(frozen=True)
class LogCopy:
    """All entries of a log up to a checkpoint, which its key signed."""

    key: NoteKey
    note: str
    entries: tuple[Entry, ...]

    @classmethod
    def read(cls, fetch: Fetch, key: NoteKey, known: LogCopy | None = None) -> LogCopy:
        """The log as it is now, checked; it continues the one that is `known`, whose entries are not read again."""
        try:
            note = fetch(CHECKPOINT).decode()
            size = opened(note, key).size
        except ValueError as error:
            raise CardError(f"The log {key.name} cannot be believed: {error}") from None
        if size > LARGEST:
            raise CardError(f"The log {key.name} has {size:,} entries, too many to be read whole.")
        before = () if known is None else known.entries
        if size < len(before):
            raise CardError(f"The log {key.name} became shorter: it had {len(before):,} entries, and has {size:,}.")
        entries = list(before[: len(before) // TILE * TILE])
        for number in range(len(entries) // TILE, -(-size // TILE)):
            width = tile_width(size, 0, number)
            entries += unpacked(fetch(f"tile/entries/{tile_path(number, width)}"), width)
        found = cls(key, note, tuple(entries))
        if found.root(size) != found.checkpoint.root:
            raise CardError(f"The log {key.name} was changed: its entries do not lead to the root that it signed.")
        if known is not None and found.root(len(before)) != known.checkpoint.root:
            raise CardError(
                f"The log {key.name} does not continue the copy of {len(before):,} entries: it was changed, or it "
                "shows different people different logs. Keep both copies, and tell others."
            )
        return found

    @classmethod
    def load(cls, folder: Path) -> LogCopy:
        """A copy that `save` wrote, checked again."""

        def fetch(path: str) -> bytes:
            try:
                return (folder / path).read_bytes()
            except OSError:
                raise CardError(f"{folder} is no copy of a log, or a part of it is missing: {path}.") from None

        try:
            key = NoteKey.read(fetch(KEY).decode())
        except ValueError as error:
            raise CardError(f"{folder / KEY} holds no key of a log: {error}") from None
        return cls.read(fetch, key)

    def save(self, folder: Path) -> None:
        """In the form of tlog-tiles, the checkpoint last; a copy that is there is continued."""
        for number in range(-(-len(self.entries) // TILE)):
            some = self.entries[number * TILE : (number + 1) * TILE]
            path = folder / "tile" / "entries" / tile_path(number, len(some))
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, packed(some))
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / KEY, self.key.text + "\n")
        write_whole(folder / CHECKPOINT, self.note)

    @cached_property
    def checkpoint(self) -> Checkpoint:
        return opened(self.note, self.key)

    @cached_property
    def _nodes(self) -> Callable[[int, int], bytes]:
        return nodes_of([leaf_hash(one) for one in self.entries])

    def root(self, size: int) -> bytes:
        """The root that the log had when it had so many entries."""
        return root_of(self._nodes, size)

    def witnessed(self, witnesses: Iterable[NoteKey]) -> dict[str, int]:
        """Witnesses that signed the checkpoint, with the times; a signature that does not fit is refused."""
        try:
            times = {one.name: time_signed(self.note, one) for one in witnesses}
        except (NoteError, ProofError) as error:
            raise CardError(f"The checkpoint of {self.key.name} cannot be believed: {error}") from None
        return {name: time for name, time in times.items() if time is not None}

    def told(self, kind: str) -> list[tuple[int, dict[str, Any]]]:
        """The entries of one kind, with their numbers; what cannot be read is of no kind."""
        found = []
        for number, entry in enumerate(self.entries):
            try:
                read = json.loads(entry)
            except (ValueError, RecursionError):
                continue
            if isinstance(read, dict) and read.get("kind") == kind:
                found.append((number, read))
        return found


# What an owner commits to in a public log: a release, what is proved of it, and of whom; and what commitments come to.
#
# A commitment names its release by the hash of the card, and its people by a name that the owner declares. It holds no
# row and no total that was made by comparing rows: only what this one release costs. The owner's key signs it.


KIND = "commitment"
NAMESPACE = "sfumato-commitment"
"""Of the signature, so that it is not taken for one of a card."""
LONGEST_NAME = 200
UNREADABLE = "The commitment cannot be read: it was changed, or another version wrote it."


@dataclass(frozen=True, kw_only=True)
class Commitment(Record):
    """`card` is the SHA-256 of card.json. `record` and `person` are what is proved of the values of one record, and of
    a person with all of their rows; without a bound they are that too."""

    takes_more = False

    population: str
    card: str
    record: Values
    person: Values

    def __post_init__(self) -> None:
        name = self.population
        if not 0 < len(name) <= LONGEST_NAME or name != named(name) or not name.isprintable():
            raise ValueError("the population is no short line of text")
        if len(self.card) != 64 or set(self.card) - set("0123456789abcdef"):
            raise ValueError("the card is no hash")
        if not (_possible(self.record) and _possible(self.person)):
            raise ValueError("its figures cannot be")

    @classmethod
    def of(cls, folder: Path | str, population: str) -> Commitment:
        """What the card in a folder says of this release alone."""
        card, digest = Card.load(folder), file_digest(Path(folder) / "card.json")
        try:
            return cls(population=named(population), card=digest, **_figures(card))
        except ValueError:
            raise UsageError(
                f"The name of the population must be one line of at most {LONGEST_NAME} characters, for example "
                '"patients of North, 2020 to 2025".'
            ) from None

    def signed(self, signer: Signer) -> dict[str, str]:
        """As it is sent to a coordinator: the text, and the owner's signature of it."""
        text = json.dumps(self.to_dict(), sort_keys=True, ensure_ascii=False, allow_nan=False)
        return {"text": text, "signature": signer.sign(text.encode(), NAMESPACE)}


def named(population: str) -> str:
    """A name in the one spelling by which commitments are found together."""
    return " ".join(unicodedata.normalize("NFC", population).split())


def _figures(card: Card) -> dict[str, Values]:
    """Of this release alone: what the ledger knows of earlier ones was found by comparing rows, and stays here."""
    earlier = card.earlier_releases or {}
    planned = {} if earlier.get("count") else {"central": earlier.get("central")}
    alone = AllReleases.from_dict(card.guarantee, planned)
    every = {"record": alone.values, "person": alone.person}
    # As they come back from text: what has no bound is not told apart.
    return {name: Values.from_dict(values.to_dict()) for name, values in every.items()}


def _possible(values: Values) -> bool:
    if not values.local >= 0.0:
        return False
    central = values.central
    return central is None or (
        central.pure >= 0.0 and 0.0 <= central.rho < math.inf and 0.0 <= central.delta < 1.0 and central.epsilon >= 0.0
    )


def read_commitment(found: Mapping[str, Any]) -> tuple[Commitment, PublicKey]:
    """What was committed to, and whose key signed it; `CardError` where it is not signed, or cannot be."""
    text, signature = found.get("text"), found.get("signature")
    if not isinstance(text, str) or not isinstance(signature, str):
        raise CardError(UNREADABLE)
    signer = checked(signature, text.encode(errors="replace"), NAMESPACE)
    try:
        return Commitment.from_dict(json.loads(text)), signer
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        raise CardError(UNREADABLE) from None


def commitment_entry(sent: Mapping[str, str], day: str) -> Entry:
    """As it stands in the log, with the day on which the coordinator took it."""
    return entry_of(KIND, {"text": sent["text"], "signature": sent["signature"], "logged": day})


@dataclass(frozen=True)
class Logged:
    """One commitment of a log, with its number there and the fingerprint of the key that signed it."""

    number: int
    what: Commitment
    by: str


def commitments(copy: LogCopy) -> list[Logged]:
    """Those of a log that are signed and can be read; others count for nothing."""
    found = []
    for number, entry in copy.told(KIND):
        try:
            what, key = read_commitment(entry)
        except CardError:
            continue
        found.append(Logged(number, what, key.fingerprint))
    return found


@dataclass(frozen=True)
class AtLeast:
    """What was logged of one population comes to; releases that were not logged are not in it."""

    population: str
    releases: int
    signers: int
    person: Values
    record: Values
    unproved: int

    @classmethod
    def of(cls, population: str, some: Iterable[Logged]) -> AtLeast:
        """Each release once: of several commitments to one card, the one that says most."""
        worst: dict[str, Logged] = {}
        signers = set()
        for one in some:
            signers.add(one.by)
            known = worst.get(one.what.card)
            if known is None or one.what.person.epsilon > known.what.person.epsilon:
                worst[one.what.card] = one
        each = [one.what for one in worst.values()]
        person, record = sum((one.person for one in each), Values()), sum((one.record for one in each), Values())
        unproved = sum(not one.record.bounded for one in each)
        return cls(population, len(each), len(signers), person, record, unproved)

    def in_words(self) -> str:
        whose, values = ("a person's values", self.person) if self.person.bounded else ("one row", self.record)
        if self.unproved:
            what = f"no bound, since nothing is proved of {self.unproved:,} of them"
        elif values.bounded:
            what = f"{values.words()} for {whose}"
        else:
            what = "no bound together"
        keys = f", signed by {self.signers:,} keys" if self.signers > 1 else ""
        what = f"{counted(self.releases, 'release')} of {self.population!r}{keys}, in all {what}"
        return f"At least, of what was logged: {what}."

    def to_dict(self) -> dict[str, Any]:
        """For machines; null stands for no bound."""

        def figure(values: Values) -> dict[str, Any]:
            return {"epsilon": values.epsilon if values.bounded else None, "delta": values.delta}

        told = {"population": self.population, "releases": self.releases, "signers": self.signers}
        return {**told, "unproved": self.unproved, "person": figure(self.person), "record": figure(self.record)}


def in_log(folder: Path, copy: LogCopy, signed_by: str | None) -> Iterator[Finding]:
    """What a log says of a release and of everything else that was logged of the same people."""
    every, card = commitments(copy), file_digest(folder / "card.json")
    mine = [one for one in every if one.what.card == card and signed_by in (None, one.by)]
    if not mine:
        yield cannot_check(
            "log", f"What else was released of these people: this release is not in the log {copy.key.name}."
        )
        return
    figures = _figures(Card.load(folder))
    for one in mine:
        if (one.what.record, one.what.person) != (figures["record"], figures["person"]):
            yield wrong("log", f"Entry {one.number} of the log {copy.key.name} states another guarantee than the card.")
            return
    for population in dict.fromkeys(one.what.population for one in mine):
        total = AtLeast.of(population, (one for one in every if one.what.population == population))
        yield ok("log", total.in_words(), log=copy.key.text, size=copy.checkpoint.size, at_least=total.to_dict())
    yield cannot_check("log", "What was released of these people and not logged, or logged under another name.")
