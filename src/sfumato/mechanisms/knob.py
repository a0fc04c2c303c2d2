"""Which parameter of a mechanism says how strong the change is: what a search turns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Knob:
    """A parameter and the range in which a search looks, even on the scale of its logarithm.

    protects: whether a larger value protects more; of an epsilon it is the other way round. whole: only whole numbers.
    beside: what goes with it, whatever its value. proved_with: what goes with it where a formal guarantee is wanted.
    """

    parameter: str
    low: float
    high: float
    protects: bool = False
    whole: bool = False
    beside: Mapping[str, Any] = field(default_factory=dict)
    proved_with: Mapping[str, Any] = field(default_factory=dict)

    def at(self, openness: float) -> float | int:
        """Its value for an openness between 0 (protects most) and 1 (tells most), of three digits at most.

        >>> Knob("epsilon_record", 0.1, 10.0).at(0.5), Knob("k", 2, 200, protects=True, whole=True).at(1.0)
        (1.0, 2)
        """
        share = 1.0 - openness if self.protects else openness
        value = math.exp(math.log(self.low) + share * math.log(self.high / self.low))
        value = min(max(float(f"{value:.3g}"), self.low), self.high)
        return round(value) if self.whole else value

    def openness(self, value: float) -> float:
        """The inverse of `at`, kept between 0 and 1."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return min(1.0, max(0.0, 1.0 - share if self.protects else share))

    def up_to(self, high: float) -> Knob:
        """The same knob that goes no further than `high`."""
        return replace(self, low=min(self.low, high / 2.0), high=min(high, self.high))


RECORD = Knob("epsilon_record", 0.1, 300.0)
PRESENCE = Knob("epsilon", 0.05, 20.0)
