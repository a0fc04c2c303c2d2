"""The scale that errors are drawn on: from zero to a round figure above the largest, and round steps between."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)
MOST_STEPS = 5


@dataclass(frozen=True)
class Scale:
    """Zero is always there: a difference looks as large as it is."""

    top: float
    step: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Scale:
        """
        >>> Scale.of([0.03, 0.17]).ticks
        [0.0, 0.05, 0.1, 0.15, 0.2]
        """
        largest = min(1.0, max((value for value in values if value is not None), default=1.0))
        step = next((step for step in STEPS if largest <= MOST_STEPS * step), STEPS[-1])
        count = max(1, -int(-(largest - 1e-9) // step))
        return cls(round(count * step, 10), step)

    @property
    def ticks(self) -> list[float]:
        return [round(number * self.step, 10) for number in range(round(self.top / self.step) + 1)]

    def share(self, value: float) -> float:
        """Position between 0 and 1."""
        return min(1.0, max(0.0, value / self.top))


def percent(value: float | None) -> str:
    """An error as people say it; None is a dash, never a zero.

    >>> percent(0.0834), percent(0.5), percent(0.0), percent(None)
    ('8.3%', '50%', '0%', '–')
    """
    if value is None:
        return "–"
    text = f"{100 * value:.1f}"
    return f"{text.removesuffix('.0')}%"
