"""The headline of a card: what holds against an attacker who sees every release of the same rows, then this one.

Noise of different releases is independent, so their costs add up: for a person's values there is one figure. The
owner's ledger knows how many there were; a release that proves nothing leaves no bound for all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

from sfumato.core.wording import counted, joined, said
from sfumato.guarantee.cost import (
    BELIEFS,
    ONE_OF_THEM,
    PRIOR,
    Central,
    Values,
    figures,
    own_rows,
    posterior_bound,
    practically_unprotected,
    presence,
    promise,
    rho_for,
)
from sfumato.guarantee.guarantee import (
    CENTRAL_DP,
    EMPIRICAL,
    LABEL_ON_TOP,
    UNBOUNDED_ROWS,
    WEAK_CENTRAL,
    Guarantee,
    finite,
    infinite,
    worst_first,
)
from sfumato.guarantee.person_hash import PeopleTotals, Tally
from sfumato.guarantee.rounding import rounded_up, sum_up

Entry = Mapping[str, Any]  # a release as the ledger noted it


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
        costs = [cost_of(entry) for entry in every if is_drawn(entry)]
        return Values(local, reduce(Central.__add__, costs) if costs else None)

    def person(self, now: Entry) -> Values:
        """The same for a person with all of their rows.

        Rows that one release knew to be several of one person still are where no column says so.
        """
        rows = _most_rows([*self.entries, now])
        each = [_earlier_of_a_person(entry, rows) for entry in self._perturbed]
        own = 0.0 if is_drawn(now) else _earlier_of_a_person(now, rows)
        local = sum_up([*each, own]) if self.tally is None else self.tally.totals(each, own).worst
        drawn = [entry for entry in [*self.entries, now] if is_drawn(entry)]
        if any(_rows_in(entry, rows) is None for entry in drawn):
            return Values(math.inf)
        costs = [cost_of(entry).group(_rows_in(entry, rows) or 1) for entry in drawn]
        return Values(local, reduce(Central.__add__, costs) if costs else None)

    def people(self, now: Entry) -> PeopleTotals | None:
        """Perturbed records by person, or by row, with this release; None where rows could not be compared."""
        if self.tally is None:
            return None
        if self.tally.by == "row":
            return self.tally.totals([record_epsilon(entry) for entry in self._perturbed], record_epsilon(now))
        rows = _most_rows([*self.entries, now])
        each = [_earlier_of_a_person(entry, rows) for entry in self._perturbed]
        return self.tally.totals(each, _earlier_of_a_person(now, rows))

    def to_dict(self, now: Entry) -> dict[str, Any]:
        """As it stands on the card of the release that follows them."""
        record, person, people = self.record(now), self.person(now), self.people(now)
        rows = _most_rows([*self.entries, now])
        return {
            "count": self.count,
            "total_epsilon_record": finite(record.local),
            "exact_label": self.exact_label,
            **({"total_epsilon_person": finite(person.epsilon)} if self.count else {}),
            **({"person": {"rows": rows, **person.to_dict()}} if self.count and rows != 1 and person.bounded else {}),
            **({} if record.central is None else {"central": record.central.to_dict()}),
            **({} if people is None else {"people": people.to_dict()}),
            **({"set_apart": self.apart} if self.apart else {}),
        }


def is_drawn(entry: Entry) -> bool:
    """Whether its rows are made up."""
    return bool(entry.get("central"))


def cost_of(entry: Entry) -> Central:
    """What a release of made-up rows cost, for the presence of one record."""
    return Central.from_dict(entry["central"])


def record_epsilon(entry: Entry) -> float:
    return infinite(entry["epsilon_record"])


def _earlier_of_a_person(entry: Entry, most: int | None) -> float:
    """Of perturbed records, for a person who was in it with all of their rows."""
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


UNSTATED = {
    **dict.fromkeys(["epsilon_component", "epsilon_column", "epsilon_record", "conditional_epsilon"]),
    **dict.fromkeys(["label_epsilon", "rows_per_person"]),
    **{"exact": True, "rows_per_person_learned": False, "assumptions": (), "in_the_way": (), "sentence": ""},
}
COUNTED_ELSEWHERE = (
    " A card beside it says that another ledger counted a release of a table like this one: this ledger is younger "
    "than the table's first release, or not the only one, and what the other one counted is not in these figures."
)


@dataclass(frozen=True)
class AllReleases:
    """This release and the `earlier` ones of the same people. `values` and `person` are what all come to for one record
    and for a person with all their rows: infinite where one proves nothing. Without earlier ones, this release's own.
    `rows` is how many rows a person may have in any of them; None where that is not stated.
    """

    alone: Guarantee
    earlier: int
    values: Values
    person: Values
    rows: int | None
    exact_label: bool
    people: Mapping[str, Any] | None = None
    """The worst and the median over people, as the card states them."""
    apart: int = 0
    """Releases that are of other people by the owner's word."""
    elsewhere: bool = False
    """Whether another ledger counted releases that may be of the same table."""

    @classmethod
    def from_dict(cls, guarantee: Mapping[str, Any], stated: Mapping[str, Any]) -> AllReleases:
        """From plain JSON, of any tool: a figure that is not stated has no bound, and is never zero."""
        return cls.of(Guarantee.from_dict({**UNSTATED, **guarantee}), stated)

    @classmethod
    def of(cls, alone: Guarantee, stated: Mapping[str, Any]) -> AllReleases:
        """From a guarantee and a card's `earlier_releases`; a total below the release's own figure counts for none."""
        earlier, own = int(stated.get("count") or 0), alone.values
        apart, elsewhere = int(stated.get("set_apart") or 0), bool(stated.get("counted_elsewhere"))
        if not earlier:
            if own.central is not None and own.bounded and stated.get("central"):
                # The ledger charges what was planned; what was then measured may have cost less.
                alone = alone.at_least(Central.from_dict(stated["central"]))
            rows, label = alone.rows_per_person, alone.exact_label
            return cls(alone, 0, alone.values, alone.person_values, rows, label, None, apart, elsewhere)
        local = infinite(stated.get("total_epsilon_record"))
        central = Central.from_dict(stated["central"]) if stated.get("central") else own.central
        if own.central is None:
            local = max(local, own.local)
        elif central is not None:
            central = central.at_least(own.central)
        values, people = Values(local, central), stated.get("people")
        exact_label = alone.exact_label or bool(stated.get("exact_label"))
        person, rows = _of_a_person(alone.rows_per_person, values, stated)
        person = max(person, values, alone.person_values, key=lambda one: one.epsilon)
        return cls(alone, earlier, values, person, rows, exact_label, people, apart, elsewhere)

    @property
    def count(self) -> int:
        return self.earlier + 1

    @property
    def seen(self) -> str:
        return "both" if self.count == 2 else f"all {self.count:,}"

    @property
    def record(self) -> float:
        """Epsilon for the values of one record, at the `delta` of what was measured of tables."""
        return self.values.epsilon

    @property
    def central(self) -> Central | None:
        """What all releases of made-up rows cost, for the presence of a record."""
        return self.values.central

    @property
    def hides_presence(self) -> bool:
        """Whether only made-up rows were released, and a bound holds: blurred rows show who is there."""
        return self.central is not None and self.values.local == 0.0 and self.bounded

    @property
    def bounded(self) -> bool:
        return self.values.bounded

    @property
    def unprotected(self) -> bool:
        """Whether a rare belief can become likelier than not; of presence alone, whether a test may be certain."""
        if self.hides_presence and self.promised.central is not None:
            return self.promised.central.epsilon > WEAK_CENTRAL
        if not self.earlier:
            return self.alone.unprotected
        return self.bounded and practically_unprotected(self.promised.epsilon)

    @property
    def promised(self) -> Values:
        """What the first sentence bounds: all rows of a person, or one where nothing bounds how many there are."""
        return self.person if self.person.bounded else self.values

    @property
    def own(self) -> str:
        """Whose rows the first sentence speaks of."""
        return own_rows(self.rows) if self.person.bounded else ONE_OF_THEM

    def beliefs(self) -> list[tuple[float, float, float]]:
        """Beliefs that people have, and the most and the least that seeing all releases can make of them, but for the
        delta of `values`; none where there is no bound. Figures that hold only conditionally are those of this one."""
        rows = self.alone.rows_per_person or 1
        values = self.promised if self.bounded or self.earlier else self.alone.stated.group(rows)
        if not values.bounded:
            return []
        return [
            (prior, posterior_bound(prior, values.loss), posterior_bound(prior, values.loss, downward=True))
            for prior in BELIEFS
        ]

    def bottom_line(self) -> str:
        """What is proved of all releases together, in one belief that people have met; or that nothing is."""
        if self.alone.kind == EMPIRICAL:
            return said("Measured, not proved: {why}.", why=said(self.alone.why_not("the table")))
        if not self.bounded:
            return "Nothing is proved of all releases together: an earlier one has no bound."
        counted_in = "all releases of this ledger counted, not another's" if self.elsewhere else "all releases counted"
        told = joined([figures(self.promised, self.hides_presence, self.rows), counted_in], ", ")
        words = promise(self.promised, self.own, told, [PRIOR])
        return self._worst_first(words if self.person.bounded else joined([words, UNBOUNDED_ROWS], " "))

    def _worst_first(self, words: str) -> str:
        """That a bound protects hardly anybody is said before the bound."""
        if not self.unprotected:
            return words
        presence_alone = self.promised.central if self.hides_presence else None
        return worst_first((presence_alone or self.promised).epsilon, words)

    def _spread(self) -> str:
        """That people differ in how often they were released."""
        if self.people is None:
            return ""
        releases, epsilon, unproved = (self.people[name] for name in ("releases", "local_epsilon", "unproved_releases"))
        who = "person" if self.people["by"] == "person" else "record"
        kind = "" if self.central is None else ", blurred"

        def of(which: str) -> str:
            times = counted(int(releases[which]), "release")
            if unproved[which]:
                return f"no bound over {times}, {int(unproved[which])} of them without a proof"
            return f"epsilon {rounded_up(epsilon[which])} over {times}"

        worst, median = of("worst"), of("median")
        if worst == median:
            return f" Every {who}{kind}: {worst}."
        return f" A {who}{kind} at worst: {worst}; the median: {median}."

    def in_words(self) -> str:
        """One paragraph for a data steward; the worst comes first."""
        others = counted(self.apart, "other release")
        apart = f" By the owner's word {others} of this ledger had nobody of these people." if self.apart else ""
        words = self._of_several(apart) if self.earlier else self.alone.in_words() + apart
        return words + (COUNTED_ELSEWHERE if self.elsewhere else "")

    def _of_several(self, apart: str) -> str:
        which, alone = f"This is release {self.count:,}.", self.alone
        if not self.bounded:
            culprit = "this one" if alone.kind == EMPIRICAL else "an earlier one"
            return (
                f"Nothing is proved of {self.seen} releases together: {culprit} has no proved bound. {which}"
                f"{self._spread()}{apart} This release alone: {alone.in_words()}"
            )
        promised = self.promised
        words = promise(promised, self.own)
        if self.exact_label:
            words += LABEL_ON_TOP
        if promised.central is not None and self.hides_presence:
            words += f" {presence(promised.central, 'sees them all, ')}"
        words += f" {which} For anybody's values, {self.seen} together come to {promised.words()}."
        if not self.person.bounded:
            words += f" {UNBOUNDED_ROWS}"
        elif self.person.epsilon > self.record:
            words += f" One row alone: {self.values.words()}."
        if self.central is not None and not self.hides_presence:
            words += f" Some blur real rows (epsilon {rounded_up(self.values.local)} in all) and show who is there."
        words += self._spread() + apart
        planned = "" if alone.central is None else "; the ledger counts what was planned for it"
        own = alone.person_values if self.person.bounded else alone.values
        return self._worst_first(f"{words} This release alone: {figures(own, alone.central is not None)}{planned}.")


def _of_a_person(rows: int | None, values: Values, stated: Mapping[str, Any]) -> tuple[Values, int | None]:
    """What a person with all their rows comes to by a card's `earlier_releases`, and how many rows that are."""
    if person := stated.get("person"):
        return Values.from_dict(person), person.get("rows")
    if "total_epsilon_person" in stated:
        epsilon = infinite(stated["total_epsilon_person"])
        return (values, rows) if epsilon <= values.epsilon else (_from_epsilon(epsilon, values), None)
    if rows is None:
        return Values(math.inf), None
    people, whole = stated.get("people"), values.group(rows)
    if people is not None and people["by"] == "person":
        local = math.inf if people["unproved_releases"]["worst"] else people["local_epsilon"]["worst"]
        whole = replace(whole, local=local)
    return whole, rows


def _from_epsilon(epsilon: float, values: Values) -> Values:
    """On a card of 0.2, which states nothing but the epsilon of a person: whatever one blurred record does not explain
    is taken for made-up rows, since at the same epsilon these cost beliefs more."""
    if values.central is None or not math.isfinite(epsilon):
        return Values(epsilon)
    rest = epsilon - values.local
    if not values.delta:
        return Values(values.local, Central(pure=rest / 2))
    rho = rho_for(rest, values.delta) * (1 + 1e-9)
    return Values(values.local, Central(rho=rho, delta=values.delta, replaced=rho))


def total_without_delta(epsilon: float | None, stated: Mapping[str, Any]) -> float | None:
    """What all releases come to for a person's values, by the epsilon of this one and a card's `earlier_releases`; None
    where there is no bound, or only one with a delta."""
    alone = infinite(epsilon)
    values = AllReleases.of(Guarantee(alone, alone, alone), stated).values
    return values.epsilon if values.bounded and not values.delta else None


def hidden_presence(card: Mapping[str, Any]) -> Central | None:
    """What a card as plain JSON says of a person's presence, earlier releases of its table included; None where it
    claims nothing, or where earlier releases perturbed records, which shows who is in the table."""
    stated, earlier = card.get("guarantee") or {}, card.get("earlier_releases") or {}
    if stated.get("kind") != CENTRAL_DP or not stated.get("central"):
        return None
    alone = Central.from_dict(stated["central"])
    if not earlier.get("count"):
        return alone
    if earlier.get("total_epsilon_record") != 0:
        return None
    together = Central.from_dict(earlier["central"]) if earlier.get("central") else alone
    together = together.at_least(alone)
    return together if math.isfinite(together.epsilon) else None
