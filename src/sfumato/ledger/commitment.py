"""What an owner commits to in a public log: a release, what is proved of it, and of whom; and what commitments come to.

A commitment names its release by the hash of the card, and its people by a name that the owner declares. It holds no
row and no total that was made by comparing rows: only what this one release costs. The owner's key signs it.
"""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.core.errors import CardError, UsageError
from sfumato.core.files import file_digest
from sfumato.core.records import Record
from sfumato.core.wording import counted
from sfumato.guarantee.all_releases import AllReleases
from sfumato.guarantee.card import Card
from sfumato.guarantee.cost import Values
from sfumato.guarantee.finding import Finding, cannot_check, ok, wrong
from sfumato.guarantee.signer import PublicKey, Signer, checked
from sfumato.ledger.public_log import Entry, LogCopy, entry_of

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
    """Whether these are costs at all; a comparison with what is no number is false."""
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
        """The sum in one sentence."""
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
