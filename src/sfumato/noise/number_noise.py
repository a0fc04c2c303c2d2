"""What reconstruction and learners need of the noise on a number, however it came about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import ArrayLike

from sfumato.array_types import Floats


class NumberNoise(Protocol):
    """The law of a released number z given the true one x, in raw units."""

    def cdf(self, z: ArrayLike, x: ArrayLike) -> Floats:
        """P(Z <= z | x)."""

    def pdf(self, z: ArrayLike, x: ArrayLike) -> Floats:
        """The density of z given x."""

    def span(self, x: ArrayLike, tail: float = 0.0) -> tuple[Floats, Floats]:
        """Least and largest z that x can become, leaving out `tail` of the probability on each side."""

    def stretched(self, factor: float) -> NumberNoise:
        """The same noise, `factor` times as wide."""

    def check(self, low: float, high: float, where: str = "The values") -> None:
        """Refuse a range of x in which it is not defined."""

    def to_dict(self) -> Mapping[str, Any]:
        """Plain figures, to compare two of them."""
