"""How strong the noise was, estimated together with the density [density-reconstruction, Section 6].

z = Z(e(psi), x; psi) with psi unknown: for every psi the density that explains the released values best is found, and
the likelihood of the values under it is compared. Here psi is the factor by which a noise is stretched. Values alone
often cannot tell: weaker noise with a broader density explains them as well, as long as the density stays within the
known range. A density fitted to the same values would favour weak noise, which lets it follow chance: so it is fitted
to one half of the values, and judged on the other. The answer is an interval of what explains them about as well. It
is rough and no confidence interval; `told` says whether it ends on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sfumato.core.array_types import Floats
from sfumato.core.errors import UsageError
from sfumato.noise import OperatorNoise
from sfumato.reconstruction.evidence import FEWEST, Cells, Evidence, cell_probabilities
from sfumato.reconstruction.expectation_maximization import EmSolver, ExpectationMaximization
from sfumato.reconstruction.parzen_program import ConvergenceError
from sfumato.reconstruction.reconstruct import Described, count_values, part_of

FACTORS = tuple(float(factor) for factor in np.geomspace(0.25, 4.0, 25))
POINTS, ROUNDS = 100, 300
_DROP = 3.0
"""By how much a log-likelihood may fall behind the best and still count as explaining the values."""


@dataclass(frozen=True)
class NoiseStrength:
    """`best` factor of the noise that was given, and the interval of those that explain the values nearly as well."""

    best: float
    low: float
    high: float
    told: bool

    def in_words(self) -> str:
        if not self.told:
            return (
                f"Noise of {self.low:.2g} to {self.high:.2g} times this strength explains the values equally well: "
                "they do not tell how strong it was."
            )
        return f"The values suggest noise of {self.best:.2g} times this strength ({self.low:.2g} to {self.high:.2g})."


def estimate_common_strength(
    parts: Sequence[tuple[ArrayLike, OperatorNoise]],
    support: tuple[float, float],
    *,
    factors: Sequence[float] = FACTORS,
    bins: int = 150,
) -> NoiseStrength:
    """The factor by which the noise of each release of a column must be stretched to explain its values, of originals
    within `support`: one density lies behind all of them, and their log-likelihoods are added."""
    if len(factors) < 3 or min(factors) <= 0:
        raise UsageError("Give at least three factors above 0 to choose among.")
    given = [(np.asarray(values, dtype=np.float64).ravel(), noise) for values, noise in parts]
    released = [(values[np.isfinite(values)], noise) for values, noise in given]
    z = np.concatenate([values for values, _ in released])
    if len(z) < FEWEST or z.min() == z.max():
        raise UsageError(f"At least {FEWEST} different released values are needed to tell how strong the noise was.")
    # Cells wider than the noise would tell its strength by their own shape: only where values lie are there any.
    reach = max(float(np.ptp(z)), 1e-12)
    ends = max(support[0], float(z.min()) - 0.25 * reach), min(support[1], float(z.max()) + 0.25 * reach)
    cells, found = Cells.even(*(ends if ends[0] < ends[1] else support), bins), []
    for factor in factors:
        pairs = [_halves(values, noise.stretched(factor), support, cells) for values, noise in released if len(values)]
        ones, others = zip(*pairs, strict=True)
        found.append(_held_out(ones, others) + _held_out(others, ones))
    likely = np.array(found)
    near = np.flatnonzero(likely >= likely.max() - _DROP)
    first, last = int(near[0]), int(near[-1])
    told = first > 0 and last < len(factors) - 1
    return NoiseStrength(float(factors[int(likely.argmax())]), float(factors[first]), float(factors[last]), told)


def _halves(z: Floats, noise: OperatorNoise, support: tuple[float, float], cells: Cells) -> tuple[Evidence, Evidence]:
    """What each half of the values says of this noise, on cells that are the same for every strength, so that their
    likelihoods compare."""
    edges, one = np.histogram_bin_edges(z, POINTS), Described("x", "numeric", noise, *support)
    part = part_of(count_values(z, one, *support), one)
    spread = cell_probabilities(noise, edges, cells)
    counts = [np.concatenate([[0], np.histogram(half, edges)[0], [0]]) for half in (z[::2], z[1::2])]
    first, second = (Evidence(part, edges, half, spread, np.zeros(len(half))) for half in counts)
    return first, second


def _held_out(fitted: Sequence[Evidence], judged: Sequence[Evidence]) -> float:
    """Log-likelihood of the one half under the density of the other; a small share goes to where that has none."""
    try:
        mass = EmSolver(fitted, ExpectationMaximization(stopping=ROUNDS), rounds=ROUNDS).solve(fitted)
    except ConvergenceError:  # noise so weak cannot have led so far
        return -np.inf
    found = 0.0
    for evidence in judged:
        expected = evidence.expected(0.99 * mass + 0.01 / len(mass))
        shown = evidence.counts > 0
        with np.errstate(divide="ignore"):
            found += float(np.sum(evidence.counts[shown] * np.log(expected[shown])))
    return found
