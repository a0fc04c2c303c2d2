"""Choices by exact inverse transform: P(j) proportional to exp(-a_j) with rational a_j, decided without rounding.

A uniform number U is drawn as a 64-bit word, that is as the interval [w, w + 1) / 2^64, and compared with the
cumulative probabilities F_j. In doubles each F_j is known up to `MARGIN`, so a word that lies further than that from
every F_j is decided. The others (about one in 2^36 for each F_j) are decided with 100 decimal digits and 256 bits of U.
The law of the outcome is therefore the stated one, and not that of rounded weights: an exponential mechanism or a
discrete Gaussian drawn with floating-point weights has no proof (Mironov 2012; Ilvento 2020).

The discrete Gaussian and the discrete Laplace law are choices among the integers. What lies beyond `REACH` of their
scales has less than 1e-130 of the mass: a draw there would need a word that the last comparison cannot decide, which
raises.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np

from sfumato.core.array_types import Codes, Floats
from sfumato.core.errors import UsageError
from sfumato.noise.grid import WORD, Shape, random_words

MARGIN = 2.0**-40
"""Bound on the error of a cumulative probability in doubles. `exp` of a rounded argument errs by 2^-46 where a weight
matters at all, and `_running_sums` adds 2^-43 at most: together an eighth of this."""
PIECE = 256
"""Numbers that are added one after the other."""
DIGITS = 100
BITS = 256
LARGEST_SCALE = 1e6
REACH_GAUSSIAN, REACH_LAPLACE = 25, 320


class ExactChoice:
    """Draws j in 0 .. J-1 with probability proportional to exp(-a_j), a_j = numerators[j] * unit."""

    def __init__(self, numerators: Codes | Sequence[int], unit: Fraction) -> None:
        self._numerators = np.asarray(numerators, dtype=np.int64)
        if not self._numerators.size:
            raise ValueError("There is nothing to choose from.")
        self._numerators = self._numerators - self._numerators.min()
        self._unit = unit
        weights = np.exp(-float(unit) * self._numerators.astype(np.float64))
        cumulative = _running_sums(weights)
        self._cumulative: Floats = cumulative / cumulative[-1]

    @property
    def probabilities(self) -> Floats:
        """The law in doubles, for tests and for whoever wants to look."""
        return np.diff(self._cumulative, prepend=0.0)

    def draw(self, rng: np.random.Generator, shape: Shape) -> Codes:
        """Independent choices."""
        count = shape if isinstance(shape, int) else math.prod(shape)
        words = random_words(rng, count)
        u = words.astype(np.float64) / WORD  # rounds by 2^-54 at most
        low = np.searchsorted(self._cumulative, u - MARGIN, side="right")
        high = np.searchsorted(self._cumulative, u + MARGIN, side="right")
        last = len(self._cumulative) - 1
        for place in np.flatnonzero((low != high) | (low > last)):
            low[place] = self._refined(rng, int(words[place]))
        return low.astype(np.int64).reshape(shape)

    def _refined(self, rng: np.random.Generator, word: int) -> int:
        """The choice of a word that doubles cannot decide."""
        bits = word
        for _ in range(BITS // 64 - 1):
            bits = bits << 64 | int(random_words(rng, 1)[0])
        with localcontext(Context(prec=DIGITS + 20)):
            unit = Decimal(self._unit.numerator) / Decimal(self._unit.denominator)
            weights = [(-(Decimal(int(n)) * unit)).exp() for n in self._numerators]
            total = sum(weights, Decimal(0))
            low, high = Decimal(bits) / (1 << BITS) * total, Decimal(bits + 1) / (1 << BITS) * total
            slack = total.scaleb(-DIGITS + 30)
            reached = Decimal(0)
            for choice, weight in enumerate(weights):
                reached += weight
                if high + slack <= reached:
                    return choice
                if low - slack < reached:
                    break
        raise ArithmeticError("A draw could not be decided with 256 bits; its probability is below 1e-60.")


def discrete_gaussian(rng: np.random.Generator, variance: float, shape: Shape) -> Codes:
    """Integers with P(n) proportional to exp(-n^2 / (2 `variance`)), exactly (Canonne, Kamath & Steinke 2020).

    The double `variance` is the parameter itself and not a rounding of it. Adding such noise to counts that one record
    changes by a vector of squared length L is L / (2 variance)-concentrated differential privacy, like the normal law.
    """
    return _symmetric(rng, _checked(math.sqrt(variance), "variance", "discrete_gaussian"), variance, shape)


def discrete_laplace_of(rng: np.random.Generator, scale: float, shape: Shape) -> Codes:
    """Integers with P(n) proportional to exp(-|n| / `scale`), exactly, for any scale that is a double.

    |n| = q m + r has a weight that is one of q times one of r, so the two are drawn apart, from short tables. A fair
    sign; "minus zero" is drawn again, so that 0 is as likely as it should be.
    """
    _checked(scale, "scale", "discrete_laplace_of")
    unit, reach = 1 / Fraction(scale), math.ceil(REACH_LAPLACE * scale) + 1
    m = math.isqrt(reach) + 1
    coarse, fine = ExactChoice(m * np.arange(reach // m + 1), unit), ExactChoice(np.arange(m), unit)
    count = shape if isinstance(shape, int) else math.prod(shape)
    drawn, left = np.zeros(count, dtype=np.int64), np.arange(count)
    while len(left):
        size = m * coarse.draw(rng, len(left)) + fine.draw(rng, len(left))
        negative = (random_words(rng, len(left)) & np.uint64(1)).astype(bool)
        drawn[left] = np.where(negative, -size, size)
        left = left[negative & (size == 0)]
    return drawn.reshape(shape)


def _symmetric(rng: np.random.Generator, sigma: float, variance: float, shape: Shape) -> Codes:
    reach = math.ceil(REACH_GAUSSIAN * sigma) + 1
    values = np.arange(-reach, reach + 1)
    return values[ExactChoice(values**2, 1 / (2 * Fraction(variance))).draw(rng, shape)]


def exponential_choice(rng: np.random.Generator, scores: Codes | Sequence[int], half_epsilon: float) -> int:
    """One of the scores' places, with probability proportional to exp(`half_epsilon` x score), exactly.

    Where one record changes every score by at most 1 (an integer), this is the exponential mechanism with epsilon
    2 x `half_epsilon`, and of bounded range: half_epsilon^2 / 2 of concentrated differential privacy.
    """
    if not 0 <= half_epsilon < math.inf:
        raise UsageError(f"The 'half_epsilon' parameter must be a number of at least 0. Got {half_epsilon!r} instead.")
    return int(ExactChoice(-np.asarray(scores, dtype=np.int64), Fraction(half_epsilon)).draw(rng, 1)[0])


def _running_sums(weights: Floats) -> Floats:
    """Cumulative sums of weights that are not negative, with a small error whatever their number.

    Adding n numbers one after the other errs by up to n / 2^53, which for the widest laws exceeds `MARGIN`. Adding
    pieces, then the sums of pieces, errs by (256 + 256 + ...) / 2^53: 2^-43 for 256^4 numbers.
    """
    if len(weights) <= PIECE:
        return np.cumsum(weights)
    padded = np.zeros(-(-len(weights) // PIECE) * PIECE)
    padded[: len(weights)] = weights
    within = padded.reshape(-1, PIECE).cumsum(axis=1)
    before = _running_sums(within[:, -1])
    within[1:] += before[:-1, None]
    return np.asarray(np.maximum.accumulate(within.ravel()[: len(weights)]))


def _checked(scale: float, parameter: str, owner: str) -> float:
    if not 0 < scale <= LARGEST_SCALE:
        raise UsageError(
            f"The {parameter!r} parameter of {owner} must be positive and its scale at most {LARGEST_SCALE:,.0f}. "
            f"Got a scale of {scale:g} instead."
        )
    return scale
