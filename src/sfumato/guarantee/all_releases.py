"""The headline of a card: what holds for somebody who sees every release of the same rows, then this one alone.

Noise of different releases is independent, so their epsilons add up. The owner's ledger knows how many there were; a
release that proves nothing leaves no bound for all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.guarantee.concentrated import Central
from sfumato.guarantee.guarantee import (
    CENTRAL_DP,
    LABEL_ON_TOP,
    LOCAL_DP,
    UNPROTECTED,
    Guarantee,
    becoming_sure,
    infinite,
    presence,
)
from sfumato.guarantee.posterior import PRACTICALLY_UNPROTECTED, posterior_bound
from sfumato.guarantee.rounding import at_most, rounded_up
from sfumato.wording import counted


@dataclass(frozen=True)
class AllReleases:
    """This release and the `earlier` ones of the same rows: `record` is the sum of their epsilons, infinite where one
    of them has none that is proved. Without earlier ones it is this release's own."""

    alone: Guarantee
    earlier: int
    record: float
    exact_label: bool
    central: Central | None = None
    """What all releases of rows that belong to nobody cost, this one included."""
    people: Mapping[str, Any] | None = None
    """The worst and the median over people, as the card states them."""

    @classmethod
    def of(cls, alone: Guarantee, stated: Mapping[str, Any]) -> AllReleases:
        """From a guarantee and a card's `earlier_releases`; a total below the release's own figure counts for none."""
        earlier = int(stated.get("count") or 0)
        if not earlier:
            return cls(alone, 0, alone.proved, alone.exact_label, alone.central)
        total = infinite(stated.get("total_epsilon_record"))
        central = Central.from_dict(stated["central"]) if stated.get("central") else alone.central
        if alone.central is None:
            total = max(total, alone.proved)
        elif central is not None:
            central = central.at_least(alone.central)
        exact_label = alone.exact_label or bool(stated.get("exact_label"))
        return cls(alone, earlier, total, exact_label, central, stated.get("people"))

    @property
    def count(self) -> int:
        return self.earlier + 1

    @property
    def seen(self) -> str:
        return "both" if self.count == 2 else f"all {self.count:,}"

    @property
    def bounded(self) -> bool:
        return math.isfinite(self.record)

    @property
    def person(self) -> float:
        """Added up person by person where that could be done; else the cap is that of this release."""
        rows = self.alone.rows_per_person
        if self.people is not None and self.people["by"] == "person":
            unproved = self.people["unproved_releases"]["worst"]
            return math.inf if unproved else max(self.people["local_epsilon"]["worst"], self.alone.person)
        return math.inf if rows is None else self.record * rows

    @property
    def unprotected(self) -> bool:
        """Whether a rare belief can become likelier than not."""
        if not self.earlier:
            return self.alone.unprotected
        return self.bounded and posterior_bound(0.001, self.record) > PRACTICALLY_UNPROTECTED

    def posteriors(self) -> list[dict[str, float]]:
        """Beliefs that seeing all of them can lead to; none where there is no bound."""
        if not self.earlier:
            return self.alone.posteriors()
        return Guarantee(self.record, self.record, self.record).posteriors() if self.bounded else []

    def _with_nobodys_rows(self, prior: float) -> str:
        """Records that were perturbed, and rows that belong to nobody: kept apart, then what both come to."""
        assert self.central is not None
        which = f"this one and {self.earlier:,} earlier {'one' if self.earlier == 1 else 'ones'}"
        some = self.record > 0  # perturbed records show who is in the table
        seen = "all releases of nobody's rows" if some else f"{self.seen} releases"
        words = presence(self.central, f"what {seen} show together")
        words = f"Releases of tables with the same columns, whoever was in them: {which}. {words}"
        if not self.bounded:
            words += (
                " Beside them a release of perturbed records has no bound that is proved, so that none holds for all."
            )
        elif self.record > 0:
            value = self.central.value
            total = rounded_up(self.record + value.epsilon) + (f", delta {value.delta:g}" if value.delta else "")
            words += (
                f" Records were perturbed as well (epsilon {rounded_up(self.record)} in all), which shows who is in "
                f"the table. For somebody's values all releases together come to epsilon {total}."
            )
        return f"{words}{self._spread()} This release alone: {self.alone.in_words(prior)}"

    def _spread(self) -> str:
        """That people differ in how often they were released."""
        if self.people is None:
            return ""
        releases, epsilon, unproved = (self.people[name] for name in ("releases", "local_epsilon", "unproved_releases"))
        who = "person" if self.people["by"] == "person" else "record"

        def of(which: str) -> str:
            times = counted(int(releases[which]), "release")
            if unproved[which]:
                return f"no bound over {times}, {int(unproved[which])} of them without a proof"
            return f"epsilon {rounded_up(epsilon[which])} over {times}"

        worst, median = of("worst"), of("median")
        return f" Every {who}: {worst}." if worst == median else f" A {who} at worst: {worst}; the median: {median}."

    def in_words(self, prior: float = 0.001) -> str:
        """One paragraph for a data steward."""
        if not self.earlier:
            return self.alone.in_words(prior)
        if self.central is not None:
            return self._with_nobodys_rows(prior)
        which = f"this one and {self.earlier:,} earlier {'one' if self.earlier == 1 else 'ones'}"
        if not self.bounded:
            culprit = "an earlier one" if self.alone.kind == LOCAL_DP else "this one"
            return (
                f"No bound holds against somebody who sees {self.seen} releases of these rows ({which}): {culprit} "
                f"has no proved bound.{self._spread()} This release alone: {self.alone.in_words(prior)}"
            )
        figure = f"epsilon {rounded_up(self.record)} for the whole record in all: {which}"
        words = becoming_sure(prior, self.record, f"{self.seen} releases of that person's record", figure)
        if self.exact_label:
            words += LABEL_ON_TOP
        if self.unprotected:
            words += UNPROTECTED
        rows = self.alone.rows_per_person
        if rows is not None and rows > 1:
            words += f" A person with {rows:,} rows: epsilon {rounded_up(self.person)} in all."
        words += self._spread()
        sure = posterior_bound(prior, self.alone.record)
        return f"{words} This release alone: {at_most(sure)} (epsilon {rounded_up(self.alone.record)})."


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
    return together.at_least(alone)
