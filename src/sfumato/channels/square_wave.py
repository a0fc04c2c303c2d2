"""The square wave: what tells most of a distribution at a given epsilon [Li et al. 2020]."""

from __future__ import annotations

from dataclasses import dataclass

from sfumato.channels.base import register
from sfumato.channels.windowed import Windowed
from sfumato.noise.window import square_wave_width


@register
@dataclass(frozen=True)
class SquareWave(Windowed):
    """Density near / window within half a window of x, e^-epsilon times that elsewhere on [-window/2, 1 + window/2].

    Its window is the one that maximises the mutual information of uniform values and their releases (an upper bound
    of it, as published). Released numbers are biased towards the middle of the range: readers go by the likelihood.
    """

    tag = "square-wave"

    @classmethod
    def _best_width(cls, epsilon: float) -> float:
        return square_wave_width(epsilon)
