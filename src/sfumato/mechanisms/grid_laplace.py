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
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import UsageError
from sfumato.noise import discrete_laplace

Matrix = NDArray[np.float64]

TILE = 1 << 16
"""Cells that are perturbed at a time."""

FINEST = 40
"""log2 of the number of steps in one scale; finer would not fit doubles beside a wide interval."""


MOST_SCALES = 1 << 49


@dataclass(frozen=True)
class LaplaceNoise:
    """Laplace noise of `scale` on columns clipped to [low, high], per column; exact on a grid, or in floating point."""

    low: Matrix
    high: Matrix
    scale: Matrix
    exact: bool

    def __post_init__(self) -> None:
        if self.exact and not self._widest() <= MOST_SCALES:
            raise UsageError(
                f"Exact noise must be at least 2^-{MOST_SCALES.bit_length() - 1} of the values it is added to, which "
                "is what a double can hold beside them. Ask for more noise, that is for a smaller epsilon."
            )

    @property
    def bits(self) -> int:
        """k: chosen so that an interval has fewer than 2^52 steps, hence integers are exact in doubles."""
        return min(FINEST, 51 - math.ceil(math.log2(self._widest())))

    def _widest(self) -> float:
        """The largest number of scales from 0 or one end of an interval to the other end."""
        with np.errstate(divide="ignore"):
            spans = np.maximum(self.high - self.low, np.maximum(np.abs(self.low), np.abs(self.high))) / self.scale
        return max(float(np.max(spans)), 1.0)

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
        """Clip and perturb one block. `Z` is overwritten.

        Noise is drawn column by column within tiles of rows that stay in the cache. The tiles depend on the number of
        columns alone, so the same rows meet the same noise however they lie in memory.
        """
        step = max(1, TILE // max(1, Z.shape[1]))
        add = self._adder_on_grid(rng) if self.exact else self._adder_in_floats(rng)
        for start in range(0, len(Z), step):
            add(Z[start : start + step].T)
        return Z

    def _adder_in_floats(self, rng: np.random.Generator) -> Callable[[Matrix], None]:
        low, high, scale = self.low[:, None], self.high[:, None], self.scale[:, None]

        def add(columns: Matrix) -> None:
            noise = rng.standard_exponential(columns.shape)  # the difference of two exponentials
            noise -= rng.standard_exponential(columns.shape)
            noise *= scale
            np.clip(columns, low, high, out=columns)
            columns += noise

        return add

    def _adder_on_grid(self, rng: np.random.Generator) -> Callable[[Matrix], None]:
        bits, grid = self.bits, self.grid[:, None]
        low, high = (steps[:, None] for steps in self._steps())

        def add(columns: Matrix) -> None:
            steps = columns / grid
            np.rint(steps, out=steps)
            np.clip(steps, low, high, out=steps)
            whole = discrete_laplace(rng, bits, columns.shape)
            whole += steps.astype(np.int64)
            np.multiply(whole, grid, out=columns)

        return add
