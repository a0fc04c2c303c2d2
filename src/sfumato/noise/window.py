"""A window that slides with the truth: values in it are likelier than those outside, by e^epsilon.

Positions run over [-w/2, 1 + w/2]; the window of x in [0, 1] is [x - w/2, x + w/2]. A position falls into the window
with probability `near`, uniformly, else outside it, uniformly: outside lies a length of 1 wherever the window is. The
ratio of the two densities is near / (w (1 - near)) = e^epsilon.

The square wave [Li et al. 2020] and the piecewise mechanism [Wang et al. 2019] are both such windows. They differ in
the width, and in that the latter stretches positions about 1/2 so that their mean is x.

*On a grid* of R = `steps` steps to the unit the window has W = w R cells and starts at the cell s = round(x R), so that
of the R + W cells exactly R lie outside whatever s is. A word below T chooses the window, and the cell is a uniform
integer: `noise.odds` says what that proves, and no floating-point number decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.core.array_types import Codes, Floats
from sfumato.core.errors import UsageError
from sfumato.noise.grid import exact_bernoulli, uniform_integers
from sfumato.noise.law import floats

TILE = 1 << 14
"""Cells that are drawn at a time: all that is needed for them stays in a core's cache."""


def square_wave_width(epsilon: float) -> float:
    """2 b with b = (e exp(e) - exp(e) + 1) / (2 exp(e) (exp(e) - 1 - e)): it maximises what is learned [Li et al.].

    Numerator and denominator start with e^2; their series, sum (n - 1) e^n / n! and sum e^n / n! from n = 2, say so
    without cancellation.
    """
    if epsilon > 30.0:
        return (epsilon - 1.0) * math.exp(-epsilon)
    top = bottom = 0.0
    term = epsilon
    for n in range(2, 150):
        term *= epsilon / n
        top += (n - 1) * term
        bottom += term
    return top / (math.exp(epsilon) * bottom)


def piecewise_width(epsilon: float) -> float:
    """(C - 1) / (C + 1) = exp(-e/2) with C = (exp(e/2) + 1) / (exp(e/2) - 1): the least worst-case variance."""
    return math.exp(-epsilon / 2.0)


def draw_cells(rng: np.random.Generator, start: Codes, threshold: int, window: int, steps: int) -> Codes:
    """A cell for every window that starts at `start`; all three draws are made for all, whatever comes of them."""
    near = exact_bernoulli(rng, threshold, start.shape)
    inside = uniform_integers(rng, window, start.shape)
    outside = uniform_integers(rng, steps, start.shape)
    inside += start
    outside += np.where(outside >= start, window, 0)
    return np.where(near, inside, outside)


def draw_positions(rng: np.random.Generator, x: Floats, near: float, width: float) -> Floats:
    """The same in floating point, from one uniform number a position, for experiments."""
    out = np.empty(x.shape)
    flat, given = out.reshape(-1), np.ascontiguousarray(x).reshape(-1)
    for first in range(0, flat.size, TILE):
        u, some = rng.random(min(TILE, flat.size - first)), given[first : first + TILE]
        far = (u - near) * (1.0 / max(1.0 - near, 1e-300))
        far += np.where(far < some, -0.5 * width, 0.5 * width)
        inside = u * (width / near)
        inside += some
        inside -= 0.5 * width
        flat[first : first + TILE] = np.where(u < near, inside, far)
    return out


@dataclass(frozen=True)
class WindowNoise:
    """The law of a released number given the true one, in raw units; `stretch`: how far positions are spread."""

    near: float
    width: float
    stretch: float = 1.0
    low: float = 0.0
    range: float = 1.0

    def _positions(self, z: ArrayLike, x: ArrayLike) -> tuple[Floats, Floats]:
        z, x = np.broadcast_arrays(floats(z), floats(x))
        u = 0.5 + ((z - self.low) / self.range - 0.5) / self.stretch
        return floats(u), floats(np.clip((x - self.low) / self.range, 0.0, 1.0))

    def cdf(self, z: ArrayLike, x: ArrayLike) -> Floats:
        """P(Z <= z | x)."""
        u, x = self._positions(z, x)
        half, far = 0.5 * self.width, 1.0 - self.near
        inside = np.clip((u - x + half) / self.width, 0.0, 1.0)
        outside = np.clip(u + half, 0.0, x) + np.clip(u - x - half, 0.0, 1.0 - x)
        return floats(self.near * inside + far * outside)

    def pdf(self, z: ArrayLike, x: ArrayLike) -> Floats:
        """The density of z given x."""
        u, x = self._positions(z, x)
        half = 0.5 * self.width
        height = np.where(np.abs(u - x) <= half, self.near / self.width, 1.0 - self.near)
        inside = (u >= -half) & (u <= 1.0 + half)
        return floats(np.where(inside, height, 0.0) / (self.stretch * self.range))

    def span(self, x: ArrayLike, tail: float = 0.0) -> tuple[Floats, Floats]:
        """Least and largest z that x can become, leaving out `tail` of the probability on each side."""
        x = floats(np.clip((floats(x) - self.low) / self.range, 0.0, 1.0))
        return self._raw(self._quantile(x, tail)), self._raw(self._quantile(x, 1.0 - tail))

    def _quantile(self, x: Floats, p: float) -> Floats:
        half, far = 0.5 * self.width, max(1.0 - self.near, 1e-300)
        before = far * x
        below, above = p / far - half, (p - self.near) / far + half
        inside = x - half + (p - before) * self.width / self.near
        return floats(np.where(p <= before, below, np.where(p <= before + self.near, inside, above)))

    def _raw(self, u: Floats) -> Floats:
        return floats(self.low + self.range * (0.5 + self.stretch * (u - 0.5)))

    def stretched(self, factor: float) -> WindowNoise:
        """The same with a window `factor` times as wide, which is missed so much more often."""
        far = min((1.0 - self.near) * factor, 0.5 * (2.0 - self.near))
        return WindowNoise(1.0 - far, self.width * factor, self.stretch, self.low, self.range)

    def check(self, low: float, high: float, where: str = "The values") -> None:
        """Refuse another range than the one that the window slides over."""
        room = 1e-9 * self.range
        if low < self.low - room or high > self.low + self.range + room:
            raise UsageError(f"{where} reach beyond the bounds to which they were clipped. Take the card's own range.")

    def to_dict(self) -> Mapping[str, Any]:
        """Plain figures, to compare two of them."""
        named = {"near": self.near, "width": self.width, "stretch": self.stretch}
        return {"law": "window", **named, "low": self.low, "range": self.range}
