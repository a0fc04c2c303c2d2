"""The noise laws: densities, moments and the amplification they allow, in closed form.

`scale` is b for Laplace, the standard deviation for normal and uniform, the scale parameter for Student's t, and the
half-width for Epanechnikov, triangular and biweight, which serve as kernels: such noise never exceeds it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy  # its parts are loaded when one is first used
from numpy.typing import ArrayLike

from sfumato.core.array_types import Floats
from sfumato.core.errors import UsageError
from sfumato.core.records import Nested
from sfumato.noise.grid import Shape, random_words
from sfumato.noise.law import Law, ScaleLaw, check_finite, check_width, floats, is_file, is_own, own_law, settle

# Laplace variables in floating point, by inversion: one random word each, and steps that run through whole arrays.


_TILE = 1 << 16
"""Draws that are made at a time: few enough for the cache, and so many that threads seldom wait for the interpreter."""


def standard_laplace(rng: np.random.Generator, shape: Shape) -> Floats:
    """Draws of density exp(-|z|) / 2: the logarithm of a uniform variable, with a random sign.

    A word with its last bit set is an odd number of 64 bits with a sign, and -2^63 < w < 2^63. Its size over 2^63 is
    uniform on the middles of 2^62 equal cells of (0, 1), never 0, and its sign is independent of that. Values up to
    63 log 2 = 43.7 occur; a Laplace variable exceeds that once in 2^63.
    """
    noise = np.empty(shape)
    flat = noise.reshape(-1)
    size = np.empty(min(_TILE, flat.size))
    for start in range(0, flat.size, _TILE):
        signed = flat[start : start + _TILE]
        part = size[: signed.size]
        words = random_words(rng, signed.size).view(np.int64)
        words |= 1
        np.copyto(signed, words)
        np.abs(signed, out=part)
        part *= 2.0**-63
        np.log(part, out=part)
        np.copysign(part, signed, out=signed)
    return noise


@dataclass(frozen=True)
class Laplace(ScaleLaw):
    """f(z) = exp(-|z| / b) / (2 b); amplification exp(width / b) [principal-laplace, Eq. 7]."""

    name: ClassVar[str] = "laplace"
    second, fourth = (2.0, 1.0), (24.0, 1.0)

    def logpdf(self, z: ArrayLike) -> Floats:
        return floats(-np.abs(floats(z)) / self.scale - math.log(2.0 * self.scale))

    def cdf(self, z: ArrayLike) -> Floats:
        u = floats(z) / self.scale
        half = 0.5 * np.exp(-np.abs(u))
        return floats(np.where(u < 0, half, 1.0 - half))

    def ppf(self, p: ArrayLike) -> Floats:
        q = floats(p)
        with np.errstate(divide="ignore", invalid="ignore"):
            return floats(self.scale * np.where(q < 0.5, np.log(2.0 * q), -np.log(2.0 * (1.0 - q))))

    def log_amplification(self, width: float = 1.0) -> float:
        return check_width(width) / self.scale

    @property
    def steepness(self) -> float:
        return 1.0 / self.scale

    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        noise = standard_laplace(rng, shape)
        noise *= self.scale
        return noise


@dataclass(frozen=True)
class Normal(ScaleLaw):
    """f(z) = exp(-z^2 / (2 s^2)) / (s sqrt(2 pi)); f(z) / f(z - w) = exp((w^2 - 2 z w) / (2 s^2)) is unbounded."""

    name: ClassVar[str] = "normal"
    second, fourth = (1.0, 1.0), (3.0, 1.0)

    def logpdf(self, z: ArrayLike) -> Floats:
        with np.errstate(over="ignore"):  # far away the square is infinite and the density 0, as it should be
            return floats(-0.5 * (floats(z) / self.scale) ** 2 - math.log(self.scale * math.sqrt(2.0 * math.pi)))

    def cdf(self, z: ArrayLike) -> Floats:
        return floats(scipy.special.ndtr(floats(z) / self.scale))

    def ppf(self, p: ArrayLike) -> Floats:
        return floats(self.scale * scipy.special.ndtri(floats(p)))

    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        return floats(self.scale * rng.standard_normal(shape))


@dataclass(frozen=True)
class Uniform(Law):
    """f(z) = 1 / (high - low) on [low, high]; given by its standard deviation it is centred, high = sqrt(3) scale."""

    scale: float | None = None
    low: float | None = None
    high: float | None = None
    name: ClassVar[str] = "uniform"

    def __post_init__(self) -> None:
        if self.low is None and self.high is None:
            scale = check_finite(self, "scale", self.scale, positive=True)
            settle(self, scale=scale, low=-math.sqrt(3.0) * scale, high=math.sqrt(3.0) * scale)
            return
        low, high = check_finite(self, "low", self.low), check_finite(self, "high", self.high)
        if not low < high:
            raise UsageError(f"The 'high' parameter of uniform must be above low = {low}. Got {high} instead.")
        scale = (high - low) / (2.0 * math.sqrt(3.0))
        if self.scale is not None and not math.isclose(
            scale, check_finite(self, "scale", self.scale, positive=True), rel_tol=1e-9
        ):
            raise UsageError(
                "The 'scale' parameter of uniform must be left out if low and high are given. "
                f"Got {self.scale} instead."
            )
        settle(self, scale=self.scale or scale, low=low, high=high)  # as a card stated it, to the last digit

    def logpdf(self, z: ArrayLike) -> Floats:
        low, high = self.support
        x = floats(z)
        inside = np.where((x >= low) & (x <= high), -math.log(high - low), -math.inf)
        return floats(np.where(np.isnan(x), math.nan, inside))

    def cdf(self, z: ArrayLike) -> Floats:
        low, high = self.support
        return floats(np.clip((floats(z) - low) / (high - low), 0.0, 1.0))

    def ppf(self, p: ArrayLike) -> Floats:
        low, high = self.support
        q = floats(p)
        return floats(np.where((q >= 0) & (q <= 1), low + q * (high - low), math.nan))

    @property
    def mean(self) -> float:
        low, high = self.support
        return 0.5 * (low + high)

    @property
    def variance(self) -> float:
        low, high = self.support
        return (high - low) ** 2 / 12.0

    @property
    def fourth_moment(self) -> float:
        low, high = self.support
        return (high - low) ** 4 / 80.0

    @property
    def support(self) -> tuple[float, float]:
        assert self.low is not None  # set by __post_init__
        assert self.high is not None
        return self.low, self.high

    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        low, high = self.support
        drawn = rng.random(shape)
        drawn *= high - low
        drawn += low
        return drawn


@dataclass(frozen=True)
class StudentT(ScaleLaw):
    r"""f(z) proportional to (1 + z^2 / (s^2 v))^(-(v+1)/2), v = `df` degrees of freedom (1 is Cauchy's law).

    *Amplification.* With a = s sqrt(v), u = z / a and t = w / a the ratio f(z) / f(z - w) is h^((v+1)/2),
    h = (1 + (u - t)^2) / (1 + u^2): a quotient of two quadratic forms in (u, 1). Its maximum over u is the larger
    eigenvalue of [[1, -t], [-t, 1 + t^2]], which has determinant 1 and trace 2 + t^2:
    lambda = ((t + sqrt(t^2 + 4)) / 2)^2 = exp(2 asinh(t / 2)). It grows with t, so the supremum over |delta| <= w
    is at delta = w: exp((v + 1) asinh(w / (2 s sqrt(v)))).
    """

    df: float = 3.0
    name: ClassVar[str] = "student-t"

    def __post_init__(self) -> None:
        super().__post_init__()
        settle(self, df=check_finite(self, "df", self.df, positive=True))

    def logpdf(self, z: ArrayLike) -> Floats:
        v = self.df
        constant = math.lgamma((v + 1) / 2) - math.lgamma(v / 2) - 0.5 * math.log(v * math.pi) - math.log(self.scale)
        # log(1 + r^2) without squaring: hypot cannot overflow where r^2 would; log1p keeps small r exact
        r = np.abs(floats(z)) / (self.scale * math.sqrt(v))
        log = np.where(r < 1e8, np.log1p(np.minimum(r, 1e8) ** 2), 2.0 * np.log(np.maximum(r, 1.0)))
        return floats(constant - 0.5 * (v + 1) * log)

    def cdf(self, z: ArrayLike) -> Floats:
        return floats(scipy.special.stdtr(self.df, floats(z) / self.scale))

    def ppf(self, p: ArrayLike) -> Floats:
        return floats(self.scale * scipy.special.stdtrit(self.df, floats(p)))

    @property
    def variance(self) -> float:
        return self.scale**2 * self.df / (self.df - 2.0) if self.df > 2 else math.inf

    @property
    def fourth_moment(self) -> float:
        v = self.df
        return 3.0 * self.scale**4 * v**2 / ((v - 2.0) * (v - 4.0)) if v > 4 else math.inf

    def log_amplification(self, width: float = 1.0) -> float:
        return (self.df + 1.0) * math.asinh(check_width(width) / (2.0 * self.scale * math.sqrt(self.df)))

    @property
    def steepness(self) -> float:
        """(v + 1) u / (a (1 + u^2)) is largest at u = 1."""
        return (self.df + 1.0) / (2.0 * self.scale * math.sqrt(self.df))

    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        return floats(self.scale * rng.standard_t(self.df, shape))


# Laws of noise that can never exceed its half-width.


TILE = 1 << 14
"""Values drawn at a time: three uniforms for each of them stay in a core's cache."""


@dataclass(frozen=True)
class BoundedKernel(ScaleLaw):
    """c (1 - |z/h|^a)^b / h on [-h, h], h = `scale`; a child names c, a and b."""

    height: ClassVar[float]
    inner: ClassVar[int]
    outer: ClassVar[int]

    def logpdf(self, z: ArrayLike) -> Floats:
        u = np.abs(floats(z)) / self.scale
        inside = np.where(u < 1.0, u, 0.0)
        log = self.outer * np.log1p(-(inside**self.inner)) + math.log(self.height / self.scale)
        return floats(np.where(np.isnan(u), math.nan, np.where(u < 1.0, log, -math.inf)))

    @property
    def support(self) -> tuple[float, float]:
        return -self.scale, self.scale


@dataclass(frozen=True)
class Epanechnikov(BoundedKernel):
    """f(z) = 3 (1 - (z/h)^2) / (4 h) on [-h, h], h = `scale` [kernel-resampling, Eq. 11].

    It is the law of the median of three uniform variables on [-h, h]: the middle one of three has density
    6 F (1 - F) / (2 h) with F = (1 + z/h) / 2. The distribution function (2 + 3u - u^3) / 4, u = z/h, is inverted by
    u = 2 sin(asin(2p - 1) / 3).
    """

    name: ClassVar[str] = "epanechnikov"
    second, fourth = (1.0, 5.0), (3.0, 35.0)
    height, inner, outer = 0.75, 2, 1

    def cdf(self, z: ArrayLike) -> Floats:
        u = np.clip(floats(z) / self.scale, -1.0, 1.0)
        return floats((2.0 + u * (3.0 - u**2)) / 4.0)

    def ppf(self, p: ArrayLike) -> Floats:
        with np.errstate(invalid="ignore"):
            return floats(self.scale * 2.0 * np.sin(np.arcsin(2.0 * floats(p) - 1.0) / 3.0))

    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        noise = np.empty(shape)
        flat = noise.reshape(-1)
        for start in range(0, flat.size, TILE):
            part = flat[start : start + TILE]
            first, second, third = rng.random((3, part.size))
            np.minimum(first, second, out=part)
            np.maximum(first, second, out=first)
            np.minimum(first, third, out=first)
            np.maximum(first, part, out=part)  # the median of the three
        noise -= 0.5
        noise *= 2.0 * self.scale
        return noise


@dataclass(frozen=True)
class Triangular(BoundedKernel):
    """f(z) = (1 - |z/h|) / h on [-h, h], h = `scale`: the sum of two uniform variables on [-h/2, h/2]."""

    name: ClassVar[str] = "triangular"
    second, fourth = (1.0, 6.0), (1.0, 15.0)
    height, inner, outer = 1.0, 1, 1

    def cdf(self, z: ArrayLike) -> Floats:
        u = np.clip(floats(z) / self.scale, -1.0, 1.0)
        tail = 0.5 * (1.0 - np.abs(u)) ** 2
        return floats(np.where(u < 0, tail, 1.0 - tail))

    def ppf(self, p: ArrayLike) -> Floats:
        q = floats(p)
        with np.errstate(invalid="ignore"):
            low, high = np.sqrt(2.0 * q) - 1.0, 1.0 - np.sqrt(2.0 * (1.0 - q))
        return floats(np.where((q >= 0) & (q <= 1), self.scale * np.where(q < 0.5, low, high), math.nan))

    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        noise = rng.random(shape)
        noise += rng.random(shape)
        noise -= 1.0
        noise *= self.scale
        return noise


@dataclass(frozen=True)
class Biweight(BoundedKernel):
    """f(z) = 15 (1 - (z/h)^2)^2 / (16 h) on [-h, h], h = `scale`: a Beta(3, 3) variable stretched over [-h, h]."""

    name: ClassVar[str] = "biweight"
    second, fourth = (1.0, 7.0), (1.0, 21.0)
    height, inner, outer = 0.9375, 2, 2

    def cdf(self, z: ArrayLike) -> Floats:
        u = np.clip(floats(z) / self.scale, -1.0, 1.0)
        return floats(scipy.special.betainc(3.0, 3.0, (1.0 + u) / 2.0))

    def ppf(self, p: ArrayLike) -> Floats:
        return floats(self.scale * (2.0 * scipy.special.betaincinv(3.0, 3.0, floats(p)) - 1.0))

    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        return floats(self.scale * (2.0 * rng.beta(3.0, 3.0, shape) - 1.0))


# Noise that is the sum of independent noises.


_STEPS = 1 << 15
_TAIL = 1e-7
_FARTHEST = 1000.0
"""How far the grid of a sum goes into a tail, in distances of the quartiles: steps to the end of a heavy one would be
wider than the body. What lies beyond is counted at the end of the grid."""


@dataclass(frozen=True)
class SumLaw(Law):
    """Noise that is the sum of independent noises, on a fine grid: cell probabilities of each, convolved.

    The grid is made when a density is first asked for: many have only to draw.
    """

    terms: tuple[Law, ...]
    steps: int = _STEPS
    name: ClassVar[str] = "sum"

    @cached_property
    def _grid(self) -> tuple[Floats, Floats]:
        """Edges of the cells, and P(Z <= edge)."""
        from scipy.signal import fftconvolve  # takes a second to load, and few ask for a density

        ends = []  # where a law has all but its far tails
        for law in self.terms:
            middle, half = float(law.ppf(0.5)), _FARTHEST * float(law.ppf(0.75) - law.ppf(0.25))
            low = max(law.support[0], float(law.ppf(_TAIL)), middle - half)
            ends.append((low, min(law.support[1], float(law.ppf(1 - _TAIL)), middle + half)))
        step = sum(high - low for low, high in ends) / self.steps
        mass, start = np.ones(1), 0.0
        for term, (low, high) in zip(self.terms, ends, strict=True):
            count = max(1, int(np.ceil((high - low) / step)))
            cells = low + step * (np.arange(count + 1) - 0.5)  # cells about the points low + k step
            cells[0], cells[-1] = -np.inf, np.inf
            mass = fftconvolve(mass, np.diff(term.cdf(cells)))
            start += low
        mass = np.maximum(mass, 0.0)
        edges: Floats = start + step * (np.arange(len(mass) + 1.0) - 0.5)
        return edges, np.concatenate([[0.0], np.cumsum(mass) / mass.sum()])

    def logpdf(self, z: ArrayLike) -> Floats:
        edges, cumulative = self._grid
        density = np.diff(cumulative) / np.diff(edges)
        middles = 0.5 * (edges[1:] + edges[:-1])
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.interp(floats(z), middles, density, left=0.0, right=0.0)))

    def cdf(self, z: ArrayLike) -> Floats:
        return np.asarray(np.interp(floats(z), *self._grid))

    def ppf(self, p: ArrayLike) -> Floats:
        return np.asarray(np.interp(floats(p), *self._grid[::-1]))

    @property
    def mean(self) -> float:
        return sum(term.mean for term in self.terms)

    @property
    def variance(self) -> float:
        return sum(term.variance for term in self.terms)

    @property
    def fourth_moment(self) -> float:
        """Of independent summands: the sum of fourth moments and six times the products of variances."""
        v = [term.variance for term in self.terms]
        pairs = sum(v[i] * v[j] for i in range(len(v)) for j in range(i))
        return sum(term.fourth_moment for term in self.terms) + 6.0 * pairs

    @property
    def support(self) -> tuple[float, float]:
        return sum(term.support[0] for term in self.terms), sum(term.support[1] for term in self.terms)

    def log_amplification(self, width: float = 1.0) -> float:
        """At most that of any one summand: the others do not depend on the value."""
        return min(term.log_amplification(width) for term in self.terms)

    def sample(self, rng: np.random.Generator, shape: Any) -> Floats:
        return np.asarray(sum(term.sample(rng, shape) for term in self.terms))

    def scaled(self, factor: float) -> Self:
        return type(self)(tuple(term.scaled(factor) for term in self.terms), self.steps)

    def to_dict(self) -> dict[str, Any]:
        return {"law": self.name, "terms": [term.to_dict() for term in self.terms]}


LAWS: dict[str, type[Law]] = {
    law.name: law for law in (Laplace, Normal, Uniform, StudentT, Epanechnikov, Triangular, Biweight)
}


def make_law(
    name: str, scale: float | None = None, low: float | None = None, high: float | None = None, df: float | None = None
) -> Law:
    """The law called `name`; parameters that it does not have must be left out.

    A law of one's own, such as ``gamma(2, scale=0.1)``, has its parameters in its text; `scale` then stretches it.
    """
    if is_own(name):
        if low is not None or high is not None or df is not None:
            raise UsageError("A law of your own has its parameters in its text. Leave low, high and df out.")
        return own_law(name) if scale is None else own_law(name).scaled(float(scale))
    if name not in LAWS:
        raise UsageError(f"The 'law' parameter must be one of {', '.join(LAWS)}. Got {name!r} instead.")
    law = LAWS[name]
    stated = {"scale": scale, "low": low, "high": high, "df": df}
    given = {key: value for key, value in stated.items() if value is not None}
    for key in given:
        if key not in law.__dataclass_fields__:
            raise UsageError(f"The {key!r} parameter of {law.name} must be left out. Got {given[key]!r} instead.")
    if "scale" not in given and law is not Uniform:
        return law(scale=None)  # type: ignore[call-arg]  # the law's own check says what it must be
    return law(**given)


def law_from_dict(stated: Mapping[str, Any]) -> Law:
    parameters = {key: value for key, value in stated.items() if key != "law"}
    unknown = set(parameters) - {"scale", "low", "high", "df"}
    if unknown:
        raise UsageError(f"A law has no parameter {', '.join(map(repr, sorted(unknown)))}: use scale, low, high, df.")
    if None in parameters.values():
        raise UsageError("A stated law gives every parameter that it has.")
    name = str(stated.get("law"))
    if is_file(name):  # a card may be a stranger's, and names no file of whoever reads it
        raise UsageError("A stated law has its densities beside it, not in a file.")
    return make_law(name, **parameters)


A_LAW = Nested(law_from_dict)
"""A law in a record."""
