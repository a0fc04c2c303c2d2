"""The headline of a card: what holds for somebody who sees every release of the same rows, then this one alone.

Noise of different releases is independent, so their costs add up: for somebody's values there is one figure. The
owner's ledger knows how many there were; a release that proves nothing leaves no bound for all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sfumato.guarantee.concentrated import Central, Values
from sfumato.guarantee.guarantee import (
    CENTRAL_DP,
    LABEL_ON_TOP,
    LOCAL_DP,
    WEAK_CENTRAL,
    Guarantee,
    becoming_sure,
    infinite,
    presence,
    worst_first,
)
from sfumato.guarantee.posterior import PRACTICALLY_UNPROTECTED, posterior_bound
from sfumato.guarantee.rounding import at_most, rounded_up
from sfumato.wording import counted

COUNTED_ELSEWHERE = (
    " A card beside it says that another ledger counted a release of a table like this one: this ledger is younger "
    "than the table's first release, or not the only one, and what the other one counted is not in these figures."
)


@dataclass(frozen=True)
class AllReleases:
    """This release and the `earlier` ones of the same people. `values` and `person` are what all come to for one record
    and for a person with all their rows: infinite where one proves nothing. Without earlier ones, this release's own.
    """

    alone: Guarantee
    earlier: int
    values: Values
    person: float
    exact_label: bool
    people: Mapping[str, Any] | None = None
    """The worst and the median over people, as the card states them."""
    apart: int = 0
    """Releases that are of other people by the owner's word."""
    elsewhere: bool = False
    """Whether another ledger counted releases that may be of the same table."""

    @classmethod
    def of(cls, alone: Guarantee, stated: Mapping[str, Any]) -> AllReleases:
        """From a guarantee and a card's `earlier_releases`; a total below the release's own figure counts for none."""
        return replace(cls._of(alone, stated), elsewhere=bool(stated.get("counted_elsewhere")))

    @classmethod
    def _of(cls, alone: Guarantee, stated: Mapping[str, Any]) -> AllReleases:
        earlier = int(stated.get("count") or 0)
        apart = int(stated.get("set_apart") or 0)
        own = alone.values
        if not earlier:
            return cls(alone, 0, own, alone.person_values, alone.exact_label, apart=apart)
        local = infinite(stated.get("total_epsilon_record"))
        central = Central.from_dict(stated["central"]) if stated.get("central") else own.central
        if own.central is None:
            local = max(local, own.local)
        elif central is not None:
            central = central.at_least(own.central)
        values, people = Values(local, central), stated.get("people")
        if "total_epsilon_person" in stated:
            person = infinite(stated["total_epsilon_person"])
        else:
            person = _of_a_person(alone.rows_per_person, values, people)
        exact_label = alone.exact_label or bool(stated.get("exact_label"))
        person = max(person, values.epsilon, alone.person_values)
        return cls(alone, earlier, values, person, exact_label, people, apart)

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
        """What all releases of rows that belong to nobody cost, for the presence of a record."""
        return self.values.central

    @property
    def hides_presence(self) -> bool:
        """Whether nothing but rows that belong to nobody was released, and a bound holds: others show who is there."""
        return self.central is not None and self.values.local == 0.0 and self.bounded

    @property
    def bounded(self) -> bool:
        return self.values.bounded

    @property
    def unprotected(self) -> bool:
        """Whether a rare belief can become likelier than not; of presence alone, whether a test may be certain."""
        if self.hides_presence and self.central is not None:
            return self.central.epsilon > WEAK_CENTRAL
        if not self.earlier:
            return self.alone.unprotected
        return self.bounded and posterior_bound(0.001, self.record) > PRACTICALLY_UNPROTECTED

    def posteriors(self) -> list[dict[str, float]]:
        """Beliefs that seeing all of them can lead to; none where there is no bound, or where it holds but for a
        delta: what happens with that probability can make anybody sure."""
        if not self.earlier:
            return self.alone.posteriors()
        if not self.bounded or self.values.delta:
            return []
        return Guarantee(self.record, self.record, self.record).posteriors()

    @property
    def _which(self) -> str:
        return f"this one and {self.earlier:,} earlier {'one' if self.earlier == 1 else 'ones'}"

    def _with_nobodys_rows(self, prior: float) -> str:
        """Records that were perturbed, and rows that belong to nobody: what each shows, then what all come to."""
        assert self.central is not None
        words = f"Releases that may be of the same people, whoever was in them: {self._which}."
        if not self.bounded:
            words += " One of them has no bound that is proved, so that none holds for all."
        else:
            some = not self.hides_presence
            seen = "all releases of nobody's rows" if some else f"{self.seen} releases"
            words += f" {presence(self.central, f'what {seen} show together')}"
            if some:
                words += (
                    f" Records were perturbed as well (epsilon {rounded_up(self.values.local)} in all), which shows "
                    "who is in the table."
                )
            words += f" For somebody's values all releases together come to {self.values.words()}."
            words += self._of_all_rows()
        return f"{words}{self._spread()}{self._set_apart()} This release alone: {self.alone.in_words(prior)}"

    def _of_all_rows(self) -> str:
        if not self.person > self.record or not math.isfinite(self.person):
            return ""
        return f" A person with all their rows: epsilon {rounded_up(self.person)} in all."

    def _set_apart(self) -> str:
        if not self.apart:
            return ""
        return f" By the owner's word {counted(self.apart, 'other release')} of this ledger had nobody of these people."

    def _spread(self) -> str:
        """That people differ in how often they were released."""
        if self.people is None:
            return ""
        releases, epsilon, unproved = (self.people[name] for name in ("releases", "local_epsilon", "unproved_releases"))
        who = "person" if self.people["by"] == "person" else "record"
        kind = "" if self.central is None else ", perturbed"

        def of(which: str) -> str:
            times = counted(int(releases[which]), "release")
            if unproved[which]:
                return f"no bound over {times}, {int(unproved[which])} of them without a proof"
            return f"epsilon {rounded_up(epsilon[which])} over {times}"

        worst, median = of("worst"), of("median")
        if worst == median:
            return f" Every {who}{kind}: {worst}."
        return f" A {who}{kind} at worst: {worst}; the median: {median}."

    def in_words(self, prior: float = 0.001) -> str:
        """One paragraph for a data steward; the worst comes first."""
        return self._of_this_ledger(prior) + (COUNTED_ELSEWHERE if self.elsewhere else "")

    def _of_this_ledger(self, prior: float) -> str:
        if not self.earlier:
            return self.alone.in_words(prior) + self._set_apart()
        words = self._of_several(prior)
        if not self.unprotected:
            return words
        if self.hides_presence and self.central is not None:
            return worst_first(self.central.epsilon, words)
        return worst_first(self.record, words)

    def _of_several(self, prior: float) -> str:
        if self.central is not None:
            return self._with_nobodys_rows(prior)
        if not self.bounded:
            culprit = "an earlier one" if self.alone.kind == LOCAL_DP else "this one"
            return (
                f"No bound holds against somebody who sees {self.seen} releases of these rows ({self._which}): "
                f"{culprit} has no proved bound.{self._spread()} This release alone: {self.alone.in_words(prior)}"
            )
        figure = f"epsilon {rounded_up(self.record)} for the whole record in all: {self._which}"
        words = becoming_sure(prior, self.record, f"{self.seen} releases of that person's record", figure)
        if self.exact_label:
            words += LABEL_ON_TOP
        rows = self.alone.rows_per_person
        if rows is not None and rows > 1:
            words += f" A person with {rows:,} rows: epsilon {rounded_up(self.person)} in all."
        else:
            words += self._of_all_rows()
        words += self._spread() + self._set_apart()
        sure = posterior_bound(prior, self.alone.record)
        return f"{words} This release alone: {at_most(sure)} (epsilon {rounded_up(self.alone.record)})."


def _of_a_person(rows: int | None, values: Values, people: Mapping[str, Any] | None) -> float:
    """On a card that does not state it: perturbed records as they were added up person by person, where they were."""
    if rows is None:
        return math.inf
    local = values.local * rows
    if people is not None and people["by"] == "person":
        local = math.inf if people["unproved_releases"]["worst"] else people["local_epsilon"]["worst"]
    return Values(local, None if values.central is None else values.central.group(rows)).epsilon


def total_without_delta(epsilon: float | None, stated: Mapping[str, Any]) -> float | None:
    """What all releases come to for somebody's values, by the epsilon of this one and a card's `earlier_releases`; None
    where there is no bound, or only one with a delta."""
    alone = infinite(epsilon)
    values = AllReleases.of(Guarantee(alone, alone, alone), stated).values
    return values.epsilon if values.bounded and not values.delta else None


def hidden_presence(card: Mapping[str, Any]) -> Central | None:
    """What a card as plain JSON says of somebody's presence, earlier releases of its table included; None where it
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
