"""Exact discrete noise: integers from random words, with no floating point in any decision.

Double-precision Laplace noise has gaps and unequal spacings that depend on the value it hides
(Mironov 2012; Haney et al. 2022). Here every draw is an integer, and its law is exactly the stated one as
long as the words of the generator are uniform: comparisons of words are refined, digit by digit, until they are
decided. The time a block takes depends on the noise drawn, never on the data.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sfumato.core.array_types import Codes, Flags
from sfumato.core.errors import UsageError
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
        raise _wrong("log2_scale", "discrete_laplace", "an integer", log2_scale)
    if not 0 <= log2_scale <= LARGEST_LOG2_SCALE:
        raise _wrong("log2_scale", "discrete_laplace", f"between 0 and {LARGEST_LOG2_SCALE}", log2_scale)
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
        raise _wrong("threshold", "exact_bernoulli", "between 0 and 2^64", threshold)
    if threshold == WORD:
        return np.ones(shape, dtype=np.bool_)
    words = random_words(rng, _count(shape))
    return (words < np.uint64(threshold)).reshape(shape)


def uniform_integers(rng: np.random.Generator, bound: int, shape: Shape) -> Codes:
    """Uniform on 0 .. `bound` - 1, exactly: words beyond the largest multiple of the bound are drawn again."""
    if not 1 <= bound <= 1 << 63:
        raise _wrong("bound", "uniform_integers", "between 1 and 2^63", bound)
    words = random_words(rng, _count(shape))
    excess = WORD % bound
    if excess:
        while (again := np.flatnonzero(words >= np.uint64(WORD - excess))).size:
            words[again] = random_words(rng, again.size)
    return (words % np.uint64(bound)).view(np.int64).reshape(shape)


def _count(shape: Shape) -> int:
    return shape if isinstance(shape, int) else math.prod(shape)


def _wrong(parameter: str, owner: str, must: str, got: object) -> UsageError:
    return UsageError(f"The {parameter!r} parameter of {owner} must be {must}. Got {got!r} instead.")
