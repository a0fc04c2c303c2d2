"""What the owner's ledger is told of a release, and when; a trial that never leaves the program tells it nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.guarantee import Card, Guarantee
from sfumato.guarantee.all_releases import is_drawn
from sfumato.guarantee.cost import NOTHING_PROVED, Central
from sfumato.guarantee.person_hash import Fingerprint
from sfumato.ledger import Ledger
from sfumato.ledger.ledger import Note, new_roll_name
from sfumato.ledger.roll import Roll
from sfumato.mechanisms import Mechanism
from sfumato.release.sanitize_options import Options
from sfumato.release.write_release import today
from sfumato.table import Schema, Table
from sfumato.table.cell_sets import one_spelling

if TYPE_CHECKING:
    from sfumato.release.search_result import SearchResult


# What an owner is told about a release that was just made.


@dataclass(frozen=True, repr=False)
class Sanitized:
    """The card, and what only the owner is told."""

    card: Card
    folder: Path | None
    clipped: dict[str, int]
    dropped: tuple[str, ...]
    notes: Mapping[str, Any] = field(default_factory=dict)
    search: SearchResult | None = None
    known: int | None = None
    """With `only_new`: rows that were released before; they were left out, except with `again`."""
    at_the_ends: Mapping[str, list[str]] = field(default_factory=dict)
    """Public ranges that end where the table does, by column: "low", "high" or both."""
    new_ledger: Path | None = None
    """The ledger, where this is the first release that it counts."""
    signer: Path | None = None
    """File of the key that signs it, wherever it is saved."""

    def __repr__(self) -> str:
        where = "in memory" if self.folder is None else f"into {self.folder}"
        return f"<Sanitized {where}: {self.card!r}>"


MOST_CARDS, MOST_CARD_BYTES = 200, 1 << 22
"""How many cards are looked at for the mark of another ledger, and how long they may be."""


def recognise(mechanism: Mechanism, ledger: Ledger, rows: int, options: Options, *, private: bool = False) -> None:
    """Remember what was learned, also with a seed: it stands on a card. What was remembered is not public, whatever
    reason is given with it. What a run with a seed estimated counts as learned: anybody can take its noise away. So
    does what `private` rows have shaped that were given as public ones, though the card does not say so."""
    directions = mechanism.directions()
    if directions is None:
        return
    if private or mechanism.learns_directions or (options.seed is not None and mechanism.estimates):
        if not options.leaves_no_mark:
            ledger.remember_learned(directions, rows, mechanism.variances_, secret=mechanism.needs_key)
    elif ledger.has_learned(directions):
        mechanism.borrow()


def fit_noted(planned: Central | None, cap: int | None) -> dict[str, Any]:
    """What a fit that draws noise is noted with; a `cap` on rows is refused without a column that names people."""
    return {
        "epsilon": None,
        "exact_label": False,
        "central": planned,
        "rows_per_person": cap or 1,
        "named": cap is not None,
    }


class Account:
    """What the owner's ledger is told of one release, and when.

    A dry run tells nothing, and is refused as the release would be. A trial is neither; an experiment is not even held
    against earlier releases.
    """

    def __init__(
        self, ledger: Ledger, options: Options, fingerprint: Fingerprint, roll: Roll | None, run: str | None
    ) -> None:
        self.ledger, self.options, self.fingerprint, self.roll = ledger, options, fingerprint, roll
        self.run = run
        """The name of a run that can go on after it was killed, so that it is counted once."""
        self.note: dict[str, Any] = {}
        self._charged: dict[str, Any] | None = None

    def charge_fit(self, mechanism: Mechanism, *, proves: bool) -> None:
        """A fit that draws noise is paid for whatever becomes of it: choosing among fits would tell something. Where
        something stands in the way of the claim, it costs more than any budget."""
        planned = mechanism.planned if proves else NOTHING_PROVED
        note = self._noted(mechanism) | fit_noted(planned, self.options.max_rows_per_person)
        self._charged = self._count(note)

    def charge_release(
        self, mechanism: Mechanism, guarantee: Guarantee, memory: str | None, undo: ExitStack
    ) -> dict[str, Any]:
        """What the card says of earlier releases; this one is noted in the same moment, before it becomes visible.
        `memory` names what `--only-new` remembers of it. `undo` strikes it off again; a fit that was charged stays."""
        self.note = self._noted(mechanism) | {
            "epsilon": guarantee.proved if math.isfinite(guarantee.proved) else None,
            "exact_label": guarantee.exact_label,
            "rows_per_person": guarantee.rows_per_person,
            "roll": None if self.roll is None else new_roll_name(self.roll),
            "memory": memory,
        }
        if self._charged is not None:
            return self._charged
        earlier = self._count(self.note)
        if not self.options.leaves_no_mark:
            undo.callback(self.ledger.strike, **self.note)
        return earlier

    def _noted(self, mechanism: Mechanism) -> dict[str, Any]:
        return {
            "fingerprint": self.fingerprint.hexdigest(),
            "mechanism": mechanism.name,
            "when": today(),
            "cohort": self.options.cohort,
            "run": self.run,
        }

    def _count(self, note: dict[str, Any]) -> dict[str, Any]:
        options, ledger = self.options, self.ledger
        if options.experiment:
            return {"count": None, "total_epsilon_record": None}
        entry = Note(**{name: value for name, value in note.items() if name != "fingerprint"}).to_dict()
        if not options.leaves_no_mark:
            return ledger.record(**note, people=self.roll).to_dict(entry)
        made_up = is_drawn(entry)
        earlier = ledger.earlier(note["fingerprint"], made_up=made_up, cohort=options.cohort, roll=self.roll)
        if options.trial is None:
            ledger.check_budget(earlier, entry)
        return earlier.to_dict(entry)


def of_ledger(ledger: Ledger, table: Table, target: Path | None, schema: Schema, options: Options) -> dict[str, Any]:
    """What a card says of the ledger that counts its release: its mark, and whether there is another ledger.

    A seed repeats everything, the card included, so that nothing of this stands on one that is not for release.
    """
    if options.noise_seed is not None or options.experiment:
        return {}
    mark = {} if options.leaves_no_mark else {"ledger": ledger.mark}
    names = {_spelt(column.name) for column in schema.private}
    cards = islice(_cards_beside(table, target), MOST_CARDS)
    elsewhere = any(_is_of_another(card, ledger.mark, names) for card in cards)
    return {**mark, **({"counted_elsewhere": True} if elsewhere else {})}


def _cards_beside(table: Table, target: Path | None) -> Iterator[Path]:
    """Cards of releases that stand where this one will, beside it, or beside the table."""
    places = [*table.files, *([] if target is None else [target])]
    for folder in dict.fromkeys(path.absolute().parent for path in places):
        with suppress(OSError):
            yield from folder.glob("card.json")
            yield from folder.glob("*/card.json")


def _is_of_another(card: Path, mark: str, names: set[str]) -> bool:
    """Whether this card bears another mark, and its table has a private column of one of these names."""
    try:
        if not card.is_file() or card.stat().st_size > MOST_CARD_BYTES:
            return False
        found = json.loads(card.read_text(encoding="utf-8"))
        theirs = found["earlier_releases"]["ledger"]
        private = {_spelt(str(one["name"])) for one in found["source_schema"]["columns"] if one["role"] == "private"}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return False  # no card, one of an earlier version, or one that is none of ours
    return theirs != mark and not names.isdisjoint(private)


def _spelt(name: str) -> str:
    return one_spelling(name) or name
