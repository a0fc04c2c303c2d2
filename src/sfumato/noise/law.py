"""What every law of additive noise can say about itself, and the checks of its parameters."""

from __future__ import annotations

import csv
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.core.array_types import Floats
from sfumato.core.errors import UsageError, wrong_parameter
from sfumato.noise.grid import Shape

_LENGTHS = ("scale", "low", "high")
"""Parameters that are measured in the units of the noise; the others (degrees of freedom) are pure numbers."""


@dataclass(frozen=True)
class Law(ABC):
    """A law of additive noise."""

    name: ClassVar[str]

    @abstractmethod
    def logpdf(self, z: ArrayLike) -> Floats:
        """log f(z)."""

    def pdf(self, z: ArrayLike) -> Floats:
        """f(z)."""
        return floats(np.exp(self.logpdf(z)))

    @abstractmethod
    def cdf(self, z: ArrayLike) -> Floats:
        """P(Z <= z)."""

    @abstractmethod
    def ppf(self, p: ArrayLike) -> Floats:
        """The z with P(Z <= z) = p; NaN outside [0, 1]."""

    @property
    def mean(self) -> float:
        """E Z, which is the centre of symmetry."""
        return 0.0

    @property
    def is_symmetric(self) -> bool:
        """Whether it is symmetric about its mean."""
        return True

    @property
    @abstractmethod
    def variance(self) -> float:
        """E (Z - mean)^2; infinite where it does not exist."""

    @property
    @abstractmethod
    def fourth_moment(self) -> float:
        """E (Z - mean)^4; infinite where it does not exist."""

    @property
    def support(self) -> tuple[float, float]:
        """The closed interval outside of which the density is 0."""
        return -math.inf, math.inf

    def log_amplification(self, width: float = 1.0) -> float:
        """sup of log f(z) - log f(z - delta), |delta| <= width: the epsilon of a value that can move by `width`.

        Infinite where no ratio is bounded, as where a law ends and the other goes on.
        """
        return math.inf if check_width(width) > 0 else 0.0

    @property
    def steepness(self) -> float:
        """sup of |d log f(z) / dz|: no move by `width` changes the log-likelihood by more than so many times it."""
        return math.inf

    @abstractmethod
    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        """Draw floating-point noise: quick, for experiments; a formal guarantee needs `discrete_laplace`."""

    def scaled(self, factor: float) -> Self:
        """The law of `factor` times this noise: the same noise in other units."""
        changes = {
            name: factor * value for name, value in asdict(self).items() if name in _LENGTHS and value is not None
        }
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """The law as a card states it."""
        return {"law": self.name, **asdict(self)}


@dataclass(frozen=True)
class ScaleLaw(Law):
    """A law whose only parameter is its scale.

    A child gives its second and fourth moment at scale 1, as numerator and denominator.
    """

    second: ClassVar[tuple[float, float]]
    fourth: ClassVar[tuple[float, float]]
    scale: float

    def __post_init__(self) -> None:
        settle(self, scale=check_finite(self, "scale", self.scale, positive=True))

    @property
    def variance(self) -> float:
        return self.second[0] * self.scale**2 / self.second[1]

    @property
    def fourth_moment(self) -> float:
        return self.fourth[0] * self.scale**4 / self.fourth[1]


FURTHEST = 100.0
"""Distances of a law's quartile from its middle. Laplace noise needs 65 of them for fifty billion cells."""


def tail(law: Law, chance: float) -> tuple[float, float, bool]:
    """The interval that noise leaves with this probability, and whether it is short enough to hold values against.

    Student's t has a polynomial tail: honest values lie thousands of scales out, and no interval tells them from forged
    ones. Laws are symmetric about their mean, and their lower tail is the one that doubles can tell.
    """
    if not law.is_symmetric:
        low, high = law.support
        if math.isfinite(low) and math.isfinite(high):
            return low, high, True
        rare = max(chance / 2, 1e-14)
        return max(low, float(law.ppf(rare))), min(high, float(law.ppf(1 - rare))), False
    least = max(law.support[0], float(law.ppf(chance / 2))) - law.mean
    furthest = FURTHEST * (float(law.ppf(0.25)) - law.mean)
    half = -max(least, furthest)
    return law.mean - half, law.mean + half, least >= furthest


def floats(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)


def settle(law: Law, **values: float) -> None:
    for key, value in values.items():
        object.__setattr__(law, key, value)  # the only door into a frozen dataclass


def check_finite(law: Law, parameter: str, value: Any, *, positive: bool = False) -> float:
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not real or not math.isfinite(value) or (positive and not value > 0):
        raise wrong_parameter(parameter, law.name, f"a {'positive' if positive else 'finite'} number", value)
    return float(value)


def check_width(width: float) -> float:
    if not width >= 0:
        raise wrong_parameter("width", "amplification", "a non-negative number", width)
    return float(width)


# Noise laws of one's own: a distribution of scipy.stats by name, or a table of densities; a card states them as text.
#
#     logistic(scale=0.1)           gamma(2, scale=0.1)              scipy's name, shapes and loc, scale
#     table(-1: 0, 0: 1, 1: 0)      table:noise.csv                  values and densities, joined by lines
#
# Nothing is proved of such a law: its amplification counts as infinite (`sfumato law` looks at it).


MOST_POINTS = 1_000
FILE = "table:"
_CALL = re.compile(r"\s*([a-z_][a-z0-9_]*)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)


def is_own(name: Any) -> bool:
    """Whether this is the text of a law of one's own, and no name of ours."""
    return isinstance(name, str) and ("(" in name or is_file(name))


def is_file(name: str) -> bool:
    """Whether the densities are to be read from a file of the user's."""
    return name.startswith(FILE)


@lru_cache(maxsize=128)
def own_law(text: str) -> OwnLaw:
    if is_file(text):
        return TableLaw.read(Path(text.removeprefix(FILE).strip()))
    found = _CALL.fullmatch(text)
    if found is None:
        raise UsageError(f"The law {text[:60]!r} cannot be read. Write it as gamma(2, scale=0.1) or table:FILE.csv.")
    if found[1] == "table":
        pairs = [pair.split(":") for pair in found[2].split(",")]
        if any(len(pair) != 2 for pair in pairs):
            raise UsageError("A table of densities is written as table(VALUE: DENSITY, VALUE: DENSITY, ...).")
        return TableLaw.of([(_number(value), _number(density)) for value, density in pairs])
    return ScipyLaw.of(found[1], [part for part in found[2].split(",") if part.strip()])


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise UsageError(f"A law of your own takes finite numbers. Got {text.strip()[:40]!r}.")
    return found


class OwnLaw(Law):
    """A law that is stated as text. It need not be symmetric about anything."""

    is_symmetric = False

    @property
    @abstractmethod
    def text(self) -> str:
        """As a card states it."""

    @property
    def name(self) -> str:  # type: ignore[override]  # each has its own
        return self.text

    def to_dict(self) -> dict[str, Any]:
        return {"law": self.text}


@dataclass(frozen=True)
class ScipyLaw(OwnLaw):
    """A continuous distribution of scipy.stats whose distribution function and quantiles have closed forms."""

    distribution: str
    parameters: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, name: str, parts: list[str]) -> ScipyLaw:
        from scipy import stats

        found = scipy_distribution(name)
        if found is None or type(found[0])._ppf is stats.rv_continuous._ppf:
            raise UsageError(f"scipy.stats has no continuous distribution {name[:40]!r} with quantiles in closed form.")
        shapes = found[1]
        names = [*shapes, "loc", "scale"]
        given = _by_name(name, names, parts)
        if lacking := [shape for shape in shapes if shape not in given]:
            raise UsageError(f"{name} needs {lacking[0]!r}: for example {name}({lacking[0]}=2, scale=0.1).")
        stated = tuple((key, given.get(key, 1.0 if key == "scale" else 0.0)) for key in names)
        law = cls(name, stated)
        with np.errstate(all="ignore"):
            middle = law._frozen.ppf([0.25, 0.75])
        if not (np.isfinite(middle).all() and middle[0] < middle[1]):
            raise UsageError(f"{name} does not exist with these parameters.")
        return law

    @property
    def text(self) -> str:
        return f"{self.distribution}({', '.join(f'{key}={value!r}' for key, value in self.parameters)})"

    @cached_property
    def _frozen(self) -> Any:
        from scipy import stats

        return getattr(stats, self.distribution)(**dict(self.parameters))

    def __getstate__(self) -> dict[str, Any]:
        """Without scipy's own object, which is made anew from these two."""
        return {"distribution": self.distribution, "parameters": self.parameters}

    def logpdf(self, z: ArrayLike) -> Floats:
        with np.errstate(all="ignore"):
            return floats(self._frozen.logpdf(floats(z)))

    def cdf(self, z: ArrayLike) -> Floats:
        return floats(self._frozen.cdf(floats(z)))

    def ppf(self, p: ArrayLike) -> Floats:
        return floats(self._frozen.ppf(floats(p)))

    @property
    def mean(self) -> float:
        return float(self._frozen.mean())

    @property
    def variance(self) -> float:
        found = float(self._frozen.var())
        return found if math.isfinite(found) else math.inf

    @property
    def fourth_moment(self) -> float:
        found = (float(self._frozen.stats(moments="k")) + 3.0) * self.variance**2
        return found if math.isfinite(found) else math.inf

    @property
    def support(self) -> tuple[float, float]:
        low, high = self._frozen.support()
        return float(low), float(high)

    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        return floats(self._frozen.ppf(rng.random(shape)))

    def scaled(self, factor: float) -> Self:
        changed = {key: value * factor for key, value in self.parameters if key in ("loc", "scale")}
        return type(self)(self.distribution, tuple((key, changed.get(key, value)) for key, value in self.parameters))


def scipy_distribution(name: str) -> tuple[Any, tuple[str, ...]] | None:
    """The continuous distribution of scipy.stats that has this name, and the names of its shapes."""
    from scipy import stats

    found = getattr(stats, name, None)
    if not isinstance(found, stats.rv_continuous):
        return None
    return found, tuple(one.strip() for one in (found.shapes or "").split(",") if one.strip())


def _by_name(law: str, names: Sequence[str], parts: Sequence[str]) -> dict[str, float]:
    """What was given in the order of the names, or as name=number; each once."""
    given: dict[str, float] = {}
    for place, part in enumerate(parts):
        key, sign, value = part.partition("=")
        key = key.strip() if sign else names[place] if place < len(names) else ""
        if key not in names or key in given:
            raise UsageError(f"{law} takes {', '.join(names)}, each once. Got {part.strip()[:40]!r}.")
        given[key] = _number(value if sign else part)
    return given


@dataclass(frozen=True)
class TableLaw(OwnLaw):
    values: tuple[float, ...]
    densities: tuple[float, ...]

    @classmethod
    def of(cls, pairs: list[tuple[float, float]]) -> TableLaw:
        if not 2 <= len(pairs) <= MOST_POINTS:
            raise UsageError(f"A table of densities has 2 to {MOST_POINTS:,} lines. Got {len(pairs):,}.")
        x, f = np.array(pairs).T
        if not (np.diff(x) > 0).all() or f.min() < 0 or not f.max() > 0:
            raise UsageError("A table of densities needs rising values, and densities of at least 0, not all 0.")
        total = float(np.sum(0.5 * (f[1:] + f[:-1]) * np.diff(x)))
        if abs(total - 1.0) > 1e-9:  # what a card states stays as it is, to the last digit
            f = f / total
        return cls(tuple(x.tolist()), tuple(f.tolist()))

    @classmethod
    def read(cls, path: Path) -> TableLaw:
        """Two columns of a CSV file, with or without a header: values and densities."""
        try:
            lines = [line for line in csv.reader(path.read_text(encoding="utf-8-sig").splitlines()) if line]
        except (OSError, UnicodeDecodeError):
            raise UsageError(f"There is no table of densities {path}, or it cannot be read.") from None
        try:
            float(lines[0][0])
        except (IndexError, ValueError):  # a header
            lines = lines[1:]
        if any(len(line) < 2 for line in lines):
            raise UsageError(f"{path}: each line of a table of densities has a value and a density.")
        return cls.of([(_number(line[0]), _number(line[1])) for line in lines])

    @property
    def text(self) -> str:
        pairs = zip(self.values, self.densities, strict=True)
        return f"table({', '.join(f'{value!r}: {density!r}' for value, density in pairs)})"

    @property
    def _pieces(self) -> tuple[Floats, Floats, Floats, Floats]:
        """Values, densities, slopes between them, and P(Z <= value)."""
        x, f = np.array(self.values), np.array(self.densities)
        total = np.concatenate([[0.0], np.cumsum(0.5 * (f[1:] + f[:-1]) * np.diff(x))])
        return x, f, np.diff(f) / np.diff(x), total / total[-1]

    def logpdf(self, z: ArrayLike) -> Floats:
        with np.errstate(divide="ignore"):
            return floats(np.log(np.interp(floats(z), self.values, self.densities, left=0.0, right=0.0)))

    def cdf(self, z: ArrayLike) -> Floats:
        x, f, slope, total = self._pieces
        at = np.clip(floats(z), x[0], x[-1])
        piece = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(slope) - 1)
        t = at - x[piece]
        return floats(np.clip(total[piece] + f[piece] * t + 0.5 * slope[piece] * t**2, 0.0, 1.0))

    def ppf(self, p: ArrayLike) -> Floats:
        """t with f t + slope t^2 / 2 = what is left: 2 rest / (f + sqrt(f^2 + 2 slope rest))."""
        x, f, slope, total = self._pieces
        share = floats(p)
        piece = np.clip(np.searchsorted(total, share, side="right") - 1, 0, len(slope) - 1)
        rest = np.maximum(share - total[piece], 0.0)
        root = f[piece] + np.sqrt(np.maximum(f[piece] ** 2 + 2.0 * slope[piece] * rest, 0.0))
        t = np.divide(2.0 * rest, root, out=np.zeros_like(rest), where=root > 0)
        found = np.minimum(x[piece] + t, x[piece + 1])
        return floats(np.where((share >= 0) & (share <= 1), found, np.nan))

    def _moment(self, power: int, centre: float) -> float:
        """Three nodes a piece are exact up to the fifth degree, and a density is of the first."""
        x, _, _, _ = self._pieces
        nodes, weights = np.polynomial.legendre.leggauss(3)
        half = 0.5 * np.diff(x)[:, None]
        at = 0.5 * (x[1:] + x[:-1])[:, None] + half * nodes
        density = np.interp(at, self.values, self.densities)
        return float(np.sum(half * weights * density * (at - centre) ** power))

    @property
    def mean(self) -> float:
        return self._moment(1, 0.0)

    @property
    def variance(self) -> float:
        return self._moment(2, self.mean)

    @property
    def fourth_moment(self) -> float:
        return self._moment(4, self.mean)

    @property
    def support(self) -> tuple[float, float]:
        return self.values[0], self.values[-1]

    def sample(self, rng: np.random.Generator, shape: Shape) -> Floats:
        return self.ppf(rng.random(shape))

    def scaled(self, factor: float) -> Self:
        values = tuple(value * factor for value in self.values)
        return type(self)(values, tuple(density / factor for density in self.densities))
