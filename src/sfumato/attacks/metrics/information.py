"""How much noise hides of a column on average, and how much reconstruction loses.

X is given as a `Density`, or as values, which are taken as a histogram of `bins` cells. Everything is computed from the
probabilities of fine cells of z given points of x, for noise of any law under any operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from sfumato.core.array_types import Floats
from sfumato.core.errors import UsageError
from sfumato.core.registry import metric
from sfumato.noise import Law, NumberNoise, OperatorNoise
from sfumato.reconstruction.density import Density, Shares
from sfumato.reconstruction.evidence import Cells

_TAIL = 1e-7
_BODY = 0.005
"""Share of the noise on each side beyond which cells of z grow: far tails tell little, and are far indeed."""


@dataclass(frozen=True)
class _Channel:
    """Points of x with their probabilities, cells of z, and P(z | x); `widths` is the length each point stands for."""

    x: Floats
    prior: Floats
    widths: Floats
    spread: Floats


def _distribution(x: Density | ArrayLike, bins: int) -> tuple[Cells, Floats]:
    if isinstance(x, Density):
        return x.cells, x.mass
    values = np.asarray(x, dtype=np.float64).ravel()
    values = values[~np.isnan(values)]
    if len(values) == 0 or values.min() == values.max():
        raise UsageError("The values are all the same, or there are none: there is nothing to hide.")
    counts, edges = np.histogram(values, bins)
    return Cells(edges), counts / len(values)


def _channel(noise: NumberNoise, x: Density | ArrayLike, bins: int, points: int) -> _Channel:
    cells, mass = _distribution(x, bins)
    inner = cells.inner()
    at = np.concatenate(inner)
    prior = np.tile(mass / len(inner), len(inner))
    widths = np.tile(cells.widths / len(inner), len(inner))
    kept = prior > 0
    edges = _z_edges(noise, at[kept], points)
    cumulative = noise.cdf(edges[:, None], at[kept][None, :])
    cumulative[0], cumulative[-1] = 0.0, 1.0
    return _Channel(at[kept], prior[kept], widths[kept], np.maximum(np.diff(cumulative, axis=0), 0.0))


def _z_edges(noise: NumberNoise, x: Floats, points: int) -> Floats:
    """Even cells where bounded noise leads; beyond the body of unbounded noise they grow by the same factor each. Even
    cells over all of a heavy tail would be wider than the body: privacy losses came out a third too small."""

    def reached(tail: float) -> tuple[float, float]:
        ends = zip(noise.span(x), noise.span(x, tail), strict=True)
        low, high = (np.where(np.isfinite(end), end, far) for end, far in ends)
        return float(low.min()), float(high.max())

    (outer, last), (first, inner) = reached(_TAIL), reached(_BODY)
    beyond = points // 8
    count = points - beyond * ((outer < first) + (inner < last))
    edges = np.linspace(first, inner, count + 1)
    step = float(edges[1] - edges[0])
    parts = [edges]
    if outer < first:
        parts.insert(0, first - _growing(step, first - outer, beyond)[::-1])
    if inner < last:
        parts.append(inner + _growing(step, last - inner, beyond))
    return np.concatenate(parts)


def _growing(step: float, reach: float, count: int) -> Floats:
    """`count` distances up to `reach`, the first about one step, each gap larger than the last by the same factor."""
    if reach <= step * count:
        return np.asarray(np.linspace(0.0, reach, count + 1)[1:])
    rate = brentq(lambda log: step * math.expm1(log * count) / math.expm1(log) - reach, 1e-9, 700.0 / count)
    return np.asarray(step * np.expm1(rate * np.arange(1.0, count + 1)) / math.expm1(rate))


@metric(takes="noise", better="lower")
def mutual_information(noise: NumberNoise, x: Density | ArrayLike, *, bins: int = 75, points: int = 1200) -> float:
    """I(X; Z) in bits: what a released value tells of its source on average; lower is safer.

    Cells hide a little of it. Where densities have edges that is proportional to the cells' width, so the result is
    extrapolated from `points` cells and half as many.
    """
    channel = _channel(noise, x, bins, 2 * (points // 2))
    pairs = channel.spread.reshape(-1, 2, len(channel.x)).sum(axis=1)
    return max(0.0, 2.0 * _bits(channel.spread, channel.prior) - _bits(pairs, channel.prior))


def _bits(spread: Floats, prior: Floats) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = spread * np.log2(spread / (spread @ prior)[:, None])
    return float(np.where(spread > 0, bits, 0.0).sum(axis=0) @ prior)


@metric(takes="noise", better="lower")
def privacy_loss(noise: OperatorNoise, x: Density | ArrayLike, *, bins: int = 75, points: int = 1200) -> float:
    """P(X|Z) = 1 - 2^-I(X;Z), from 0 (nothing told) to 1; lower is safer [density-reconstruction, Eq. 19]."""
    return 1.0 - math.exp2(-mutual_information(noise, x, bins=bins, points=points))


@metric(takes="noise", better="higher")
def conditional_entropy_privacy(
    noise: OperatorNoise, x: Density | ArrayLike, *, bins: int = 75, points: int = 1200
) -> float:
    """2^h(X|Z): the length of the interval that hides a value as well as X is hidden, given Z; longer is safer.

    Agrawal & Aggarwal (2001): h(X|Z) = h(X) - I(X;Z). Without noise known, the same with h(X) alone.
    """
    return entropy_privacy(x, bins=bins) * math.exp2(-mutual_information(noise, x, bins=bins, points=points))


def entropy_privacy(x: Density | ArrayLike, *, bins: int = 75) -> float:
    """2^h(X): the length of an interval over which a uniform value is as uncertain as X; longer is safer."""
    cells, mass = _distribution(x, bins)
    shown = mass > 0
    return float(2.0 ** -np.sum(mass[shown] * np.log2(mass[shown] / cells.widths[shown])))


def interval_privacy(law: Law, confidence: float = 0.95, *, span: float = 1.0) -> float:
    """Width of the interval that holds additive noise with this confidence, over `span`; wider is safer.

    Agrawal & Srikant (2000): if x can be placed in an interval with confidence c, its width is the privacy at c. It
    looks at the noise alone; `posterior_interval` also counts what is known of X.
    """
    _check_confidence(confidence)
    tail = (1.0 - confidence) / 2.0
    return float(law.ppf(1.0 - tail) - law.ppf(tail)) / span


@metric(takes="noise", better="higher")
def posterior_interval(
    noise: OperatorNoise, x: Density | ArrayLike, confidence: float = 0.95, *, bins: int = 75, points: int = 1000
) -> float:
    """Mean length of the shortest set that holds X with this confidence, given Z; longer is safer.

    For any operator, and with the distribution of X known to the adversary, as reconstruction makes it.
    """
    _check_confidence(confidence)
    channel = _channel(noise, x, bins, points)
    joint = channel.spread * channel.prior
    order = np.argsort(-joint / channel.widths, axis=1)
    ranked = np.take_along_axis(joint, order, axis=1)
    before = np.cumsum(ranked, axis=1) - ranked
    z = channel.spread @ channel.prior
    wanted = confidence * z[:, None]
    # The last piece that is needed counts with the share of it that is needed.
    share = np.clip(np.divide(wanted - before, ranked, out=np.zeros_like(ranked), where=ranked > 0), 0.0, 1.0)
    lengths = (share * channel.widths[order]).sum(axis=1)
    return float(z @ lengths)


def collapsed_share(
    noise: OperatorNoise, x: Density | ArrayLike, *, tolerance: float = 0.05, bins: int = 75, points: int = 1200
) -> float:
    """Share of records whose value is confined to less than `tolerance` of the range with certainty; lower is safer.

    Bounded noise leaves only some x possible for a released z; where values are few, hardly any. Unbounded noise leaves
    all of them possible, and gives 0.
    """
    if not all(map(math.isfinite, noise.law.support)):
        return 0.0
    channel = _channel(noise, x, bins, points)
    possible = (channel.spread > 0) @ channel.widths
    cells, _ = _distribution(x, bins)
    return float(channel.spread @ channel.prior @ (possible < tolerance * float(cells.edges[-1] - cells.edges[0])))


def information_loss(original: Any, found: Density | Shares) -> float:
    """Half the L1 distance of a reconstruction to the original values, from 0 to 1; lower is better [Eq. 20].

    Original values outside the reconstruction's cells count in full: it gives them no probability.
    """
    shares = found.shares_of(original)
    return half_distance(shares, found.mass) + 0.5 * max(0.0, 1.0 - float(shares.sum()))


@metric(takes="shares", better="lower")
def half_distance(first: ArrayLike, second: ArrayLike) -> float:
    """Half the L1 distance of two distributions on the same cells, from 0 to 1; lower is better for use [Eq. 20]."""
    return 0.5 * float(np.sum(np.abs(np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64))))


def calibrate(
    noise: OperatorNoise,
    x: Density | ArrayLike,
    wanted: float,
    *,
    family: Callable[[float], OperatorNoise] | None = None,
    between: tuple[float, float] = (1e-3, 1e3),
    bins: int = 75,
    points: int = 1200,
) -> OperatorNoise:
    """The noise with this privacy loss (Eq. 19): `noise`, made wider or narrower about its mean.

    `family` maps a strength to a noise, where something else than the width is to vary; more must hide more. The other
    direction is `privacy_loss`.
    """
    if not 0 < wanted < 1:
        raise UsageError(f"A privacy loss lies between 0 and 1. Got {wanted!r} instead.")
    make = family or noise.stretched

    def excess(log: float) -> float:
        return privacy_loss(make(math.exp(log)), x, bins=bins, points=points) - wanted

    weak, strong = math.log(between[0]), math.log(between[1])
    if excess(weak) < 0 or excess(strong) > 0:
        raise UsageError(
            f"No strength between {between[0]:g} and {between[1]:g} times this noise has a privacy loss of {wanted:g}."
        )
    return make(math.exp(brentq(excess, weak, strong, xtol=1e-5)))


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise UsageError(f"A confidence lies between 0 and 1. Got {confidence!r} instead.")
