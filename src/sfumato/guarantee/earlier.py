"""What was released of the same people before, and what that comes to with the release that follows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

from sfumato.guarantee.concentrated import Central, Values
from sfumato.guarantee.people_totals import PeopleTotals, Tally
from sfumato.guarantee.rounding import sum_up

Entry = Mapping[str, Any]
"""A release as the ledger noted it."""


@dataclass(frozen=True)
class Earlier:
    """Earlier releases of people who are in this one; `tally` says who was in which, where rows could be compared.

    It numbers the perturbed ones in their order. `apart` is how many others were left out because they are of other
    people by the owner's word.
    """

    entries: tuple[Entry, ...] = ()
    tally: Tally | None = None
    apart: int = 0

    @property
    def count(self) -> int:
        return len(self.entries)

    @property
    def exact_label(self) -> bool:
        """Whether one gave the label as it is; 0.1.0 did not note that, and counts as if it did."""
        return any(entry.get("exact_label", True) for entry in self.entries)

    @cached_property
    def _perturbed(self) -> list[Entry]:
        return [entry for entry in self.entries if not is_drawn(entry)]

    @property
    def epsilon(self) -> float:
        """The largest sum of record epsilons that one of these people has; infinite where a release has none."""
        epsilons = [record_epsilon(entry) for entry in self._perturbed]
        return sum_up(epsilons) if self.tally is None else self.tally.worst(epsilons)

    def record(self, now: Entry) -> Values:
        """What they come to for one record, with the release that follows."""
        every = [*self.entries, now]
        local = self.epsilon if is_drawn(now) else sum_up([self.epsilon, record_epsilon(now)])
        return Values(local, _added(cost_of(entry) for entry in every if is_drawn(entry)))

    def person(self, now: Entry) -> Values:
        """The same for a person with all of their rows.

        Rows that one release knew to be several of one person still are where no column says so.
        """
        rows = _most_rows([*self.entries, now])
        each, own = self._of_persons(rows), 0.0 if is_drawn(now) else _of_a_person(now, rows)
        local = sum_up([*each, own]) if self.tally is None else self.tally.totals(each, own).worst
        drawn = [entry for entry in [*self.entries, now] if is_drawn(entry)]
        if any(_rows_in(entry, rows) is None for entry in drawn):
            return Values(math.inf)
        return Values(local, _added(cost_of(entry).group(_rows_in(entry, rows) or 1) for entry in drawn))

    def people(self, now: Entry) -> PeopleTotals | None:
        """Perturbed records by person, or by row, with this release; None where rows could not be compared."""
        if self.tally is None:
            return None
        if self.tally.by == "row":
            return self.tally.totals([record_epsilon(entry) for entry in self._perturbed], record_epsilon(now))
        rows = _most_rows([*self.entries, now])
        return self.tally.totals(self._of_persons(rows), _of_a_person(now, rows))

    def _of_persons(self, rows: int | None) -> list[float]:
        return [_of_a_person(entry, rows) for entry in self._perturbed]

    def to_dict(self, now: Entry) -> dict[str, Any]:
        """As it stands on the card of the release that follows them."""
        record, people = self.record(now), self.people(now)
        return {
            "count": self.count,
            "total_epsilon_record": _finite(record.local),
            "exact_label": self.exact_label,
            **({"total_epsilon_person": _finite(self.person(now).epsilon)} if self.count else {}),
            **({} if record.central is None else {"central": record.central.to_dict()}),
            **({} if people is None else {"people": people.to_dict()}),
            **({"set_apart": self.apart} if self.apart else {}),
        }


def is_drawn(entry: Entry) -> bool:
    """Whether its rows belong to nobody."""
    return bool(entry.get("central"))


def cost_of(entry: Entry) -> Central:
    """What a release of rows that belong to nobody cost, for the presence of one record."""
    return Central.from_dict(entry["central"])


def record_epsilon(entry: Entry) -> float:
    """Null stands for infinite."""
    epsilon = entry["epsilon_record"]
    return math.inf if epsilon is None else float(epsilon)


def _added(costs: Iterable[Central]) -> Central | None:
    found = list(costs)
    return reduce(Central.__add__, found) if found else None


def _finite(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None


def _of_a_person(entry: Entry, most: int | None) -> float:
    """Of perturbed records, for somebody who was in it with all of their rows."""
    rows = _rows_in(entry, most)
    return math.inf if rows is None else record_epsilon(entry) * rows


def _rows_in(entry: Entry, most: int | None) -> int | None:
    """Where a release did not know whose its rows were, each row of a person may have been there once."""
    rows: int | None = entry.get("rows_per_person", 1) if _knew_people(entry) else most
    return rows


def _most_rows(entries: Sequence[Entry]) -> int | None:
    """The most rows of one person that any release knew of; None where one could not say."""
    known = [1, *(entry.get("rows_per_person", 1) for entry in entries if _knew_people(entry))]
    return None if None in known else max(known)


def _knew_people(entry: Entry) -> bool:
    """Whether a column said whose each row is; without one there is never more than one row to a person."""
    named = entry.get("named") or (entry.get("roll") or {}).get("people")
    return bool(named) or entry.get("rows_per_person", 1) != 1
