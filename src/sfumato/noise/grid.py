"""Exact discrete noise: integers from random words, with no floating point in any decision.

Double-precision Laplace noise has gaps and unequal spacings that depend on the value it hides
(Mironov 2012; Haney et al. 2022). Here every draw is an integer, and its law is exactly the stated one as
long as the words of the generator are uniform: comparisons of words are refined, digit by digit, until they are
decided. The time a block takes depends on the noise drawn, never on the data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.core.array_types import Codes, Flags, Floats
from sfumato.core.errors import UsageError, wrong_parameter
from sfumato.noise.streams import KeyedGenerator

Shape: TypeAlias = int | tuple[int, ...]
Words: TypeAlias = NDArray[np.uint64]

WORD = 1 << 64
LARGEST_LOG2_SCALE = 56
"""With k = 56 an int64 holds 127 scales; a draw beyond has probability e^-127, and would raise, not wrap."""

_TRIALS = 1 << 16  # the working set of one pass stays in the second-level cache
_TAIL = 64  # bits of the word that is drawn for an accepted trial: 63 of the fraction, one for the sign


def random_words(rng: np.random.Generator, count: int) -> Words:
    """`count` raw 64-bit words: in bulk from a generator of ours. Of another, `integers` over the full range returns
    them untouched, faster than `random_raw`."""
    return rng.words(count) if isinstance(rng, KeyedGenerator) else rng.integers(0, WORD, size=count, dtype=np.uint64)


def discrete_laplace(rng: np.random.Generator, log2_scale: int, shape: Shape, *, _digit: int = 16) -> Codes:
    r"""Draw integers with P(n) = tanh(1 / (2 s)) exp(-|n| / s), s = 2^k, k = `log2_scale`, exactly.

    *Exponential* (von Neumann 1951). Draw uniforms U1, U2, ... until the decreasing run U1 > U2 > ... > U_N stops.
    Given U1 = x, P(N >= m) = x^(m-1) / (m-1)!, so P(N odd) = 1 - x + x^2/2! - ... = e^-x. Accept x when N is odd,
    else add 1 to an integer part I and start again. A trial fails with probability 1 - (1 - 1/e) = 1/e, independently
    of the others, hence P(I = i) = (1 - 1/e) e^-i, x has density e^-x / (1 - 1/e) on [0, 1), and E = I + x is
    exponential.

    *Geometric*. g = floor(s E) = I 2^k + (the first k bits of x) has P(g = n) = P(n/s <= E < (n+1)/s)
    = (1 - e^(-1/s)) e^(-n/s). Only k bits of x are ever needed, whence the cost does not grow with the scale.

    *Two sides*. Give g a fair random sign and start again when the result is "minus zero". Before this rejection
    P(+, n) = P(-, n) = P(g = n) / 2; after it the outcome n > 0, n < 0 or n = 0 each arises from one pair, so
    P(n) is proportional to P(g = |n|), that is to exp(-|n| / s).

    *Digits*. Uniforms are compared by their leading digits of 16 bits. A strict inequality there is final and says
    nothing about later digits, which therefore stay uniform and are drawn only when needed; equal leading digits are
    refined by `_finish_run`. Trials are drawn as one sequence, and I is the number of failures between two successes,
    so that no trial needs to remember to whom it belongs.
    """
    if isinstance(log2_scale, bool) or not isinstance(log2_scale, int | np.integer):
        raise wrong_parameter("log2_scale", "discrete_laplace", "an integer", log2_scale)
    if not 0 <= log2_scale <= LARGEST_LOG2_SCALE:
        raise wrong_parameter("log2_scale", "discrete_laplace", f"between 0 and {LARGEST_LOG2_SCALE}", log2_scale)
    result = np.empty(shape, dtype=np.int64)
    flat = result.reshape(-1)
    filled, failures = 0, 0
    while filled < flat.size:
        missing = flat.size - filled
        trials = min(_TRIALS, int(1.6 * missing) + 64)  # 1 / (1 - 1/e) = 1.582 trials per success
        draws, failures = _signed_draws(rng, int(log2_scale), trials, failures, _digit)
        take = min(draws.size, missing)  # a prefix of the sequence: dropping the rest depends on nothing drawn
        flat[filled : filled + take] = draws[:take]
        filled += take
    return result


def _signed_draws(rng: np.random.Generator, k: int, trials: int, failures: int, digit: int) -> tuple[Codes, int]:
    """The draws that `trials` further trials complete, and the failures since the last success."""
    lead, accepted, known = _trials(rng, trials, digit)
    success = np.flatnonzero(accepted)
    if success.size == 0:
        return np.empty(0, dtype=np.int64), failures + trials
    whole = np.empty(success.size, dtype=np.int64)
    np.subtract(success[1:], success[:-1], out=whole[1:])
    whole[1:] -= 1
    whole[0] = success[0] + failures
    if int(whole.max()) >= 1 << (63 - k):
        raise OverflowError("A draw of the discrete Laplace law exceeds 64 bits; its probability is below e^-127.")
    tail = random_words(rng, success.size)
    for trial, fraction in known.items():
        if accepted[trial]:
            place = int(np.searchsorted(success, trial))
            tail[place] = fraction.tail(rng, digit, int(tail[place]) & 1)
    if k <= digit:
        fraction_bits = lead[success].astype(np.int64) >> (digit - k)
    else:
        fraction_bits = lead[success].astype(np.int64) << (k - digit)
        fraction_bits |= (tail >> np.uint64(_TAIL - (k - digit))).view(np.int64)
    whole <<= k
    whole |= fraction_bits
    sign = -(tail & np.uint64(1)).view(np.int64)  # 0 or -1; (g ^ -1) + 1 = -g
    minus_zero = (whole == 0) & (sign != 0)
    whole ^= sign
    whole -= sign
    if minus_zero.any():
        whole = whole[~minus_zero]
    return whole, trials - 1 - int(success[-1])


def _trials(rng: np.random.Generator, trials: int, digit: int) -> tuple[NDArray[Any], Flags, dict[int, _Lazy]]:
    """Run von Neumann's trials: leading digits of U1, which were accepted, and those U1 of which more is known."""
    lead = _digits(rng, trials, digit)
    known: dict[int, _Lazy] = {}
    index: NDArray[np.intp] | None = None  # the runs that still decrease; None stands for all of them
    accepted = np.zeros(trials, dtype=np.bool_)
    previous, length = lead, 1
    while previous.size:
        following = _digits(rng, previous.size, digit)
        ties = np.flatnonzero(following == previous)
        falls = following < previous
        if length % 2:  # the run stops here with odd length: accepted
            if index is None:
                np.logical_not(falls, out=accepted)
            else:
                accepted[index[~falls]] = True
        for tie in ties:
            trial = int(tie) if index is None else int(index[tie])
            same = int(previous[tie])
            accepted[trial] = _finish_run(rng, _Lazy(same, digit), _Lazy(same, digit), length, trial, known)
        index = np.flatnonzero(falls) if index is None else index[falls]
        previous = following[falls]
        length += 1
    return lead, accepted, known


def _digits(rng: np.random.Generator, count: int, digit: int) -> NDArray[Any]:
    """`count` uniform digits of `digit` bits: whole 16-bit pieces of words, cut where a test asks for fewer bits."""
    pieces = random_words(rng, -(-count // 4)).view(np.uint16)[:count]
    return pieces if digit == 16 else pieces >> np.uint16(16 - digit)


class _Lazy:
    """A uniform number of which `size` leading bits are known; more are drawn when a comparison needs them."""

    def __init__(self, bits: int, size: int) -> None:
        self.bits, self.size = bits, size

    def extend(self, rng: np.random.Generator, size: int) -> None:
        """Draw bits until `size` of them are known."""
        while self.size < size:
            step = min(64, size - self.size)
            word = int(random_words(rng, 1)[0]) >> (64 - step)
            self.bits, self.size = self.bits << step | word, self.size + step

    def tail(self, rng: np.random.Generator, digit: int, sign: int) -> int:
        """The word that follows the leading digit: 63 bits of this number and the sign."""
        self.extend(rng, digit + _TAIL - 1)
        return (self.bits >> (self.size - digit - _TAIL + 1)) % (1 << (_TAIL - 1)) << 1 | sign


def _falls(rng: np.random.Generator, first: _Lazy, second: _Lazy) -> bool:
    """Whether second < first, drawing bits of both until they differ."""
    while True:
        size = max(first.size, second.size)
        first.extend(rng, size)
        second.extend(rng, size)
        if first.bits != second.bits:
            return second.bits < first.bits
        first.extend(rng, size + 64)


def _finish_run(
    rng: np.random.Generator, last: _Lazy, following: _Lazy, length: int, trial: int, known: dict[int, _Lazy]
) -> bool:
    """Continue one run, of `length` so far, from a tie of leading digits; True when its final length is odd.

    A run of length 1 ends in U1 itself, whose further bits must be those that the result will show.
    """
    if length == 1:
        known[trial] = last
    while _falls(rng, last, following):
        last, following, length = following, _Lazy(0, 0), length + 1
    return length % 2 == 1


def exact_bernoulli(rng: np.random.Generator, threshold: int, shape: Shape) -> Flags:
    """True with probability `threshold` / 2^64 exactly: a 64-bit word is below the threshold."""
    if not 0 <= threshold <= WORD:
        raise wrong_parameter("threshold", "exact_bernoulli", "between 0 and 2^64", threshold)
    if threshold == WORD:
        return np.ones(shape, dtype=np.bool_)
    words = random_words(rng, _count(shape))
    return (words < np.uint64(threshold)).reshape(shape)


def uniform_integers(rng: np.random.Generator, bound: int, shape: Shape) -> Codes:
    """Uniform on 0 .. `bound` - 1, exactly: words beyond the largest multiple of the bound are drawn again."""
    if not 1 <= bound <= 1 << 63:
        raise wrong_parameter("bound", "uniform_integers", "between 1 and 2^63", bound)
    words = random_words(rng, _count(shape))
    excess = WORD % bound
    if excess:
        while (again := np.flatnonzero(words >= np.uint64(WORD - excess))).size:
            words[again] = random_words(rng, again.size)
    return (words % np.uint64(bound)).view(np.int64).reshape(shape)


def _count(shape: Shape) -> int:
    return shape if isinstance(shape, int) else math.prod(shape)


# Choices by exact inverse transform: P(j) proportional to exp(-a_j) with rational a_j, decided without rounding.
#
# A uniform number U is drawn as a 64-bit word, that is as the interval [w, w + 1) / 2^64, and compared with the
# cumulative probabilities F_j. In doubles each F_j is known up to `MARGIN`, so a word that lies further than that from
# every F_j is decided. The others (about one in 2^36 for each F_j) are decided with 100 decimal digits and 256 bits of
# U. The law of the outcome is therefore the stated one, and not that of rounded weights: an exponential mechanism or a
# discrete Gaussian drawn with floating-point weights has no proof (Mironov 2012; Ilvento 2020).
#
# The discrete Gaussian and the discrete Laplace law are choices among the integers. What lies beyond `REACH` of their
# scales has less than 1e-130 of the mass: a draw there would need a word that the last comparison cannot decide, which
# raises.


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
        words = random_words(rng, _count(shape))
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
    reach = math.ceil(REACH_GAUSSIAN * _checked(math.sqrt(variance), "variance", "discrete_gaussian")) + 1
    values = np.arange(-reach, reach + 1)
    return values[ExactChoice(values**2, 1 / (2 * Fraction(variance))).draw(rng, shape)]


def discrete_laplace_of(rng: np.random.Generator, scale: float, shape: Shape) -> Codes:
    """Integers with P(n) proportional to exp(-|n| / `scale`), exactly, for any scale that is a double.

    |n| = q m + r has a weight that is one of q times one of r, so the two are drawn apart, from short tables. A fair
    sign; "minus zero" is drawn again, so that 0 is as likely as it should be.
    """
    _checked(scale, "scale", "discrete_laplace_of")
    unit, reach = 1 / Fraction(scale), math.ceil(REACH_LAPLACE * scale) + 1
    m = math.isqrt(reach) + 1
    coarse, fine = ExactChoice(m * np.arange(reach // m + 1), unit), ExactChoice(np.arange(m), unit)
    drawn, left = np.zeros(_count(shape), dtype=np.int64), np.arange(_count(shape))
    while len(left):
        size = m * coarse.draw(rng, len(left)) + fine.draw(rng, len(left))
        negative = (random_words(rng, len(left)) & np.uint64(1)).astype(bool)
        drawn[left] = np.where(negative, -size, size)
        left = left[negative & (size == 0)]
    return drawn.reshape(shape)


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
