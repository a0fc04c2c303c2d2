"""What the owner asks of the ledger: what was released, what it comes to for whom, how much is left."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from sfumato.core.array_types import Flags
from sfumato.core.errors import UsageError
from sfumato.core.files import check_free, write_whole
from sfumato.core.records import APART, Record
from sfumato.guarantee import CENTRAL_DP, EMPIRICAL, LOCAL_DP
from sfumato.guarantee.all_releases import Earlier, cost_of, is_drawn, record_epsilon
from sfumato.guarantee.cost import Central, Values
from sfumato.guarantee.guarantee import finite
from sfumato.guarantee.person_hash import PeopleTotals, Tally
from sfumato.ledger import Ledger
from sfumato.ledger.ledger import Budget
from sfumato.ledger.roll import KeptRoll, among, rows_beyond_chance, rows_known

FORMAT = "sfumato-ledger-export"
MOST_DAYS = 36_500


@dataclass(frozen=True)
class Noted:
    """A release as the owner sees it: nothing of its rows, and no fingerprint."""

    number: int
    when: str
    mechanism: str
    kind: str
    epsilon: float | None
    delta: float
    people: int | None
    """How many people (or rows) it is about, where their fingerprints are kept."""
    totals: PeopleTotals | None = None
    """What all releases, later ones included, come to for its people."""
    table: Central | None = None
    """Of made-up rows: what all such releases come to for presence, unless they are of other cohorts."""
    values: Values | None = None
    """What all releases of both kinds come to for the values of anybody in this one, with all of their rows."""
    cohort: str | None = None

    def to_dict(self) -> dict[str, Any]:
        told = {name: value for name, value in vars(self).items() if name not in ("totals", "table", "values")}
        values = self.values
        return {
            **told,
            **({} if self.totals is None else {"totals": self.totals.to_dict()}),
            **({} if self.table is None else {"table": self.table.to_dict()}),
            **({} if values is None else {"values": {"epsilon": finite(values.epsilon), "delta": values.delta}}),
        }


@dataclass(frozen=True)
class LedgerShown(Record):
    """The owner's ledger: private."""

    path: Annotated[Path, APART]
    releases: tuple[Noted, ...]
    budget: Budget | None
    keep_days: int | None
    bytes: int


def show_ledger(ledger: Path | str | None = None, *, people: bool = False) -> LedgerShown:
    """What was released, oldest first, and the owner's settings. Private: it is for the owner alone.

    Parameters
    ----------
    ledger : path, optional
        The owner's ledger, if not the usual one.
    people : bool, default False
        Also compare every release with every other: what all of them come to for the people in each.

    Returns
    -------
    LedgerShown
        `releases`, `budget`, `keep_days`, and how many `bytes` the fingerprints of people take.

    Raises
    ------
    CardError
        Where the ledger is damaged.

    Examples
    --------
    >>> import sfumato as sf
    >>> people = {"age": [34, 61, 47, 29, 52] * 20, "ill": ["no", "yes", "yes", "no", "no"] * 20}
    >>> release = sf.sanitize(people, label="ill", mechanism="additive-noise")
    >>> sf.show_ledger().releases[-1].mechanism
    'additive-noise'
    """
    book = Ledger(ledger)
    entries = sorted((entry for _, entry in book.entries()), key=lambda entry: str(entry.get("when", "")))
    rolls = [book.roll_of(entry) for entry in entries]
    noted = tuple(_noted(book, number, entries, rolls, people) for number in range(len(entries)))
    size = sum(roll.bytes() for roll in rolls if roll is not None)
    return LedgerShown(book.path, noted, book.budget, book.keep_days, size)


def ledger_budget(
    epsilon: float | None, *, delta: float | None = None, ledger: Path | str | None = None
) -> Budget | None:
    """Set a limit on what all releases may come to for anybody; `sanitize` refuses what would exceed it.

    Parameters
    ----------
    epsilon : float or None
        The limit, above 0; None removes it.
    delta : float, optional
        The largest delta of a release of made-up rows.
    ledger : path, optional
        The owner's ledger, if not the usual one.

    Returns
    -------
    Budget or None
        What holds from now on.

    Raises
    ------
    UsageError
        Where a figure cannot be a limit.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.ledger_budget(8).epsilon
    8
    >>> sf.ledger_budget(None)
    """
    try:
        budget = None if epsilon is None else Budget(epsilon, delta)
    except ValueError as error:
        wanted = "a positive number" if str(error) == "epsilon" else "at least 0 and below 1"
        given = epsilon if str(error) == "epsilon" else delta
        raise UsageError(f"--{error} must be {wanted}. Got {given} instead.") from None
    Ledger(ledger).set_budget(budget)
    return budget


def ledger_keep(days: int | None, *, ledger: Path | str | None = None) -> None:
    """Say for how many days fingerprints of people are kept; older ones are deleted now and with every release.

    Parameters
    ----------
    days : int or None
        From 1 to 36,500; None keeps them for good.
    ledger : path, optional
        The owner's ledger, if not the usual one.

    Returns
    -------
    None
        Nothing. That a release was made stays noted; only its whole table is known again.

    Raises
    ------
    UsageError
        Where `days` is no number of days.
    """
    if days is not None and not 1 <= days <= MOST_DAYS:
        raise UsageError(f"--days must be at least 1 and at most {MOST_DAYS:,}. Got {days} instead.")
    Ledger(ledger).set_keep_days(days)


def export_ledger(out: Path | str, *, ledger: Path | str | None = None, force: bool = False) -> LedgerShown:
    """Write what was released as JSON, without the key and without anything that was made from rows.

    Parameters
    ----------
    out : path
        File to write; only its owner can read it.
    ledger : path, optional
        The owner's ledger, if not the usual one.
    force : bool, default False
        Replace what is at `out`.

    Returns
    -------
    LedgerShown
        What was written.

    Raises
    ------
    OutputError, CardError
        Where `out` exists, or the ledger is damaged.
    """
    out = Path(out)
    check_free(out, force=force)
    shown = show_ledger(ledger)
    write_whole(out, json.dumps({"format": FORMAT, "version": 1, **shown.to_dict()}, indent=1), private=True)
    return shown


def _noted(
    ledger: Ledger, number: int, entries: list[dict[str, Any]], rolls: list[KeptRoll | None], people: bool
) -> Noted:
    entry, roll = entries[number], rolls[number]
    drawn, when, mechanism = is_drawn(entry), str(entry.get("when", "")), str(entry.get("mechanism", ""))
    cost = cost_of(entry) if drawn else None
    epsilon = record_epsilon(entry) if cost is None else cost.epsilon
    kind = EMPIRICAL if not math.isfinite(epsilon) else CENTRAL_DP if drawn else LOCAL_DP
    known = None if roll is None else len(roll.people()) if roll.has_people else len(roll)
    delta, cohort = 0.0 if cost is None else cost.delta, entry.get("cohort")
    one = Noted(number + 1, when, mechanism, kind, finite(epsilon), delta, known, cohort=cohort)
    beside = [one for one in ledger.earlier("", made_up=True, cohort=cohort).entries if one is not entry]
    if drawn:
        others = Earlier(tuple(beside))
    elif people and roll is not None:
        found, tally = _tallied(number, entries, rolls)
        others = Earlier((*found, *filter(is_drawn, beside)), tally)
    else:
        return one
    table = others.record(entry).central if drawn else None
    return replace(one, totals=others.people(entry), table=table, values=others.person(entry))


def _tallied(
    number: int, entries: list[dict[str, Any]], rolls: list[KeptRoll | None]
) -> tuple[list[dict[str, Any]], Tally]:
    """Which other releases whose fingerprints are kept have people of one release, and which of them."""
    own = rolls[number]
    assert own is not None
    found: list[dict[str, Any]] = []
    tally = Tally(len(own.people()) if own.has_people else len(own), by="person" if own.has_people else "row")
    for other, roll in enumerate(rolls):
        if roll is None or other == number:
            continue
        seen = _seen(own, roll)
        if seen is not None and tally.add(len(found), np.asarray(seen)):
            found.append(entries[other])
    return found, tally


def _seen(own: KeptRoll, other: KeptRoll) -> Flags | None:
    """Who of one release is in another: by name, or by their rows where no one is found by name. A roll does not keep
    which row is whose: where people are named and some row came again, anybody may be the one whose it is."""
    if not own.has_people:
        return rows_known(own, other)
    named = among(own.people(), other.people()) if other.has_people else np.zeros(len(own.people()), dtype=np.bool_)
    if named.any():
        return named
    everybody = np.ones(len(own), dtype=np.bool_)
    seen = rows_beyond_chance(own, other, everybody) if other.has_people else rows_known(own, other)
    return None if seen is None else named | bool(np.any(seen))
