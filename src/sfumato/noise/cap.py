"""A normal vector that lies in the truth's cap more often than by chance: PrivUnitG, in integers [Asi et al. 2022].

x has D coordinates. In the cap of a direction s, <x, s> >= t |s|, which has mass Q = P(N >= t), x is a standard normal
vector conditioned on the cap with probability p, else conditioned on the rest. The density is that of a normal vector
times p / Q or (1 - p) / (1 - Q): their ratio is e^epsilon. E(x) = M s / |s|, M = pdf(t) (p / Q - (1 - p) / (1 - Q)).

*On a grid* x = g / 2^k with integers g of the discrete normal law P(g) proportional to exp(-|g|^2 / (2 4^k)), the
direction s and the threshold tau are integers, and all is decided in integers:

- normals by rejection from the discrete Laplace law of scale 2^k (Canonne, Kamath & Steinke 2020): n is kept with
  probability exp(-(|n| - 2^k)^2 / (2 4^k)), that is if a geometric variable of scale 2^(2k+1) is at least as large;
- the rest by drawing until it is hit; a cap of small mass by drawing g + s instead, for P(g) / P(g - s) is
  exp(-<g, s> / 4^k) up to a constant: what is in the cap is kept with probability exp(-(<g, s> - tau) / 4^k).

The cap's mass then depends a little on s: `cap_masses` bounds it for all directions.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize
from scipy.special import ndtr, ndtri

from sfumato.core.array_types import Codes, Matrix
from sfumato.noise.grid import Shape, discrete_laplace, exact_bernoulli

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
    return float(ndtr(-tail)) < RARE


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
    mass, u = float(ndtr(-tail)), rng.random(len(v))
    inside = u < near
    share = np.where(inside, mass * u / near, mass + (1.0 - mass) * (u - near) / (1.0 - near))
    along = -ndtri(np.clip(share, 1e-300, 1.0 - 1e-16))
    x += (along - np.einsum("ij,ij->i", x, v))[:, None] * v
    return x


def cap_masses(tail: float, dimension: int, bits: int) -> tuple[float, float]:
    """Least and largest mass of a cap over all directions.

    A rounded normal coordinate is within half a step of a normal one, so <g, s> is within |s|_1 / 2, which is at most
    sqrt(D) |s| / 2; the threshold is rounded up by less than one. The discrete law differs from the rounded one by a
    factor of 1 + `ROUNDED` a coordinate within 12 standard deviations, beyond which there is less than 1e-32.
    """
    if not bits:
        return (float(ndtr(-tail)),) * 2
    off = (0.5 * math.sqrt(dimension) + 2.0) / 2.0**bits + 1e-12 * abs(tail)
    rounded = ROUNDED * max(1.0, 4.0 ** (BITS - bits))
    factor = math.exp(dimension * rounded)
    far = dimension * 1e-32
    least = float(ndtr(-tail - off)) / factor - far
    most = float(ndtr(-tail + off)) * factor + far
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
    mass = float(ndtr(-tail))
    return _pdf(tail) * (near / mass - (1.0 - near) / (1.0 - mass))


def best_tail(epsilon: float, dimension: int) -> float:
    """The threshold that makes x / M vary least: E|x|^2 / M^2 = (D + t M) / M^2."""

    def spread(tail: float) -> float:
        length = mean_length(best_near(epsilon, float(ndtr(-tail))), tail)
        return (dimension + tail * length) / length**2

    grid = np.linspace(-1.0, 7.0, 161)
    start = float(grid[np.argmin([spread(float(tail)) for tail in grid])])
    return float(optimize.minimize_scalar(spread, bounds=(start - 0.05, start + 0.05), method="bounded").x)


def best_near(epsilon: float, mass: float) -> float:
    """p with p (1 - Q) / ((1 - p) Q) = e^epsilon."""
    return 1.0 / (1.0 + math.exp(-epsilon) * (1.0 - mass) / mass)


def _pdf(t: float) -> float:
    return math.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi)
