"""A limit that the owner set, and what counts against it.

Perturbed records: the sum of the epsilons that anybody in the release has. Rows that belong to nobody: what the table's
releases come to for a person's presence. Where both were released, both are seen: the sum, with the second for
somebody's values (one record goes, another comes).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.errors import BudgetError, CardError
from sfumato.guarantee.concentrated import Central
from sfumato.guarantee.earlier import Earlier, times
from sfumato.guarantee.rounding import rounded_up, sum_up
from sfumato.wording import counted

ROUNDING = 1e-9
"""Figures are rounded up: a release of exactly what is left fits."""
RAISE = "or raise the budget: sfumato ledger budget --epsilon E"


@dataclass(frozen=True)
class Budget:
    """The largest epsilon, and delta where there is one, that all releases may come to for anybody."""

    epsilon: float
    delta: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError("epsilon")
        if self.delta is not None and not 0 <= self.delta < 1:
            raise ValueError("delta")

    def to_dict(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, **({} if self.delta is None else {"delta": self.delta})}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Budget:
        try:
            delta = found.get("delta")
            return cls(float(found["epsilon"]), None if delta is None else float(delta))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CardError(
                "The ledger's budget is damaged. Set it again: sfumato ledger budget --epsilon E."
            ) from error

    def words(self) -> str:
        return f"epsilon {self.epsilon:g}" + ("" if self.delta is None else f", delta {self.delta:g}")

    def check(self, earlier: Earlier, epsilon: float, central: Central | None, rows_per_person: int | None) -> None:
        """Refuse a release that would exceed it, given what was released before."""
        now, total = _now(epsilon, central, rows_per_person), _total(earlier, epsilon, central, rows_per_person)
        fits = total <= self.epsilon * (1 + ROUNDING)
        if fits and self._delta_fits(earlier, central):
            return
        before = "" if not earlier.count else f" with {counted(earlier.count, 'earlier release')}"
        limit = f"the ledger's budget is {self.words()}. Nothing was released."
        if not math.isfinite(now):
            raise BudgetError(
                f"This release has no bound that is proved, and {limit} Choose a mechanism and a schema that give "
                "one, or remove the budget: sfumato ledger budget --none."
            )
        if not math.isfinite(total):
            raise BudgetError(
                f"People in this release were in an earlier one without a proved bound, so that none holds for all, "
                f"and {limit} Leave them out, or remove the budget: sfumato ledger budget --none."
            )
        if fits:
            raise BudgetError(f"The delta of this release{before} is larger, and {limit} Use a smaller --delta.")
        left = self.epsilon - (total - now)
        advice = f"At most epsilon {left:.3g} is left: release less" if left > 1e-9 else "Nothing is left: wait"
        raise BudgetError(
            f"This release{before} would bring somebody to epsilon {rounded_up(total)}, and {limit} {advice}, leave "
            f"out who was released before, {RAISE}."
        )

    def _delta_fits(self, earlier: Earlier, central: Central | None) -> bool:
        costs = [one for one in (earlier.central_person, central) if one is not None]
        return self.delta is None or all(one.delta <= self.delta for one in costs)


def _now(epsilon: float, central: Central | None, rows: int | None) -> float:
    if central is not None:
        return central.group(rows or 1).epsilon
    return times(epsilon, rows)


def _total(earlier: Earlier, epsilon: float, central: Central | None, rows: int | None) -> float:
    before, local = earlier.central_person, earlier.epsilon_of_a_person(rows)
    if central is None:
        worst = earlier.worst(epsilon, rows)
        local = worst if worst is not None else sum_up([local, times(epsilon, rows)])
        return local if before is None else sum_up([local, before.value.epsilon])
    now = central.group(rows or 1)
    together = now if before is None else before + now
    return together.epsilon if not local else sum_up([local, together.value.epsilon])
