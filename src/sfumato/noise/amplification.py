"""Does a noise law bound what an observer can learn? Theorem 4 [principal-laplace], with its missing condition.

Amplification is the largest likelihood ratio f(y - x1) / f(y - x2) over all y and all x1, x2 that differ by at most
`width` (Eq. 4). It is finite if and only if

1. the density has infinite support,
2. it is nowhere zero,
3. f(y - x1) / f(y - x2) stays bounded as y goes to plus or minus infinity,
4. it is locally bounded: not in the paper, but `dweibull(c=0.5)`, infinite at 0, meets 1-3 with infinite amplification.
   (Its inverse must be locally bounded as well; that sharpens 2.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sfumato.core.array_types import Floats
from sfumato.core.errors import UsageError
from sfumato.noise.density import (
    UNDERFLOW,
    Density,
    Tail,
    approach,
    core_points,
    edge_value,
    follow_tail,
    open_density,
)
from sfumato.noise.law import Law

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


@dataclass(frozen=True)
class _Condition:
    holds: bool | None
    evidence: str


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
        raise UsageError(
            f"The 'width' parameter of bounded_amplification must be a positive number. Got {width!r} instead."
        )
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
    points = core_points(density, width)
    points = points[(points > density.centre - tails[-1].reach) & (points < density.centre + tails[1].reach)]
    values = density.log(points)
    conditions = (
        _infinite_support(density, tails),
        _no_zeros(density, points, values),
        _tails_bounded(density, tails),
        _locally_bounded(density, points, values),
    )
    evidence = tuple(condition.evidence for condition in conditions)
    if any(condition.holds is False for condition in conditions):
        return Amplification("unbounded", None, evidence)
    if any(condition.holds is None for condition in conditions):
        return Amplification("undecided", None, evidence)
    log = _supremum(density, points, width)
    if log is None:
        missing = f"Value: not known, within the width of {width:g} the density underflows, or its tails do not settle."
        return Amplification("bounded", None, (*evidence, missing))
    return Amplification("bounded", _exp(log), (*evidence, f"Value: the supremum is exp({log:.9g}), numerically."), log)


def _infinite_support(density: Density, tails: dict[int, Tail]) -> _Condition:
    low, high = density.support
    if math.isfinite(low) or math.isfinite(high):
        return _Condition(False, f"Infinite support: fails, the support is [{low:g}, {high:g}].")
    for side, tail in tails.items():
        if tail.end == "zero":
            place = density.centre + side * tail.reach
            return _Condition(
                False, f"Infinite support: fails, the density drops to 0 at {place:.4g} (an end, or a gap)."
            )
        if tail.end == "undefined":
            return _Condition(None, "Infinite support: unknown, the density is not a number in a tail.")
        if tail.end == "underflow" and tail.reach < 4 * density.scale:
            return _Condition(None, "Infinite support: unknown, the density underflows close to its centre.")
    reached = " and ".join(f"{density.centre + side * tail.reach:.3g}" for side, tail in tails.items())
    return _Condition(True, f"Infinite support: holds as far as numbers reach ({reached}).")


def _no_zeros(density: Density, points: Floats, values: Floats) -> _Condition:
    inner = values[1:-1]
    gaps = np.flatnonzero((inner == -np.inf) & ((values[:-2] == -np.inf) | (values[2:] == -np.inf))) + 1
    if gaps.size:
        first = int(np.flatnonzero(values == -np.inf)[0])
        edge = edge_value(density, float(points[first - 1]), float(points[first]))[0] if first else -math.inf
        if not edge > UNDERFLOW:
            return _Condition(None, f"No zeros: unknown, the density underflows near {points[first]:.4g}.")
        return _Condition(False, f"No zeros: fails, the density is 0 around {points[first]:.4g}.")
    return _extremes(density, points, values, -1)


def _locally_bounded(density: Density, points: Floats, values: Floats) -> _Condition:
    return _extremes(density, points, values, 1)


def _extremes(density: Density, points: Floats, values: Floats, sign: int) -> _Condition:
    """Approach the sharpest interior extrema of log f and see whether they stay finite."""
    name, becomes = ("Locally bounded", "infinite") if sign > 0 else ("No zeros", "0")
    if np.isnan(values).any():
        return _Condition(None, f"{name}: unknown, the density is not a number in some place.")
    heights = sign * values
    inner = np.flatnonzero((heights[1:-1] >= heights[:-2]) & (heights[1:-1] >= heights[2:])) + 1
    finite = np.where(np.isinf(heights), np.sign(heights) * 1e300, heights)
    with np.errstate(over="ignore"):
        sharpness = finite[inner] - 0.5 * (finite[inner - 1] + finite[inner + 1])
    candidates = inner[np.argsort(-sharpness)][:8]
    unclear = None
    for i in candidates:
        spacing = float(max(points[i] - points[i - 1], points[i + 1] - points[i], density.scale * 2.0**-6))
        place, trend = approach(density, float(points[i]), spacing, sign)
        if trend == "grows":
            return _Condition(False, f"{name}: fails, the density becomes {becomes} at {place:.4g}.")
        if trend == "unclear":
            unclear = place
    if unclear is not None:
        return _Condition(None, f"{name}: unknown, see the density at {unclear:.4g}.")
    looked = f"{points.size:,} points from {points[0]:.3g} to {points[-1]:.3g}"
    return _Condition(True, f"{name}: holds at {looked} and at the sharpest extrema between them.")


def _tails_bounded(density: Density, tails: dict[int, Tail]) -> _Condition:
    for side, tail in tails.items():
        if tail.trend == "grows":
            return _Condition(
                False,
                f"Tail ratio bounded: fails, it keeps growing towards {_SIDES[side]} infinity "
                f"(followed to {density.centre + side * tail.reach:.3g}).",
            )
    for side, tail in tails.items():
        if tail.trend == "unclear":
            return _Condition(None, f"Tail ratio bounded: unknown towards {_SIDES[side]} infinity.")
    reached = " and ".join(f"{density.centre + side * tail.reach:.3g}" for side, tail in tails.items())
    return _Condition(True, f"Tail ratio bounded: holds, it settles on both sides (followed to {reached}).")


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
    peaks = np.argsort(-differences.max(axis=0))[:200:25]
    best = max(tail.limit for tail in tails)
    for peak in peaks:
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
