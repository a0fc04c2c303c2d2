"""Look for the strength at which a candidate keeps a wish, by bisection on the logarithm of its knob.

The more open a release, the more adversaries gain and the less accuracy is lost. So under a limit of the risk the most
open setting within it is best, and under a limit of the loss the least open. Under both, most room is where what is
left of the one equals what is left of the other. Risk and loss are the upper ends of their intervals, for a promise
carries its interval. Every setting that was measured is kept, and the best of them wins: noise in the measurements can
mislead a bisection, but not the comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sfumato.advising.trial import Outcome
from sfumato.advising.wish import Candidate, Wish
from sfumato.core.errors import SfumatoError

STEPS = 5
ABOUT = 0.05
"""Differences below this are within what a trial can tell apart."""


@dataclass(frozen=True)
class Setting:
    """A candidate at an openness, and what was measured there."""

    candidate: Candidate
    openness: float
    outcome: Outcome

    @property
    def parameters(self) -> dict[str, Any]:
        return self.candidate.parameters(self.openness)

    def rank(self, wish: Wish) -> tuple[float, ...]:
        """To sort by, largest first. Where two are about as good, one with a bound comes before one without."""
        found = self.outcome
        good, then = wish.better(found.risk_at_most, found.loss_at_most)
        bounded = float(found.epsilon is not None) + 0.5 * float(found.conditional is not None)
        return float(not found.apart), round(good / ABOUT), round(then / ABOUT), bounded, good, then

    def keeps(self, wish: Wish) -> bool:
        return keeps(self.outcome, wish)


def keeps(found: Outcome, wish: Wish) -> bool:
    """Whether it is within the wish with every interval, every risk was tried, and the epsilon asked for is proved."""
    return proves(found, wish) and not found.apart and wish.keeps(found.risk_at_most, found.loss_at_most)


def proves(found: Outcome, wish: Wish) -> bool:
    """Whether it proves what was asked for. A figure that rounding lifted a hair above the wish will do."""
    return wish.epsilon is None or (found.epsilon is not None and found.epsilon <= wish.epsilon * (1 + 1e-6))


def search(
    candidate: Candidate,
    wish: Wish,
    measure: Callable[[dict[str, Any]], Outcome],
    steps: int = STEPS,
) -> list[Setting]:
    """Every setting that was measured, the best first."""
    found: dict[float, Setting] = {}
    refusals: list[SfumatoError] = []

    def at(openness: float) -> Outcome:
        openness = round(openness, 6)
        if openness not in found:
            found[openness] = Setting(candidate, openness, measure(candidate.parameters(openness)))
        return found[openness].outcome

    def last(holds: Callable[[float], bool], *, less_open: bool = False) -> None:
        """Bisect for about the largest number in [0, 1] for which `holds`, which holds below it.

        A strength that the mechanism refuses is too open: the search goes on towards `less_open`.
        """
        low, high = 0.0, 1.0
        for _ in range(steps):
            middle = (low + high) / 2.0
            try:
                kept = holds(middle)
            except SfumatoError as error:
                refusals.append(error)
                kept = less_open
            low, high = (middle, high) if kept else (low, middle)

    risk, loss = wish.max_risk, wish.max_loss
    if wish.epsilon is not None or (risk is None and loss is None):
        at(1.0)  # the whole epsilon: what it is there for
    if risk is not None and loss is not None:  # most room is where both have the same left
        last(lambda u: risk - at(u).risk_at_most >= loss - at(u).loss_at_most)
    elif risk is not None:
        last(lambda u: at(u).risk_at_most <= risk)
    elif loss is not None:
        last(lambda u: at(1.0 - u).loss_at_most <= loss, less_open=True)
    if not found and refusals:
        raise refusals[-1]
    return sorted(found.values(), key=lambda one: one.rank(wish), reverse=True)
