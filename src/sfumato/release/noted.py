"""What the owner's ledger is told of a release, and when; a trial that never leaves the program tells it nothing."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.core.errors import UsageError
from sfumato.guarantee import Card, Guarantee
from sfumato.guarantee.all_releases import Earlier, is_drawn
from sfumato.guarantee.cost import NOTHING_PROVED, Central, Values
from sfumato.guarantee.person_hash import Fingerprint
from sfumato.ledger import Ledger
from sfumato.ledger.ledger import Note
from sfumato.ledger.roll import Roll
from sfumato.mechanisms import Mechanism, make_mechanism
from sfumato.release.asked import OWNER
from sfumato.release.sanitize_options import Options
from sfumato.release.strength import Wanted
from sfumato.release.write_release import today
from sfumato.table import Schema, Table
from sfumato.table.cell_sets import one_spelling

if TYPE_CHECKING:
    from sfumato.release.rotation_search import SearchResult


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
    """What the owner's ledger is told of one release, and when. A dry run tells nothing, and is refused as the release
    would be. A trial is neither; an experiment is not even held against earlier releases."""

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
        roll, kept = self.roll, None  # where the roll of it will be, and what of
        if roll is not None:
            kept = {"name": secrets.token_hex(8), "tags": list(roll.tags), "people": roll.has_people}
        self.note = self._noted(mechanism) | {
            "epsilon": guarantee.proved if math.isfinite(guarantee.proved) else None,
            "exact_label": guarantee.exact_label,
            "rows_per_person": guarantee.rows_per_person,
            "roll": kept,
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
    """What a card says of the ledger that counts its release: its mark, and whether there is another ledger. A seed
    repeats everything, the card included, so that nothing of this stands on one that is not for release."""
    if options.noise_seed is not None or options.experiment:
        return {}
    mark = {} if options.leaves_no_mark else {"ledger": ledger.mark}
    names = {_spelt(column.name) for column in schema.private}
    cards = islice(_cards_beside(table, target), MOST_CARDS)
    elsewhere = any(_is_of_another(card, ledger.mark, names) for card in cards)
    return {**mark, **({"counted_elsewhere": True} if elsewhere else {})}


def _cards_beside(table: Table, target: Path | None) -> Iterator[Path]:
    """Cards of releases that stand where this one will, beside it, or beside the table."""
    places = table.files if target is None else (*table.files, target)
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


# What a release will come to with those that the ledger holds, before it is made: no row is read.


@dataclass(frozen=True)
class Ahead:
    """A release that is wished for: what it comes to for a person with all of their rows, if all ranges are public.

    alone: by itself. together: with every earlier release that counts; None where only its rows can tell which do.
    earlier: how many count, or may count. apart: how many are of other people by the owner's word.
    """

    alone: Values
    together: Values | None
    earlier: int
    apart: int


def bound_ahead(
    max_posterior: float,
    *,
    trust: str = OWNER,
    max_rows_per_person: int | None = None,
    cohort: str | None = None,
    ledger: Path | str | None = None,
) -> Ahead:
    """Say what a release will come to with the earlier ones of this ledger, before it is made.

    It is the sum that the card of the release will state. Rows that are blurred one by one add up with earlier releases
    of the same people only, which their rows tell: where the ledger holds such releases, `together` is None.

    Parameters
    ----------
    max_posterior : float
        What a fact with 1 chance in 10 may be lifted to by this release, in (0.1, 1).
    trust : {"owner", "nobody"}, default "owner"
        Who may hold the rows.
    max_rows_per_person : int, optional
        The most rows that one person has.
    cohort : str, optional
        Your name for these people.
    ledger : path, optional
        The owner's ledger, if not the usual one.

    Returns
    -------
    Ahead
        `alone`, `together`, `earlier`, `apart`. Nothing is noted.

    Raises
    ------
    UsageError, CardError
        Where the wish is none, or the ledger is damaged.

    Examples
    --------
    >>> import sfumato as sf
    >>> round(sf.bound_ahead(0.2, cohort="ward 4").alone.loss, 3)
    0.811
    """
    if cohort is not None and not cohort.strip():
        raise UsageError("--cohort must be a name of at most 100 characters, on one line.")
    wanted = Wanted(max_posterior=max_posterior, trust=trust, max_rows_per_person=max_rows_per_person)
    strength, book, rows = wanted.under(None, None), Ledger(ledger), max_rows_per_person or 1
    mechanism = make_mechanism(strength.mechanism, dict(strength.parameters))
    note: dict[str, Any] = {"mechanism": mechanism.name, "when": today(), "cohort": cohort}
    if mechanism.planned is not None:
        note |= fit_noted(mechanism.planned, max_rows_per_person)
    else:
        record = strength.parameters["epsilon_record"]
        note |= {"epsilon": record, "rows_per_person": rows, "named": max_rows_per_person is not None}
    entry = Note(**note).to_dict()
    made_up, alone = is_drawn(entry), Earlier().person(entry)
    earlier = book.earlier("", made_up=made_up, cohort=cohort)
    compared = [] if made_up else [one for _, one in book.entries() if not is_drawn(one)]
    together = None if compared else earlier.person(entry)
    return Ahead(alone, together, earlier.count + len(compared), earlier.apart)
