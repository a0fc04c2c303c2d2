"""Laplace noise whose guarantee survives finite arithmetic, for many columns at once.

Naive double-precision Laplace noise leaks: which doubles can occur depends on the private value (Mironov 2012; Haney
et al. 2022). Here values are rounded to a public grid of step ``scale / 2^k`` and noise is an exact discrete Laplace
variable in steps, so that every integer can occur whatever the value was.

Rounding is accounted for: values are clipped to the grid points *inside* their interval, so one component has
epsilon ``(n_high - n_low) / 2^k <= width / scale`` exactly; a difference of two records that is measured before
rounding can grow by one step in every component, ``2^-k`` each (`Channel.rounding`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from sfumato.array_types import Matrix
from sfumato.channels.additive import Additive
from sfumato.channels.base import Channel
from sfumato.errors import UsageError
from sfumato.noise import Laplace, discrete_laplace
from sfumato.noise.float_laplace import standard_laplace

TILE = 1 << 16
"""Cells that are perturbed at a time."""
FINEST = 40
"""log2 of the number of steps in one scale; finer would not fit doubles beside a wide interval."""
MOST_SCALES = 1 << 49


def laplace_channels(low: Matrix, high: Matrix, scale: Matrix, *, exact: bool) -> tuple[Additive, ...]:
    """One channel a column: Laplace noise of `scale` on values clipped to [low, high], on one fineness of grid.

    An interval has fewer than 2^52 steps, hence integers are exact in doubles.
    """
    grid = np.zeros(len(scale))
    if exact:
        with np.errstate(divide="ignore"):
            spans = np.maximum(high - low, np.maximum(np.abs(low), np.abs(high))) / scale
        widest = max(float(np.max(spans)), 1.0)
        if not widest <= MOST_SCALES:
            raise UsageError(
                f"Exact noise must be at least 2^-{MOST_SCALES.bit_length() - 1} of the values it is added to, which "
                "is as much as a double can represent. Ask for more noise, that is, a smaller epsilon."
            )
        grid = scale / 2.0 ** min(FINEST, 51 - math.ceil(math.log2(widest)))
    columns = zip(scale.tolist(), grid.tolist(), low.tolist(), high.tolist(), strict=True)
    return tuple(Additive(Laplace(scale=b), step, first, last) for b, step, first, last in columns)


def fineness(channel: Channel) -> int | None:
    """Which channels `draw_laplace` can take together: Laplace noise of one fineness (-1 for floating point)."""
    if not isinstance(channel, Additive) or not isinstance(channel.law, Laplace):
        return None
    return channel.bits if channel.grid else -1


def draw_laplace(channels: Sequence[Additive], Z: Matrix, rng: np.random.Generator) -> Matrix:
    """Clip and perturb one block, a column a channel. `Z` is overwritten.

    Noise is drawn column by column within tiles of rows that stay in the cache. The tiles depend on the number of
    columns alone, so the same rows meet the same noise however they lie in memory.
    """
    step = max(1, TILE // max(1, Z.shape[1]))
    add = _on_grid(channels, rng) if channels[0].grid else _in_floats(channels, rng)
    for start in range(0, len(Z), step):
        add(Z[start : start + step].T)
    return Z


def _in_floats(channels: Sequence[Additive], rng: np.random.Generator) -> Callable[[Matrix], None]:
    ends = np.array([channel.interval for channel in channels])
    low, high = ends[:, :1], ends[:, 1:]
    scale = np.array([[1.0 / channel.steepness] for channel in channels])

    def add(columns: Matrix) -> None:
        noise = standard_laplace(rng, columns.shape)
        noise *= scale
        np.clip(columns, low, high, out=columns)
        columns += noise

    return add


def _on_grid(channels: Sequence[Additive], rng: np.random.Generator) -> Callable[[Matrix], None]:
    bits, grid = channels[0].bits, np.array([[channel.grid] for channel in channels])
    ends = np.array([channel.ends for channel in channels])
    low, high = ends[:, :1], ends[:, 1:]

    def add(columns: Matrix) -> None:
        steps = columns / grid
        np.rint(steps, out=steps)
        np.clip(steps, low, high, out=steps)
        whole = discrete_laplace(rng, bits, columns.shape)
        whole += steps.astype(np.int64)
        np.multiply(whole, grid, out=columns)

    return add
