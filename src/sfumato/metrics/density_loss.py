"""How far kernel estimates lie from a density: the distributed aggregate "privacy loss" of [kernel-resampling, Eq. 18].

DAPL = 1/2 sum_l (N_l / N) E integral |g_l - f|, half the L1 distance of every site's estimate g_l to f, weighted by the
sites' rows, for one class. It says how good the estimates are, not how private anybody is: it falls as sites grow, and
nears 1 for eight columns or more whatever is done. The integral is estimated without a grid, from

    1/2 integral |f - g|  =  E over z ~ (f + g)/2 of  |f(z) - g(z)| / (f(z) + g(z)),

whose summand lies in [0, 1], so that a few hundred draws are enough in any number of columns. f must come from
elsewhere than g: a known truth, or the estimate from rows held apart. With the estimate from the same rows the loss of
one site is 0 by construction.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import logsumexp

from sfumato.array_types import Codes, Matrix
from sfumato.channels import Channel, apart
from sfumato.channels.maps import places
from sfumato.channels.recipe import draw
from sfumato.errors import UsageError
from sfumato.mechanisms import KernelResampling
from sfumato.statistics import NO_CLASS

POINT = 1e-9
"""Bandwidth of a column that is constant: two estimates agree there only if the constant is the same."""
CELLS = 1 << 22


class KnownDensity(Protocol):
    """A density that can be evaluated and drawn from."""

    def logpdf(self, Z: Matrix) -> Matrix:
        """log f of every row."""

    def sample(self, count: int, rng: np.random.Generator) -> Matrix:
        """Rows drawn from f."""


@dataclass(frozen=True)
class RowDensity:
    """The kernel estimate from encoded rows of one class: a mixture of what the channels make of each of them.

    Categories and empty cells have probabilities where numbers have densities; half the L1 distance is the same
    whatever it is measured in.
    """

    rows: Matrix
    channels: tuple[Channel, ...]

    @classmethod
    def of(cls, mechanism: KernelResampling, X: Matrix, y: Codes | None, code: int | None) -> RowDensity:
        """What a mechanism fitted on (X, y) draws rows of class `code` from."""
        rows = X if y is None else X[y == code]
        return cls(rows, mechanism.recipe_.of_class(NO_CLASS if code is None else code))

    def logpdf(self, Z: Matrix) -> Matrix:
        step = max(1, CELLS // max(len(self.rows), 1))
        return np.concatenate([self._log(Z[start : start + step]) for start in range(0, len(Z), step)])

    def _log(self, Z: Matrix) -> Matrix:
        total = np.full((len(Z), len(self.rows)), -math.log(len(self.rows)))
        rows, channels = self.rows, self.channels
        if (shared := apart(channels)) is not None:
            Z, rows, channels = shared.white(Z), shared.white(rows), shared.channels
            total -= shared.log_volume
        for place, channel in zip(places(channels), channels, strict=True):
            # two estimates agree on a constant only if it is the same
            total += channel.blurred(POINT).log_likelihood(Z[:, place], rows[:, place])
        return np.asarray(logsumexp(total, axis=1))

    def sample(self, count: int, rng: np.random.Generator) -> Matrix:
        return draw(self.channels, self.rows[rng.integers(len(self.rows), size=count)], rng)


class Loss(NamedTuple):
    """Half an L1 distance, between 0 and 1, and the standard error of its estimate."""

    loss: float
    error: float


def half_l1(f: KnownDensity, g: KnownDensity, rng: np.random.Generator, draws: int = 400) -> Loss:
    """Half the L1 distance of two densities, from 0 (the same) to 1 (nowhere together); lower is nearer.

    Half of the draws come from f and half from g, which is one draw from the mixture each, stratified.
    """
    values = []
    for density in (f, g):
        Z = density.sample(draws // 2, rng)
        gap = np.abs(np.nan_to_num(f.logpdf(Z) - g.logpdf(Z), nan=0.0, posinf=np.inf, neginf=-np.inf))
        values.append(np.tanh(gap / 2.0))  # |f - g| / (f + g) of two logarithms
    error = math.sqrt(sum(float(part.var(ddof=1)) / len(part) for part in values)) / 2.0
    return Loss(float(np.mean([part.mean() for part in values])), error)


def dapl(
    f: KnownDensity | Sequence[KnownDensity],
    sites: Sequence[KnownDensity],
    counts: Sequence[int],
    rng: np.random.Generator,
    draws: int = 400,
) -> Loss:
    """DAPL of one class; lower means better estimates, not more privacy. `f` is one density, or one per site (f_l).

    `counts` are the sites' rows of the class. Every site is compared with its own draws.
    """
    if len(sites) != len(counts) or not sites:
        raise UsageError("DAPL needs at least one site, and the number of rows of each.")
    truths = list(f) if isinstance(f, Sequence) else [f] * len(sites)
    shares = np.asarray(counts, dtype=np.float64) / float(np.sum(counts))
    losses = [half_l1(truth, site, rng, draws) for truth, site in zip(truths, sites, strict=True)]
    total = float(shares @ np.array([loss.loss for loss in losses]))
    return Loss(total, math.sqrt(float(shares**2 @ np.array([loss.error**2 for loss in losses]))))
