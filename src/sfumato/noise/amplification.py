"""Numerical probes of a one-dimensional density: where it lives, what its tails, spikes and zeros do.

All work is done on log f. Where f itself underflows (log f below -690) nothing is concluded from a zero: the
logarithm of a density that was computed first and logged afterwards ends there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from sfumato.core.array_types import Flags, Floats
from sfumato.core.errors import UsageError, wrong_parameter
from sfumato.noise.law import Law

Trend: TypeAlias = Literal["settles", "grows", "unclear"]

UNDERFLOW = -690.0
_SMALLEST = -760.0  # below the logarithm of the smallest double, -745: such a value was not the log of a density
ROUNDING = 2.0**-50
_FINEST, _FARTHEST = -30, 60  # octaves around the centre that are looked at


@dataclass(frozen=True)
class Density:
    """log f with what is known of it: its support, a centre and a scale at which it varies: where a distribution can
    tell, its median and half the distance of the quartiles."""

    log: Callable[[Floats], Floats]
    support: tuple[float, float]
    centre: float
    scale: float


def open_density(source: Any, logpdf: Callable[[Any], Any] | None, width: float) -> Density | None:
    """A density from a law, a frozen scipy distribution or a callable; None where no positive value is found."""
    support = (-math.inf, math.inf)
    if logpdf is not None:
        log = _guarded(logpdf, logged=True)
    elif hasattr(source, "logpdf") and hasattr(source, "support"):
        log = _guarded(source.logpdf, logged=True)
        low, high = source.support if isinstance(source, Law) else source.support()
        support = float(low), float(high)
    elif callable(source) and not hasattr(source, "pmf"):
        log = _guarded(source, logged=False)
    else:
        raise UsageError(
            "The 'law' parameter of bounded_amplification must be a Law, a frozen continuous distribution of "
            f"scipy.stats or a density function. Got {type(source).__name__} instead."
        )
    if quantile := getattr(source, "ppf", None) or getattr(source, "icdf", None):
        low, middle, high = (float(quantile(p)) for p in (0.25, 0.5, 0.75))
        if math.isfinite(low) and math.isfinite(middle) and low < high < math.inf:
            return Density(log, support, middle, 0.5 * (high - low))
    place = _search(log, width)
    return None if place is None else Density(log, support, *place)


def _guarded(function: Callable[[Any], Any], *, logged: bool) -> Callable[[Floats], Floats]:
    def log(z: Floats) -> Floats:
        with np.errstate(all="ignore"):
            values = np.asarray(function(z), dtype=np.float64)
            return np.broadcast_to(values if logged else np.log(values), z.shape)

    return log


def _search(log: Callable[[Floats], Floats], width: float) -> tuple[float, float] | None:
    """The highest point of a wide logarithmic grid, and the distance at which log f has dropped by one."""
    centre, scale = 0.0, width
    for fineness in (32, *[4] * 8):  # find it, then close in: each round is some five times nearer
        z = centre + scale * _octaves(_FINEST, _FARTHEST, fineness, both=True)
        values = log(z)
        usable = np.isfinite(values)
        if not usable.any():
            return None
        best = int(np.argmax(np.where(usable, values, -np.inf)))
        centre = float(z[best])
        distance = scale * _octaves(_FINEST, _FARTHEST, 4, both=False)
        drop = values[best] - np.minimum(log(centre + distance), log(centre - distance))
        fallen = np.flatnonzero(~(drop < 1.0))
        scale = float(distance[fallen[0]]) if fallen.size else width
    return centre, scale


def _octaves(first: int, last: int, per_octave: int, *, both: bool) -> Floats:
    steps = 2.0 ** np.linspace(first, last, (last - first) * per_octave + 1)
    return np.concatenate([-steps[::-1], [0.0], steps]) if both else steps


@dataclass(frozen=True)
class Tail:
    """One tail: how far it was followed, how it ended, and what log f(z) - log f(z - delta) does in it."""

    end: Literal["open", "underflow", "zero", "undefined"]
    reach: float
    trend: Trend
    limit: float = math.nan
    floor: float = -math.inf  # values below it are not trusted: there the density has underflowed


def follow_tail(density: Density, side: int, width: float) -> Tail:
    """Follow the largest |log f(z) - log f(z - delta)|, |delta| <= width, outwards until numbers end.

    The reachable range is cut into 16 windows of equal ratio. With D the largest difference of a window, the
    increments of D over the last two quarters tell a limit from growth: D = c z^a has increments in the ratio R^a,
    R the ratio of a quarter; a > 0.05 grows, a < -0.2 (or no increment at all) settles, logarithmic growth (a = 0)
    stays unclear.
    """
    m, s = density.centre, density.scale
    distance = s * _octaves(0, _FARTHEST, 16, both=False)
    values = density.log(m + side * distance)
    broken = np.flatnonzero(~np.isfinite(values))
    end: Literal["open", "underflow", "zero", "undefined"] = "open"
    last, floor = distance.size, -math.inf
    if broken.size:
        last = int(broken[0])
        inside = float(distance[last - 1]) if last else 0.0
        edge, place = edge_value(density, m + side * inside, m + side * float(distance[last]))
        end = "underflow" if edge < UNDERFLOW else "zero" if values[last] == -np.inf else "undefined"
        if end in ("zero", "undefined"):
            return Tail(end, abs(place - m), "unclear")
        if edge > _SMALLEST:
            floor = UNDERFLOW
    reach = float(distance[last - 1])
    for _ in range(2):  # the second time over the range in which the first found good numbers
        z = m + side * s * (reach / s) ** np.linspace(0.0, 1.0, 16 * 24)
        differences, good = _differences(density, z, width, floor)
        if not good.any():
            return Tail(end, reach, "unclear")
        reach = abs(float(z[np.flatnonzero(good)[-1]]) - m)
    if reach < 4 * s:
        return Tail(end, reach, "unclear")
    heights = np.where(good, differences, -np.inf).reshape(16, 24).max(axis=1)
    trend, limit = _trend(heights, math.log(reach / s) / 4)
    if trend == "settles" and limit > -floor / 4:
        return Tail(end, reach, "unclear")  # the differences settle because the density ends in underflow
    return Tail(end, reach, trend, limit, floor)


def _differences(density: Density, z: Floats, width: float, floor: float) -> tuple[Floats, Flags]:
    """The largest |log f(z) - log f(z - delta)| at every z, and where rounding leaves it nine digits."""
    delta = width * np.array([-1.0, -0.75, -0.5, -0.25, 0.25, 0.5, 0.75, 1.0])[:, None]
    here, there = density.log(z), density.log(z + delta)
    usable = (here > floor) & (there > floor) & np.isfinite(there)
    differences = np.max(np.abs(np.where(usable, here - there, 0.0)), axis=0)
    error = ROUNDING * (np.abs(here) + np.abs(z) * differences / width)
    return differences, usable.any(axis=0) & (error <= 2e-10 * np.maximum(1.0, differences))


def edge_value(density: Density, inside: float, outside: float) -> tuple[float, float]:
    """log f just inside the place where it stops being finite, and that place, by bisection."""
    for _ in range(200):
        middle = 0.5 * (inside + outside)
        if middle in (inside, outside):
            break
        if np.isfinite(density.log(np.array([middle]))[0]):
            inside = middle
        else:
            outside = middle
    return float(density.log(np.array([inside]))[0]), inside


def _trend(heights: Floats, log_ratio: float) -> tuple[Trend, float]:
    """Whether a sequence of 16 windows settles or grows, and its limit."""
    before, middle, last = (float(np.max(part)) for part in (heights[6:8], heights[10:12], heights[14:16]))
    highest, first, second = float(heights.max()), middle - before, last - middle
    if not math.isfinite(first + second):
        return "unclear", math.nan
    if second <= 1e-8 * max(1.0, highest):
        return "settles", highest
    if first <= 1e-8 * max(1.0, middle):
        return "unclear", math.nan
    ratio = second / first
    exponent = math.log(ratio) / log_ratio
    if exponent > 0.05:
        return "grows", math.inf
    if exponent < -0.2:
        return "settles", max(highest, last + second * ratio / (1.0 - ratio))  # the rest of a geometric series
    return "unclear", math.nan


def approach(density: Density, start: float, spacing: float, sign: int) -> tuple[float, Trend]:
    """Move to the extremum of sign * log f near `start` and see whether it stays finite there.

    With h = 2^-j a power |z - c|^-a adds a log 2 for every halving of h, for ever; a smooth extremum or
    a cusp adds less and less. Logarithmic singularities are in between and stay unclear.
    """
    log, centre, half = density.log, start, spacing
    while half > 8 * math.ulp(centre) and half > density.scale * 2.0**-70:
        z = centre + half * np.linspace(-1.0, 1.0, 17)
        values = sign * log(z)
        centre = float(z[int(np.argmax(np.where(np.isnan(values), -np.inf, values)))])
        half /= 4
    finest = max(4096 * math.ulp(centre), density.scale * 2.0**-60)
    count = math.floor(math.log2(spacing / finest)) if spacing > finest else 0
    if count < 12:
        return centre, "unclear"
    steps = spacing * 2.0 ** -np.arange(count + 1, dtype=np.float64)
    heights = np.maximum(sign * log(centre - steps), sign * log(centre + steps))
    third = count // 3
    middle, last = map(float, np.diff(heights[third : 3 * third + 1 : third]))
    if not math.isfinite(middle + last):
        return centre, "unclear"
    if last <= 1e-7 or last < 0.1 * middle:
        return centre, "settles"
    return centre, "grows" if last >= 0.85 * middle else "unclear"


# Does a noise law bound what an observer can learn? Theorem 4 [principal-laplace], with its missing condition.
#
# Amplification is the largest likelihood ratio f(y - x1) / f(y - x2) over all y and all x1, x2 that differ by at most
# `width` (Eq. 4). It is finite if and only if
#
# 1. the density has infinite support,
# 2. it is nowhere zero,
# 3. f(y - x1) / f(y - x2) stays bounded as y goes to plus or minus infinity,
# 4. it is locally bounded: not in the paper, but `dweibull(c=0.5)`, infinite at 0, meets 1-3 with infinite
#    amplification.
#    (Its inverse must be locally bounded as well; that sharpens 2.)


Verdict = Literal["bounded", "unbounded", "undecided"]
_SIDES = {-1: "minus", 1: "plus"}
_NOT_FOUND = "No positive, finite density was found. Centre it at 0, or give its logarithm or a scipy distribution."


@dataclass(frozen=True)
class Amplification:
    """A verdict, the supremum where it is finite (None where a double cannot hold it) and one sentence per condition.

    `exact` tells a closed form from a numerical finding, which extrapolates from the points that were looked at: no
    finite number of values of a density can prove either verdict.
    """

    verdict: Verdict
    value: float | None
    evidence: tuple[str, ...]
    log_value: float | None = None
    exact: bool = False


_Condition = tuple[bool | None, str]
"""Whether one holds, where that is known, and the evidence."""


def bounded_amplification(
    law: Any = None, width: float = 1.0, *, logpdf: Callable[[Any], Any] | None = None
) -> Amplification:
    """Check whether additive noise of `law` has bounded amplification for values that differ by at most `width`.

    Parameters
    ----------
    law : a `Law`, a frozen continuous distribution of scipy.stats, or a vectorised density z -> f(z).
    width : the range of what is hidden, x_U - x_L.
    logpdf : a vectorised z -> log f(z) (any constant may be missing) instead of `law`; reaches much further than a
        density, which underflows.

    Where there is no closed form the density is evaluated at some 90,000 points: a blink for most, minutes for
    those that scipy integrates numerically (`levy_stable`).

    Examples
    --------
    >>> from sfumato.noise import Laplace
    >>> bounded_amplification(Laplace(0.25)).verdict
    'bounded'
    """
    if (law is None) == (logpdf is None):
        raise UsageError("The 'law' parameter of bounded_amplification must be given, or 'logpdf', and not both.")
    if isinstance(width, bool) or not isinstance(width, int | float | np.number) or not 0 < float(width) < math.inf:
        raise wrong_parameter("width", "bounded_amplification", "a positive number", width)
    width = float(width)
    density = open_density(law, logpdf, width)
    if density is None:
        return Amplification("undecided", None, (_NOT_FOUND,))
    with np.errstate(all="ignore"):  # infinities are what is looked for
        found = _probe(density, width)
    if not isinstance(law, Law):
        return found
    log = law.log_amplification(width)
    if math.isinf(log):
        return Amplification("unbounded", None, ("Closed form: the supremum is infinite.", *found.evidence), exact=True)
    evidence = (f"Closed form: the supremum is exp({log:.6g}).", *found.evidence)
    return Amplification("bounded", _exp(log), evidence, log, exact=True)


def _probe(density: Density, width: float) -> Amplification:
    # Boundedness does not depend on the width (a step of n * w is n steps of w), so a short one is used where the
    # density is narrow: wide steps would leave the range in which it can be computed.
    short = min(width, density.scale)
    tails = {side: follow_tail(density, side, short) for side in _SIDES}
    m, s = density.centre, density.scale
    near = np.linspace(-64.0, 64.0, 8193) * s
    wide = np.linspace(-1.0, 1.0, 769) * (2.0 * width + 8.0 * s)
    points = np.unique(np.concatenate([near, wide, s * _octaves(-20, 10, 6, both=True)]) + m)
    points = points[(points > density.centre - tails[-1].reach) & (points < density.centre + tails[1].reach)]
    values = density.log(points)
    found = [_infinite_support(density, tails), _no_zeros(density, points, values)]
    found += [_tails_bounded(density, tails), _extremes(density, points, values, 1)]
    hold, evidence = [holds for holds, _ in found], tuple(words for _, words in found)
    if not all(hold):
        return Amplification("unbounded" if False in hold else "undecided", None, evidence)
    log = _supremum(density, points, width)
    if log is None:
        missing = f"Value: not known, within the width of {width:g} the density underflows, or its tails do not settle."
        return Amplification("bounded", None, (*evidence, missing))
    return Amplification("bounded", _exp(log), (*evidence, f"Value: the supremum is exp({log:.9g}), numerically."), log)


def _infinite_support(density: Density, tails: dict[int, Tail]) -> _Condition:
    low, high = density.support
    if math.isfinite(low) or math.isfinite(high):
        return False, f"Infinite support: fails, the support is [{low:g}, {high:g}]."
    for side, tail in tails.items():
        if tail.end == "zero":
            at = f"{density.centre + side * tail.reach:.4g} (an end, or a gap)"
            return False, f"Infinite support: fails, the density drops to 0 at {at}."
        if tail.end == "undefined":
            return None, "Infinite support: unknown, the density is not a number in a tail."
        if tail.end == "underflow" and tail.reach < 4 * density.scale:
            return None, "Infinite support: unknown, the density underflows close to its centre."
    reached = " and ".join(f"{density.centre + side * tail.reach:.3g}" for side, tail in tails.items())
    return True, f"Infinite support: holds as far as numbers reach ({reached})."


def _no_zeros(density: Density, points: Floats, values: Floats) -> _Condition:
    inner = values[1:-1]
    gaps = np.flatnonzero((inner == -np.inf) & ((values[:-2] == -np.inf) | (values[2:] == -np.inf))) + 1
    if gaps.size:
        first = int(np.flatnonzero(values == -np.inf)[0])
        edge = edge_value(density, float(points[first - 1]), float(points[first]))[0] if first else -math.inf
        if not edge > UNDERFLOW:
            return None, f"No zeros: unknown, the density underflows near {points[first]:.4g}."
        return False, f"No zeros: fails, the density is 0 around {points[first]:.4g}."
    return _extremes(density, points, values, -1)


def _extremes(density: Density, points: Floats, values: Floats, sign: int) -> _Condition:
    """Approach the sharpest interior extrema of log f and see whether they stay finite."""
    name, becomes = ("Locally bounded", "infinite") if sign > 0 else ("No zeros", "0")
    if np.isnan(values).any():
        return None, f"{name}: unknown, the density is not a number in some place."
    heights = sign * values
    inner = np.flatnonzero((heights[1:-1] >= heights[:-2]) & (heights[1:-1] >= heights[2:])) + 1
    finite = np.where(np.isinf(heights), np.sign(heights) * 1e300, heights)
    with np.errstate(over="ignore"):
        sharpness = finite[inner] - 0.5 * (finite[inner - 1] + finite[inner + 1])
    unclear = None
    for i in inner[np.argsort(-sharpness)][:8]:
        spacing = float(max(points[i] - points[i - 1], points[i + 1] - points[i], density.scale * 2.0**-6))
        place, trend = approach(density, float(points[i]), spacing, sign)
        if trend == "grows":
            return False, f"{name}: fails, the density becomes {becomes} at {place:.4g}."
        if trend == "unclear":
            unclear = place
    if unclear is not None:
        return None, f"{name}: unknown, see the density at {unclear:.4g}."
    looked = f"{points.size:,} points from {points[0]:.3g} to {points[-1]:.3g}"
    return True, f"{name}: holds at {looked} and at the sharpest extrema between them."


def _tails_bounded(density: Density, tails: dict[int, Tail]) -> _Condition:
    reached = {side: f"{density.centre + side * tail.reach:.3g}" for side, tail in tails.items()}
    sides = {tail.trend: side for side, tail in reversed(tails.items())}
    if (side := sides.get("grows")) is not None:
        growing = f"it keeps growing towards {_SIDES[side]} infinity (followed to {reached[side]})"
        return False, f"Tail ratio bounded: fails, {growing}."
    if (side := sides.get("unclear")) is not None:
        return None, f"Tail ratio bounded: unknown towards {_SIDES[side]} infinity."
    return True, f"Tail ratio bounded: holds, it settles on both sides (followed to {' and '.join(reached.values())})."


def _supremum(density: Density, points: Floats, width: float) -> float | None:
    """sup of log f(z) - log f(z - delta): limits of the tails, and a search in the body, refined at eight places.

    Pairs of which one point underflows differ by more than log f(z) + 690; where that matters there is no value. (Far
    out, where f(z) itself is about to underflow, the trend of the tail speaks for them.)
    """
    tails = [follow_tail(density, side, width) for side in _SIDES]
    if any(tail.trend != "settles" for tail in tails):
        return None
    floor = max(tail.floor for tail in tails)
    mode = points[int(np.argmax(density.log(points)))]  # the supremum often starts there, and it can be a cusp
    z = np.append(points[:: max(1, points.size // 800)], mode)
    deltas = width * np.linspace(-1.0, 1.0, 17)
    here, there = density.log(z)[None, :], density.log(z[None, :] - deltas[:, None])
    trusted = np.isfinite(there) & (there > floor)
    differences = np.where(trusted & np.isfinite(here), here - there, -np.inf)
    hidden = float(np.max(np.where(trusted | (here < floor / 2), -np.inf, here - UNDERFLOW)))
    best = max(tail.limit for tail in tails)
    for peak in np.argsort(-differences.max(axis=0))[:200:25]:
        delta = float(deltas[int(np.argmax(differences[:, peak]))])
        best = max(best, _refine(density, float(z[peak]), delta, width, floor))
    return best if best > hidden + 10.0 else None  # the margin pays for the coarse grid on which `hidden` was found


def _refine(density: Density, z: float, delta: float, width: float, floor: float) -> float:
    """Zoom into the (z, delta) plane around a candidate; needs no derivatives, so cusps do no harm."""
    around = np.linspace(-1.0, 1.0, 9)
    best, half_z, half_delta = -math.inf, width / 16 + density.scale / 16, width / 16
    for _ in range(48):
        zs = z + half_z * around
        deltas = np.clip(delta + half_delta * around, -width, width)
        there = density.log(zs[None, :] - deltas[:, None])
        values = density.log(zs)[None, :] - there
        values = np.where(np.isfinite(values) & (there > floor), values, -np.inf)
        row, column = np.unravel_index(int(np.argmax(values)), values.shape)
        best = max(best, float(values[row, column]))
        z, delta = float(zs[column]), float(deltas[row])
        half_z, half_delta = half_z / 2, half_delta / 2
    return best


def _exp(log: float) -> float | None:
    return math.exp(log) if log < 709.0 else None
