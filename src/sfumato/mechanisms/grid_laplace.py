"""Laplace noise whose guarantee survives finite arithmetic.

Naive double-precision Laplace noise leaks: which doubles can occur depends on the private value (Mironov 2012; Haney
et al. 2022). Here values are rounded to a public grid of step ``scale / 2^k`` and noise is an exact discrete Laplace
variable in steps, so that every integer can occur whatever the value was.

Rounding is accounted for: values are clipped to the grid points *inside* their interval, so one component has
epsilon ``(n_high - n_low) / 2^k <= width / scale`` exactly; a difference of two records that is measured before
rounding can grow by one step in every component, ``2^-k`` each (`rounding_epsilon`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.noise import discrete_laplace

Matrix = NDArray[np.float64]

FINEST = 40
"""log2 of the number of steps in one scale; finer would not fit doubles beside a wide interval."""


@dataclass(frozen=True)
class LaplaceNoise:
    """Laplace noise of `scale` on columns clipped to [low, high], per column; exact on a grid, or in floating point."""

    low: Matrix
    high: Matrix
    scale: Matrix
    exact: bool

    @property
    def bits(self) -> int:
        """k: chosen so that an interval has fewer than 2^52 steps, hence integers are exact in doubles."""
        widest = max(
            float(np.max((self.high - self.low) / self.scale)), float(np.max(np.abs(self.low) / self.scale)), 1
        )
        return max(1, min(FINEST, 51 - math.ceil(math.log2(widest))))

    @property
    def grid(self) -> Matrix:
        """Step of every column."""
        return self.scale / 2.0**self.bits

    def component_epsilon(self) -> Matrix:
        """Largest log-likelihood ratio of each column."""
        if not self.exact:
            return (self.high - self.low) / self.scale
        low, high = self._steps()
        return (high - low) / 2.0**self.bits

    def rounding_epsilon(self) -> float:
        """What rounding can add to an epsilon that was computed before rounding."""
        return len(self.scale) / 2.0**self.bits if self.exact else 0.0

    def _steps(self) -> tuple[Matrix, Matrix]:
        low, high = np.ceil(self.low / self.grid), np.floor(self.high / self.grid)
        return low, np.maximum(low, high)

    def add(self, Z: Matrix, rng: np.random.Generator) -> Matrix:
        """Clip and perturb one block. `Z` is overwritten."""
        if not self.exact:
            np.clip(Z, self.low, self.high, out=Z)
            noise = rng.standard_exponential(Z.shape)
            noise -= rng.standard_exponential(Z.shape)
            noise *= self.scale
            Z += noise
            return Z
        grid = self.grid
        np.rint(np.divide(Z, grid, out=Z), out=Z)
        np.clip(Z, *self._steps(), out=Z)
        steps = Z.astype(np.int64)
        steps += discrete_laplace(rng, self.bits, Z.shape)
        return np.multiply(steps, grid, out=Z)
