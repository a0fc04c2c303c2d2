"""The piecewise mechanism: a released number is right on average [Wang et al. 2019]."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.channels.base import register
from sfumato.channels.windowed import Windowed
from sfumato.noise.window import piecewise_width


@register
@dataclass(frozen=True)
class Piecewise(Windowed):
    """As the square wave, with positions spread about the middle so that E(z | x) = x.

    With t = 2x - 1 this is the published mechanism on [-C, C], C = (e^(eps/2) + 1) / (e^(eps/2) - 1): its window runs
    from l(t) = (C + 1) t / 2 - (C - 1) / 2 to l(t) + C - 1, and positions are C + 1 to the unit.
    """

    tag = "piecewise"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.slope > 0:  # answers that are seldom near cannot be made right on average
            raise ValueError("near")

    @classmethod
    def _best_width(cls, epsilon: float) -> float:
        return piecewise_width(epsilon)

    @property
    def stretch(self) -> float:
        return 1.0 / self.slope

    def mean_line(self) -> tuple[float, float]:
        return 1.0, 0.0
