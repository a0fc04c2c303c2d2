"""One bit of a guided survey: how likely it is to be 1, given the projected answers [guided-survey, Eq. 8]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.channels.base import EXACT_RESPONSE, Channel, Reached, register
from sfumato.channels.guidance import Link
from sfumato.channels.guidance.bits import check_floor, check_link, floored
from sfumato.core.array_types import Matrix


@register
@dataclass(frozen=True)
class Bit(Channel):
    """P(1 | x) = floor + (1 - 2 floor) p(x), p(x) = min(x^2, 1) as published ("square") or (1 + x) / 2 ("linear").

    x is one entry of t V V', which the `Guided` map makes of the answers t. What a floor proves depends on all bits
    together, so the map says it.
    """

    floor: float
    link: Link
    tag = "bit"

    def __post_init__(self) -> None:
        check_floor(self.floor)
        check_link(self.link)

    @property
    def numbers(self) -> int:
        return 0

    @property
    def path(self) -> str:
        return EXACT_RESPONSE

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        # numpy's doubles are 53 random bits times 2^-53, as a respondent's are
        return np.asarray(rng.random(x.shape) < floored(x, self.floor, self.link)).astype(np.float64)

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        q = floored(x[None, :, 0], self.floor, self.link)
        with np.errstate(divide="ignore"):
            return np.where(z[:, 0, None] > 0.5, np.log(q), np.log1p(-q))

    def reach(self, low: float, high: float, chance: float) -> Reached:  # noqa: ARG002
        return Reached(0.0, 1.0)
