"""Answers that are drawn by exact comparisons of integers: categories, vectors in caps, numbers in windows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import scipy  # its parts are loaded when one is first used
from numpy.typing import ArrayLike

from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.core.errors import UsageError, wrong_parameter
from sfumato.noise.grid import WORD, Shape, discrete_laplace, exact_bernoulli, uniform_integers
from sfumato.noise.law import floats

# Two levels of probability in exact integers: `near` outcomes are likelier than the `far` ones, by a known odds.
#
# A 64-bit word below the threshold T chooses the near outcomes, one of which is then drawn uniformly; else one of the
# far ones. A near outcome has probability T / (2^64 near), a far one (2^64 - T) / (2^64 far). What is near depends on
# the truth, so the largest likelihood ratio between two truths is
#
#     T far / ((2^64 - T) near)   or its inverse, whichever is larger: a ratio of integers.
#
# Randomized response over k categories is the case of 1 near and k - 1 far outcomes [Warner 1965; Kairouz et al. 2014].


_EXACT = Context(prec=60)  # exp and ln of `decimal` are correctly rounded: errors of 1e-60, thresholds have 1e-19
_MARGIN = Decimal(1) + Decimal("1e-55")
MOST_KEPT = WORD - (WORD >> 53)
"""The largest double below 1, times 2^64: a card that rounded its probability to 1 could not be told from no noise."""


def odds_epsilon(threshold: int, near: int, far: int) -> float:
    """|ln(T far / ((2^64 - T) near))|, never rounded down; infinite when one outcome is impossible."""
    kept, changed = threshold * far, (WORD - threshold) * near
    if kept == 0 or changed == 0:
        return math.inf
    larger, smaller = max(kept, changed), min(kept, changed)
    if larger == smaller:
        return 0.0
    # ln(1 + x) with x = (larger - smaller) / smaller; 60 digits leave 40 even where x is 1e-19
    ratio = _EXACT.divide(Decimal(larger), Decimal(smaller))
    exact = _EXACT.add(_EXACT.multiply(_EXACT.ln(ratio), _MARGIN), Decimal("1e-55"))
    rounded = float(exact)
    return rounded if Decimal(rounded) >= exact else math.nextafter(rounded, math.inf)


def odds_threshold(epsilon: float, near: int, far: int) -> int | None:
    """The largest T, at most `MOST_KEPT`, whose `odds_epsilon` does not exceed `epsilon`; None where none is known."""
    # e^-epsilon instead of e^epsilon: a huge epsilon underflows to 0 and cannot overflow
    weight = _EXACT.multiply(_EXACT.divide(Decimal(far), Decimal(near)), _EXACT.exp(-Decimal(float(epsilon))))
    exact = _EXACT.divide(Decimal(WORD), _EXACT.add(Decimal(1), weight))
    threshold = min(int(exact.to_integral_value(rounding=ROUND_FLOOR)), MOST_KEPT)
    for candidate in (threshold + 1, threshold, threshold - 1):  # the quotient may round across an integer
        if 0 < candidate <= MOST_KEPT and odds_epsilon(candidate, near, far) <= epsilon:
            return candidate
    return None


def as_share(threshold: int) -> float:
    """T / 2^64 as a double that holds it exactly: T is rounded down to 53 bits, towards more noise."""
    spare = max(0, threshold.bit_length() - 53)
    return (threshold >> spare << spare) / WORD


def randomized_response(rng: np.random.Generator, codes: ArrayLike, categories: int, threshold: int) -> Codes:
    """Keep each code with probability `threshold` / 2^64, else draw one of the other categories uniformly."""
    given = np.asarray(codes)
    if given.size and given.dtype.kind not in "iu":
        raise UsageError(
            f"The 'codes' parameter of randomized_response must be an array of integers. Got {given.dtype} instead."
        )
    _check_categories(categories, "randomized_response")
    _check_threshold(threshold, "randomized_response")
    if given.size and (given.min() < 0 or given.max() >= categories):
        raise UsageError(
            f"The 'codes' parameter of randomized_response must be an array of integers from 0 to {categories - 1}. "
            "Got others instead."
        )
    truth = given.astype(np.int64)
    if categories == 1:
        return truth
    keep = exact_bernoulli(rng, threshold, truth.shape)
    other = uniform_integers(rng, categories - 1, truth.shape)  # drawn for all: the time does not tell who was kept
    other += other >= truth
    return np.where(keep, truth, other)


def keep_threshold(epsilon: float, categories: int) -> int:
    """The largest T whose true epsilon, `response_epsilon(T, categories)`, does not exceed `epsilon`.

    T = floor(2^64 e^epsilon / (e^epsilon + k - 1)), at most `MOST_KEPT` unless `epsilon` is infinite.
    """
    if isinstance(epsilon, bool) or not isinstance(epsilon, int | float | np.floating) or not epsilon > 0:
        raise wrong_parameter("epsilon", "keep_threshold", "a positive number", epsilon)
    _check_categories(categories, "keep_threshold")
    if categories == 1 or math.isinf(epsilon):
        return WORD
    if (threshold := odds_threshold(epsilon, 1, categories - 1)) is not None:
        return threshold
    must = f"at least about 1e-18, which is what 64-bit probabilities can express for {categories} categories"
    raise wrong_parameter("epsilon", "keep_threshold", must, epsilon)


def response_epsilon(threshold: int, categories: int) -> float:
    """epsilon = |ln(T (k - 1) / (2^64 - T))|, never rounded down; infinite when one outcome is impossible."""
    _check_categories(categories, "response_epsilon")
    _check_threshold(threshold, "response_epsilon")
    if categories == 1:
        return 0.0
    return odds_epsilon(threshold, 1, categories - 1)


def onto_simplex(points: ArrayLike) -> Floats:
    """The nearest point of the probability simplex, for every line: what lies above the threshold that leaves 1."""
    v = np.asarray(points, dtype=np.float64)
    descending = -np.sort(-v, axis=-1)
    excess = (np.cumsum(descending, axis=-1) - 1.0) / np.arange(1, v.shape[-1] + 1)
    last = np.count_nonzero(descending > excess, axis=-1, keepdims=True) - 1
    nearest = np.maximum(v - np.take_along_axis(excess, last, axis=-1), 0.0)
    return np.asarray(nearest / nearest.sum(axis=-1, keepdims=True))


def _check_categories(categories: int, owner: str) -> None:
    if isinstance(categories, bool) or not isinstance(categories, int | np.integer) or categories < 1:
        raise wrong_parameter("categories", owner, "an integer of at least 1", categories)


def _check_threshold(threshold: int, owner: str) -> None:
    if isinstance(threshold, bool) or not isinstance(threshold, int) or not 0 <= threshold <= WORD:
        raise wrong_parameter("threshold", owner, "an integer between 0 and 2^64", threshold)


# A normal vector that lies in the truth's cap more often than by chance: PrivUnitG, in integers [Asi et al. 2022].
#
# x has D coordinates. In the cap of a direction s, <x, s> >= t |s|, which has mass Q = P(N >= t), x is a standard
# normal vector conditioned on the cap with probability p, else conditioned on the rest. The density is that of a normal
# vector times p / Q or (1 - p) / (1 - Q): their ratio is e^epsilon. E(x) = M s / |s|, M = pdf(t) (p / Q - (1 - p) / (1
# - Q)).
#
# *On a grid* x = g / 2^k with integers g of the discrete normal law P(g) proportional to exp(-|g|^2 / (2 4^k)), the
# direction s and the threshold tau are integers, and all is decided in integers:
#
# - normals by rejection from the discrete Laplace law of scale 2^k (Canonne, Kamath & Steinke 2020): n is kept with
#   probability exp(-(|n| - 2^k)^2 / (2 4^k)), that is if a geometric variable of scale 2^(2k+1) is at least as large;
# - the rest by drawing until it is hit; a cap of small mass by drawing g + s instead, for P(g) / P(g - s) is
#   exp(-<g, s> / 4^k) up to a constant: what is in the cap is kept with probability exp(-(<g, s> - tau) / 4^k).
#
# The cap's mass then depends a little on s: `cap_masses` bounds it for all directions.


BITS = 20
"""log2 of the grid's steps in one standard deviation."""
RARE = 0.15
"""A cap of less mass is drawn by moving the normal vector there."""
ROUNDED = 1e-11
"""A discrete and a rounded normal law differ by less than this factor within 12 standard deviations: by at most
(12 / 2^k)^2 / 24, for k = 20; see `cap_masses`."""


def geometric(rng: np.random.Generator, log2_scale: int, shape: Shape) -> Codes:
    """P(n or more) = exp(-n / 2^k) exactly: both sides of the discrete Laplace law, the negative one shifted by 1."""
    drawn = discrete_laplace(rng, log2_scale, shape)
    return drawn ^ (drawn >> 63)


def discrete_normals(rng: np.random.Generator, bits: int, shape: Shape) -> Codes:
    """Integers with P(n) proportional to exp(-n^2 / (2 4^bits)), exactly."""
    result = np.empty(shape, dtype=np.int64)
    flat, filled = result.reshape(-1), 0
    while filled < flat.size:
        count = int(1.35 * (flat.size - filled)) + 16
        drawn = discrete_laplace(rng, bits, count)
        off = np.abs(drawn) - (1 << bits)
        found = drawn[geometric(rng, 2 * bits + 1, count) >= off * off]
        take = min(len(found), flat.size - filled)
        flat[filled : filled + take] = found[:take]
        filled += take
    return result


def directions(v: Matrix, tail: float, bits: int) -> tuple[Codes, Codes]:
    """Integer directions of unit vectors, and the threshold of every cap; a rare cap's direction is also its shift."""
    length = tail if is_rare(tail) else 1.0
    s = np.rint(v * (length * 2.0**bits)).astype(np.int64)
    norm = np.sqrt((s.astype(np.float64) ** 2).sum(axis=1))
    return s, np.ceil(tail * 2.0**bits * norm).astype(np.int64)


def is_rare(tail: float) -> bool:
    return float(scipy.special.ndtr(-tail)) < RARE


def draw_caps(rng: np.random.Generator, v: Matrix, threshold: int, tail: float, bits: int) -> Codes:
    """A vector of integers for every unit vector."""
    s, tau = directions(v, tail, bits)
    inside = exact_bernoulli(rng, threshold, len(v))
    out, rare = np.empty(v.shape, dtype=np.int64), is_rare(tail)
    left = np.arange(len(v))
    while left.size:
        g = discrete_normals(rng, bits, (left.size, v.shape[1]))
        want = inside[left]
        if rare:
            g += np.where(want[:, None], s[left], 0)
        beyond = np.einsum("ij,ij->i", g, s[left]) - tau[left]
        hit = (beyond >= 0) == want
        if rare:
            hit &= ~want | (geometric(rng, 2 * bits, left.size) >= beyond)
        out[left[hit]] = g[hit]
        left = left[~hit]
    return out


def draw_caps_in_floats(rng: np.random.Generator, v: Matrix, near: float, tail: float) -> Matrix:
    """The same in floating point, for experiments: along v by inverse transform, the rest as it comes."""
    x = rng.standard_normal(v.shape)
    mass, u = float(scipy.special.ndtr(-tail)), rng.random(len(v))
    inside = u < near
    share = np.where(inside, mass * u / near, mass + (1.0 - mass) * (u - near) / (1.0 - near))
    along = -scipy.special.ndtri(np.clip(share, 1e-300, 1.0 - 1e-16))
    x += (along - np.einsum("ij,ij->i", x, v))[:, None] * v
    return x


def cap_masses(tail: float, dimension: int, bits: int) -> tuple[float, float]:
    """Least and largest mass of a cap over all directions.

    A rounded normal coordinate is within half a step of a normal one, so <g, s> is within |s|_1 / 2, which is at most
    sqrt(D) |s| / 2; the threshold is rounded up by less than one. The discrete law differs from the rounded one by a
    factor of 1 + `ROUNDED` a coordinate within 12 standard deviations, beyond which there is less than 1e-32.
    """
    if not bits:
        return (float(scipy.special.ndtr(-tail)),) * 2
    off = (0.5 * math.sqrt(dimension) + 2.0) / 2.0**bits + 1e-12 * abs(tail)
    rounded = ROUNDED * max(1.0, 4.0 ** (BITS - bits))
    factor = math.exp(dimension * rounded)
    far = dimension * 1e-32
    least = float(scipy.special.ndtr(-tail - off)) / factor - far
    most = float(scipy.special.ndtr(-tail + off)) * factor + far
    return max(least, 0.0), min(most, 1.0)


def cap_epsilon(near: float, tail: float, dimension: int, bits: int) -> float:
    """ln of the largest ratio of two densities at one outcome, over all directions; rounded up."""
    least, most = cap_masses(tail, dimension, bits)
    if not 0 < least <= most < 1 or not 0 < near < 1:
        return math.inf
    levels = [near / least, near / most, (1.0 - near) / (1.0 - least), (1.0 - near) / (1.0 - most)]
    return math.log(max(levels) / min(levels)) * (1.0 + 1e-13) + 1e-13


def mean_length(near: float, tail: float) -> float:
    """M: how far x lies in its direction on average."""
    mass = float(scipy.special.ndtr(-tail))
    density = math.exp(-0.5 * tail * tail) / math.sqrt(2.0 * math.pi)
    return density * (near / mass - (1.0 - near) / (1.0 - mass))


def best_tail(epsilon: float, dimension: int) -> float:
    """The threshold that makes x / M vary least: E|x|^2 / M^2 = (D + t M) / M^2."""

    def spread(tail: float) -> float:
        length = mean_length(best_near(epsilon, float(scipy.special.ndtr(-tail))), tail)
        return (dimension + tail * length) / length**2

    grid = np.linspace(-1.0, 7.0, 161)
    start = float(grid[np.argmin([spread(float(tail)) for tail in grid])])
    from scipy import optimize  # slow to load

    return float(optimize.minimize_scalar(spread, bounds=(start - 0.05, start + 0.05), method="bounded").x)


def best_near(epsilon: float, mass: float) -> float:
    """p with p (1 - Q) / ((1 - p) Q) = e^epsilon."""
    return 1.0 / (1.0 + math.exp(-epsilon) * (1.0 - mass) / mass)


# A window that slides with the truth: values in it are likelier than those outside, by e^epsilon.
#
# Positions run over [-w/2, 1 + w/2]; the window of x in [0, 1] is [x - w/2, x + w/2]. A position falls into the window
# with probability `near`, uniformly, else outside it, uniformly: outside lies a length of 1 wherever the window is. The
# ratio of the two densities is near / (w (1 - near)) = e^epsilon.
#
# The square wave [Li et al. 2020] and the piecewise mechanism [Wang et al. 2019] are both such windows. They differ in
# the width, and in that the latter stretches positions about 1/2 so that their mean is x.
#
# *On a grid* of R = `steps` steps to the unit the window has W = w R cells and starts at the cell s = round(x R), so
# that of the R + W cells exactly R lie outside whatever s is. A word below T chooses the window, and the cell is a
# uniform integer: `noise.odds` says what that proves, and no floating-point number decides anything.


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
        u, x = self._positions(z, x)
        half, far = 0.5 * self.width, 1.0 - self.near
        inside = np.clip((u - x + half) / self.width, 0.0, 1.0)
        outside = np.clip(u + half, 0.0, x) + np.clip(u - x - half, 0.0, 1.0 - x)
        return floats(self.near * inside + far * outside)

    def pdf(self, z: ArrayLike, x: ArrayLike) -> Floats:
        u, x = self._positions(z, x)
        half = 0.5 * self.width
        height = np.where(np.abs(u - x) <= half, self.near / self.width, 1.0 - self.near)
        inside = (u >= -half) & (u <= 1.0 + half)
        return floats(np.where(inside, height, 0.0) / (self.stretch * self.range))

    def span(self, x: ArrayLike, tail: float = 0.0) -> tuple[Floats, Floats]:
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
        named = {"near": self.near, "width": self.width, "stretch": self.stretch}
        return {"law": "window", **named, "low": self.low, "range": self.range}
