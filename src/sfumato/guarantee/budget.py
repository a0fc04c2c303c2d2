"""A limit that the owner set, and what counts against it.

What all releases come to for anybody's values counts, with all of their rows: epsilons of perturbed records, plus what
was measured of tables, as if one record went and another came. A figure for presence alone would jump with the first
perturbed record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, Self

from sfumato.core.accepted import Positive
from sfumato.core.errors import BudgetError, CardError
from sfumato.core.records import BRIEF, Record
from sfumato.core.wording import counted
from sfumato.guarantee.all_releases import Earlier, Entry
from sfumato.guarantee.rounding import rounded_up

ROUNDING = 1e-9
"""Figures are rounded up: a release of exactly what is left fits."""
DRAWN_COUNT = "Made-up rows count for a person's values: one record goes, another comes."
RAISE = "or raise the budget: sfumato ledger budget --epsilon E"


@dataclass(frozen=True)
class Budget(Record):
    """The largest epsilon, and delta where there is one, that all releases may come to for anybody."""

    epsilon: Annotated[float, Positive(math.inf)]
    delta: Annotated[float | None, BRIEF] = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError("epsilon")
        if self.delta is not None and not 0 <= self.delta < 1:
            raise ValueError("delta")

    @classmethod
    def from_dict(cls, found: Any) -> Self:
        try:
            return super().from_dict(found)
        except ValueError as error:
            raise CardError(
                "The ledger's budget is damaged. Set it again: sfumato ledger budget --epsilon E."
            ) from error

    def words(self) -> str:
        return f"epsilon {self.epsilon:g}" + ("" if self.delta is None else f", delta {self.delta:g}")

    def check(self, earlier: Earlier, entry: Entry) -> None:
        """Refuse a release that would exceed it, given what was released before."""
        now, total = Earlier().person(entry), earlier.person(entry)
        fits = total.epsilon <= self.epsilon * (1 + ROUNDING)
        if fits and (self.delta is None or max(now.delta, total.delta) <= self.delta):
            return
        before = "" if not earlier.count else f" with {counted(earlier.count, 'earlier release')}"
        limit = f"the ledger's budget is {self.words()}. Nothing was released."
        if not now.bounded:
            raise BudgetError(
                f"This release has no bound that is proved, and {limit} Choose a mechanism and a schema that give "
                "one, or remove the budget: sfumato ledger budget --none."
            )
        if not total.bounded:
            raise BudgetError(
                f"People in this release were in an earlier one without a proved bound, so that none holds for all, "
                f"and {limit} Leave them out, or remove the budget: sfumato ledger budget --none."
            )
        if fits:
            raise BudgetError(f"The delta of this release{before} is larger, and {limit} Use a smaller --delta.")
        left = self.epsilon - earlier.person({**entry, "epsilon_record": 0.0, "central": None}).epsilon
        advice = f"Epsilon {left:.3g} is left: release less" if left > 1e-9 else "Nothing is left: wait"
        counts = f" {DRAWN_COUNT}" if total.central is not None else ""
        less = ["leave out who was released before"] if earlier.count else []
        if total.central is not None and earlier.count:
            less.append("set other people apart (--cohort NAME with both, or a ledger of their own)")
        raise BudgetError(
            f"This release{before} would bring a person to epsilon {rounded_up(total.epsilon)}, and {limit}{counts} "
            f"{', '.join([advice, *less, RAISE])}."
        )
