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

from sfumato.array_types import Codes, Floats
from sfumato.errors import UsageError
from sfumato.noise import OperatorNoise
from sfumato.reconstruction.counting import count_values, part_of
from sfumato.reconstruction.described import Described
from sfumato.reconstruction.evidence import FEWEST, Evidence, Part
from sfumato.reconstruction.expectation_maximization import EmSolver, ExpectationMaximization
from sfumato.reconstruction.kernel import Cells, cell_probabilities
from sfumato.reconstruction.programme import ConvergenceError

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


def estimate_strength(
    values: ArrayLike,
    noise: OperatorNoise,
    support: tuple[float, float],
    *,
    factors: Sequence[float] = FACTORS,
    bins: int = 150,
) -> NoiseStrength:
    """The factor by which `noise` must be stretched to explain released `values` of originals within `support`."""
    if len(factors) < 3 or min(factors) <= 0:
        raise UsageError("Give at least three factors above 0 to choose among.")
    z = np.asarray(values, dtype=np.float64).ravel()
    z = z[np.isfinite(z)]
    if len(z) < FEWEST or z.min() == z.max():
        raise UsageError(f"At least {FEWEST} different released values are needed to tell how strong the noise was.")
    # cells wider than the noise would tell its strength by their own shape: only where values lie are there any
    reach = max(float(np.ptp(z)), 1e-12)
    ends = max(support[0], float(z.min()) - 0.25 * reach), min(support[1], float(z.max()) + 0.25 * reach)
    cells, found = Cells.even(*(ends if ends[0] < ends[1] else support), bins), []
    _, edges = np.histogram(z, POINTS)  # the same cells for every strength: their likelihoods compare
    halves = [np.concatenate([[0], np.histogram(half, edges)[0], [0]]) for half in (z[::2], z[1::2])]
    for factor in factors:
        one = Described("x", "numeric", noise.stretched(factor), *support)
        part = part_of(count_values(z, one, *support), one)
        spread = cell_probabilities(noise.stretched(factor), edges, cells)
        found.append(sum(_held_out(part, edges, spread, *pair) for pair in (halves, halves[::-1])))
    likely = np.array(found)
    near = np.flatnonzero(likely >= likely.max() - _DROP)
    first, last = int(near[0]), int(near[-1])
    told = first > 0 and last < len(factors) - 1
    return NoiseStrength(float(factors[int(likely.argmax())]), float(factors[first]), float(factors[last]), told)


def _held_out(part: Part, edges: Floats, spread: Floats, fitted: Codes, judged: Codes) -> float:
    """Log-likelihood of the one half under the density of the other; a small share goes to where that has none."""
    evidence = Evidence(part, edges, fitted, spread, np.zeros(len(fitted)))
    try:
        mass = EmSolver([evidence], ExpectationMaximization(stopping=ROUNDS), rounds=ROUNDS).solve([evidence])
    except ConvergenceError:  # noise so weak cannot have led so far
        return -np.inf
    expected = evidence.expected(0.99 * mass + 0.01 / len(mass))
    shown = judged > 0
    with np.errstate(divide="ignore"):
        return float(np.sum(judged[shown] * np.log(expected[shown])))
