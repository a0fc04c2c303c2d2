"""What was released of the same people before, and what that comes to with the release that follows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from sfumato.guarantee.concentrated import Central
from sfumato.guarantee.people_totals import PeopleTotals, Tally
from sfumato.guarantee.rounding import sum_up

Entry = Mapping[str, Any]
"""A release as the ledger noted it."""


@dataclass(frozen=True)
class Earlier:
    """Earlier releases of people who are in this one: how many there were, the largest sum of record epsilons that one
    of these people has from them (infinite if one release has none), and whether one gave the label exactly.

    `central`: what those of rows that belong to nobody cost, kept apart; `central_person`: for all rows of a person.
    `tally` says who was in which of the `entries`, where rows could be compared.
    """

    count: int
    epsilon: float
    exact_label: bool = False
    central: Central | None = None
    central_person: Central | None = None
    entries: tuple[Entry, ...] = ()
    tally: Tally | None = None

    @classmethod
    def add_up(cls, entries: Sequence[Entry], tally: Tally | None = None) -> Earlier:
        """The entries of a tally are numbered as it numbers them; those of nobody's rows come after them."""
        # 0.1.0 did not note what became of the label: it counts as released exactly
        exact = any(entry.get("exact_label", True) for entry in entries)
        drawn = [entry for entry in entries if entry.get("central")]
        costs = [Central.from_dict(entry["central"]) for entry in drawn]
        people = [cost.group(entry.get("rows_per_person") or 1) for cost, entry in zip(costs, drawn, strict=True)]
        epsilons = [record_epsilon(entry) for entry in entries if not entry.get("central")]
        return cls(
            len(entries),
            sum_up(epsilons) if tally is None else tally.worst(epsilons),
            exact,
            reduce(Central.__add__, costs) if costs else None,
            reduce(Central.__add__, people) if people else None,
            tuple(entries),
            tally,
        )

    def people(self, epsilon_now: float, rows_per_person: int | None) -> PeopleTotals | None:
        """By person, or by row, with this release; None where rows could not be compared."""
        if self.tally is None:
            return None
        perturbed = [entry for entry in self.entries if not entry.get("central")]
        if self.tally.by == "row":
            return self.tally.totals([record_epsilon(entry) for entry in perturbed], epsilon_now)
        each = [_of_a_person(entry, rows_per_person) for entry in perturbed]
        return self.tally.totals(each, times(epsilon_now, rows_per_person))

    def worst(self, epsilon_now: float, rows_per_person: int | None) -> float | None:
        """The largest epsilon that anybody has with this release, for all of their rows; None where rows could not be
        compared. Rows that an earlier release knew to be several of one person still are, though no column says so.
        """
        if self.tally is None:
            return None
        perturbed = [entry for entry in self.entries if not entry.get("central")]
        rows = rows_per_person
        if self.tally.by == "row":
            known = [1, *(entry.get("rows_per_person", 1) for entry in perturbed if _knew_people(entry))]
            rows = None if None in known else max(known)
        each = [_of_a_person(entry, rows) for entry in perturbed]
        return self.tally.totals(each, times(epsilon_now, rows)).worst

    def epsilon_of_a_person(self, rows_now: int | None) -> float:
        """What perturbed records come to for somebody who was in all of these releases with all of their rows."""
        return sum_up(_of_a_person(entry, rows_now) for entry in self.entries if not entry.get("central"))

    def to_dict(
        self, epsilon_now: float, central_now: Central | None = None, rows_per_person: int | None = 1
    ) -> dict[str, Any]:
        """As it stands on the card of the release that follows them."""
        total = self.epsilon if central_now is not None else sum_up([self.epsilon, epsilon_now])
        finite = total if math.isfinite(total) else None
        central = self.central + central_now if self.central and central_now else self.central or central_now
        people = self.people(epsilon_now, rows_per_person)
        return {
            "count": self.count,
            "total_epsilon_record": finite,
            "exact_label": self.exact_label,
            **({} if central is None else {"central": central.to_dict()}),
            **({} if people is None else {"people": people.to_dict()}),
        }


def record_epsilon(entry: Entry) -> float:
    """Null stands for infinite."""
    epsilon = entry["epsilon_record"]
    return math.inf if epsilon is None else float(epsilon)


def times(epsilon: float, rows: int | None) -> float:
    """For all rows of a person, who has any number of them where it is not known."""
    return math.inf if rows is None else epsilon * rows


def _of_a_person(entry: Entry, rows_now: int | None) -> float:
    """Where a release did not know whose its rows were, each row of a person may have been there once."""
    return times(record_epsilon(entry), entry.get("rows_per_person", 1) if _knew_people(entry) else rows_now)


def _knew_people(entry: Entry) -> bool:
    return bool((entry.get("roll") or {}).get("people"))
