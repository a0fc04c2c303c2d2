"""Every channel with a few parameters each, and what tests ask of it: outcomes to sum over, a faulty twin, a domain.

A channel that is added to `CHANNELS` has to be added here (`test_every_channel_has_examples`).
"""

from dataclasses import replace
from functools import singledispatch

import numpy as np

from domains import domain
from sfumato.channels import (
    Additive,
    Bit,
    Carried,
    Exact,
    HidesMissing,
    Hybrid,
    Mixed,
    OrMissing,
    Piecewise,
    RandomizedResponse,
    Sampled,
    SquareWave,
    UnitVector,
    Unstated,
)
from sfumato.channels.windowed import POINT, Windowed
from sfumato.noise import Laplace, Normal, OperatorNoise, StudentT, Uniform, make_operator
from sfumato.noise.laws import Epanechnikov

GRID = Additive(Laplace(0.5), 0.5 / 8, 0.0, 1.0)
COARSE = Additive(Laplace(0.5), 0.5 / 2, -0.125, 1.0)
LAPLACE = Additive(Laplace(0.4))
BOUNDED = Additive(Uniform(low=-0.2, high=0.5))
CLIPPED = Additive(Epanechnikov(0.4), low=0.2, high=0.7)
QUARTIC = Carried.of(OperatorNoise(make_operator("quartic"), Normal(0.1)), 2.0, 4.0)
FACTOR = Carried.of(OperatorNoise(make_operator("multiplicative"), Uniform(low=1, high=3)), 2.0, 4.0)
WAVE = SquareWave(0.75, 3 / 8, 8)
RELATIVE = Carried.of(OperatorNoise(make_operator("multiplicative", {"base": 1.0}), Normal(0.2)), 2.0, 4.0)

EXAMPLES = [
    Exact(),
    Exact(2),
    Unstated(),
    Unstated(3, -0.5, 1.5),
    LAPLACE,
    GRID,
    COARSE,
    BOUNDED,
    CLIPPED,
    Additive(Normal(0.3), low=0.0, high=1.0),
    Additive(StudentT(0.3, 9.0), low=0.0, high=1.0),
    Mixed(Normal(1.0), (0.3, -0.1)),
    Mixed(Epanechnikov(1.0), (0.3, 0.1, -0.2)),
    FACTOR,
    RELATIVE,
    QUARTIC,
    RandomizedResponse.of_epsilon(1.0, 2),
    RandomizedResponse.of_epsilon(0.5, 5),
    RandomizedResponse(0.125, 3),  # the truth is rarer than the others
    RandomizedResponse(1.0, 3),
    RandomizedResponse(1.0, 1),
    OrMissing(GRID, 0.75),
    OrMissing(BOUNDED, 1.0),
    OrMissing(Exact(), 0.875),
    OrMissing(Additive(Epanechnikov(0.2)), 0.75, anywhere=True),
    Sampled(LAPLACE, 0.25),
    Sampled(RandomizedResponse.of_epsilon(1.0, 3), 0.5),
    Sampled(OrMissing(GRID, 0.75), 0.75),
    WAVE,
    SquareWave.of_epsilon(0.5),
    SquareWave.of_epsilon(2.0, exact=False),
    Piecewise(0.75, 3 / 8, 8),
    Hybrid.of_epsilon(0.5),
    Hybrid.of_epsilon(2.0),
    Hybrid.of_epsilon(1.5, exact=False),
    Piecewise.of_epsilon(1.0),
    HidesMissing(Piecewise.of_epsilon(2.0, exact=False)),
    HidesMissing(WAVE),
    HidesMissing(SquareWave.of_epsilon(1.5, exact=False)),
    HidesMissing(RandomizedResponse.of_epsilon(1.0, 2)),
    Sampled(SquareWave.of_epsilon(1.0), 0.25),
    Sampled(HidesMissing(WAVE), 0.5),
    UnitVector.of_epsilon(1.0, 2),
    UnitVector.of_epsilon(3.0, 2, 1.5, exact=False),
    UnitVector(3, 0.75, 1.25, 2.0, 10),
    Bit(0.25, "square"),
    Bit(0.1, "linear"),
    Bit(0.0, "square"),
]
DRAWN = [channel for channel in EXAMPLES if not isinstance(channel, Unstated | UnitVector)]
"""Vectors have tests of their own: test_unit_vector.py."""
POINTS = 40_001


def groups_for(channel):
    """Source columns that the channel can carry."""
    letters = "p" if isinstance(channel, Carried) else "nm12345?"
    if isinstance(channel, UnitVector):
        return domain("n" * channel.width).groups
    found = [domain(shape).groups for shape in (*letters, "nn", "nm")]
    return next(some for some in found if channel.fits(some) and sum(group.width for group in some) == channel.width)


def truths(channel, inner=41):
    """What it may be given: every extreme point of its columns, and numbers between them."""
    if isinstance(channel, Exact | Bit):
        return np.tile(np.linspace(0.0, 1.0, inner)[:, None], (1, channel.width))
    (group,) = groups_for(channel)
    if group.is_onehot:
        return group.vertices
    x = np.zeros((inner, channel.width))
    x[:, 0] = np.linspace(0.0, 1.0, inner)
    return np.vstack([group.vertices, x])


def population(channel, rng, rows):
    """Truths at random, numbers anywhere."""
    some = truths(channel)
    x = some[rng.integers(len(some), size=rows)]
    numbers = channel.numbers and (channel.width == 1 or isinstance(channel, OrMissing | HidesMissing))
    if numbers:
        present = x[:, -1] < 0.5 if channel.width > 1 else slice(None)
        x[present, 0] = rng.random(rows)[present] ** 2
    return x


@singledispatch
def outcomes(channel):
    """Released points and their weights: the likelihood of any truth, times the weights, adds up to 1."""
    raise NotImplementedError(type(channel))


@outcomes.register
def _(channel: Additive):
    low, high, _ = channel.reach(-0.2, 1.2, 1e-9)
    if channel.grid:
        z = channel.grid * np.arange(np.floor(low / channel.grid), np.ceil(high / channel.grid) + 1)
        return z[:, None], np.full(len(z), channel.grid)
    z = np.linspace(low, high, POINTS)
    return z[:, None], np.full(len(z), z[1] - z[0])


@outcomes.register
def _(channel: Carried):
    low, high, _ = channel.reach(0.0, 1.0, 1e-9)
    z = np.linspace(low, high, POINTS)
    return z[:, None], np.full(len(z), z[1] - z[0])


@outcomes.register
def _(channel: RandomizedResponse):
    return np.eye(channel.categories), np.ones(channel.categories)


@outcomes.register
def _(channel: Windowed):
    low, high, _ = channel.reach(0.0, 1.0, 0.0)
    cells = channel.cells + channel.steps if 0 < channel.steps < POINTS else POINTS
    step = (high - low) / cells
    return (low + step * (np.arange(cells) + 0.5))[:, None], np.full(cells, step)


@outcomes.register
def _(channel: Hybrid):
    z, weights = outcomes(channel.window)
    return np.vstack([np.array([channel.ends]).T, z]), np.append([POINT] * 2, weights)


@outcomes.register
def _(channel: HidesMissing):
    z, weights = outcomes(channel.inner)
    return np.column_stack([z, np.zeros(len(z))]), weights


@outcomes.register
def _(channel: Bit):  # noqa: ARG001
    return np.array([[0.0], [1.0]]), np.ones(2)


@outcomes.register
def _(channel: Exact):
    z = truths(channel)
    return z, np.ones(len(z))


@outcomes.register
def _(channel: OrMissing):
    z, weights = outcomes(channel.inner)
    shown = np.column_stack([z, np.zeros(len(z))])
    return np.vstack([shown, [[0.5, 1.0]]]), np.append(weights, 1.0)


@outcomes.register
def _(channel: Sampled):
    z, weights = outcomes(channel.inner)
    return np.vstack([z, np.full((1, channel.width), np.nan)]), np.append(weights, 1.0)


@singledispatch
def faulty(channel):
    """The same with noise 30% off."""
    raise NotImplementedError(type(channel))


@faulty.register(Additive)
@faulty.register(Carried)
def _(channel):
    changes = {"grid": 1.3 * channel.grid} if getattr(channel, "grid", 0.0) else {}
    law = channel.law.scaled(1.3)
    return replace(channel, law=law, **changes)


@faulty.register
def _(channel: Mixed):
    return replace(channel, source=channel.source.scaled(1.3))


@faulty.register
def _(channel: Windowed):
    return replace(channel, near=1.3 * channel.near if channel.near < 0.7 else channel.near / 1.3)


@faulty.register
def _(channel: Hybrid):
    return replace(channel, often=0.25, least=0.125) if channel.often < 0.5 else replace(channel, often=0.875)


@faulty.register
def _(channel: HidesMissing):
    return HidesMissing(faulty(channel.inner))


@faulty.register
def _(channel: RandomizedResponse):
    return RandomizedResponse(1 - 1.3 * (1 - channel.keep) if channel.keep > 0.3 else 1.3 * channel.keep, channel.width)


@faulty.register
def _(channel: Bit):
    return Bit(max(0.05, 1.3 * channel.floor), channel.link)


@faulty.register
def _(channel: OrMissing):
    return replace(channel, keep=1 - 1.3 * (1 - channel.keep)) if channel.keep < 1 else replace(channel, keep=0.9)


@faulty.register
def _(channel: Sampled):
    return Sampled(channel.inner, 1.3 * channel.rate)
