"""Bets against a card: worth no more than their stake if it is true, and won where less noise was added."""

import dataclasses
import math

import numpy as np
import pytest

from sfumato.channels import (
    Additive,
    Bit,
    Carried,
    HidesMissing,
    Mixed,
    NotApplicableError,
    OrMissing,
    Piecewise,
    RandomizedResponse,
    Sampled,
    SquareWave,
    UnitVector,
)
from sfumato.channels.windowed import Hybrid
from sfumato.noise import Laplace, Normal, OperatorNoise, Uniform, make_operator
from sfumato.release.bets import Bet, Bets, Column, Laws, together

ANYWHERE = (-math.inf, math.inf)
WAVE = SquareWave.of_epsilon(1.0)
CHANNELS = {
    "laplace": Additive(Laplace(scale=0.25), low=0.0, high=1.0),
    "normal": Additive(Normal(0.2)),
    "uniform": Additive(Uniform(0.5)),
    "clipped": Additive(Laplace(scale=0.5), low=0.25, high=0.75),
    "multiplied": Carried.of(OperatorNoise(make_operator("multiplicative"), Normal(0.3)), 10.0, 40.0),
    "wave": WAVE,
    "piecewise": Piecewise.of_epsilon(2.0),
    "hybrid": Hybrid.of_epsilon(2.0),
    "response": RandomizedResponse(0.5, 5),
    "many categories": RandomizedResponse(0.3, 300),
    "or missing": OrMissing(Additive(Laplace(scale=0.4)), 0.8),
    "anywhere": OrMissing(Additive(Laplace(scale=0.4)), 0.8, True),
    "hides missing": HidesMissing(WAVE),
    "hides a category": HidesMissing(RandomizedResponse(0.6, 3)),
    "sampled": Sampled(WAVE, 0.6),
    "mixed": Mixed(Normal(0.2), (1.0, 0.5)),
    "vector": UnitVector.of_epsilon(3.0, 6),
    "bit": Bit(0.2, "linear"),
}


def truths(channel, rows, rng):
    """Anywhere in the domain, each kind of truth among them."""
    every = channel.truths(0.0, 1.0, 997)
    return every[rng.integers(len(every), size=rows)]


def column(channel):
    low, high = (-1.0, 1.0) if isinstance(channel, UnitVector) else (0.0, 1.0)
    return Column(slice(0, channel.width), (channel,), low, high, ANYWHERE)


def released(channel, x, rng):
    z = channel.draw(np.array(x), rng)
    return z[~np.isnan(z[:, 0])]


@pytest.mark.parametrize("name", CHANNELS)
def test_no_truth_lets_a_bet_expect_more_than_its_stake(name):
    """The one line that all rests on, at truths that no bet was made with, and for rows of any kind."""
    channel, rng = CHANNELS[name], np.random.default_rng(3)
    for rows, spikes in ((40, False), (1000, False), (1000, True)):
        z = released(channel, truths(channel, rows, rng), rng)
        if spikes:  # a release that was not made honestly: half of it is one row
            z[: len(z) // 2] = z[0]
        bet = Bet.after(column(channel), z)
        low, high = bet.column.low, bet.column.high
        finest = channel.chances(bet.edges, channel.truths(low, high, 9_973))
        odds = np.exp(bet.gains)[bet.merged]
        assert (odds @ finest).max() <= 1 + 1e-12
        assert (odds @ finest).max() > (0.8 if spikes else 0.98), "hardly any of the stake is thrown away"


@pytest.mark.parametrize("name", CHANNELS)
def test_outcomes_have_the_chances_that_channels_give_them(name):
    """Drawn and computed: many rows of one truth, no outcome further off than six standard deviations."""
    channel, rng = CHANNELS[name], np.random.default_rng(4)
    rows = 20_000 if channel.width < 100 else 2_000
    edges = column(channel).cells(released(channel, truths(channel, 3000, rng), rng))
    every = channel.truths(0.0, 1.0, 7)
    laws = channel.chances(edges, every)
    assert np.allclose(laws.sum(axis=0), 1.0)
    for one in (0, len(every) // 3, len(every) - 1):
        z = released(channel, np.repeat(every[[one]], rows, axis=0), rng)
        counts = np.bincount(channel.shown(z, edges), minlength=len(laws))
        spread = np.sqrt(len(z) * laws[:, one] * (1 - laws[:, one]) + 1)
        assert (np.abs(counts - len(z) * laws[:, one]) < 6 * spread).all()


def bets_on(channel, z, columns=1):
    found = Bets([dataclasses.replace(column(channel), place=slice(i, i + 1)) for i in range(columns)], len(z) // 2)
    found.add(z, None)
    return found


def test_missing_noise_is_found_in_one_column_of_many():
    """A half of the money is on columns alone: whole numbers that nobody blurred pile up on themselves."""
    channel, rng = CHANNELS["laplace"], np.random.default_rng(6)
    x = rng.integers(0, 11, (300, 20)) / 10
    z = x + rng.laplace(0, 0.25, x.shape)
    assert bets_on(channel, z, 20).log_won < math.log(1e4)
    z[:, 7] = x[:, 7]
    assert bets_on(channel, z, 20).log_won > math.log(4e4)


def test_shared_noise_is_never_bet_on_twice():
    """Columns with the same noise would win together: they stand alone."""
    assert together([5.0, 5.0], [True, True]) > 9
    assert together([5.0, 5.0], [False, False]) < 5


def test_a_law_that_is_not_stated_is_not_bet_on():
    rough = Mixed(Laplace(scale=0.2), (1.0, 0.5))
    with pytest.raises(NotApplicableError):
        Laws.of(column(rough), np.array([0.5]))
    assert Bet.after(column(rough), np.random.default_rng(0).random((50, 1))) is None


def test_a_release_of_one_row_is_read():
    found = Bets([column(CHANNELS["laplace"])], 1)
    found.add(np.array([[0.3]]), None)
    assert found.log_won == 0.0


@pytest.mark.parametrize("width", [1.0, 1e-3])
@pytest.mark.parametrize("epsilon", [8.0, 12.5, 16.0])
def test_noise_that_is_narrower_than_a_step_wins_nothing(epsilon, width):
    """Truths between two steps, many of them equal: what they show was once seen by no step at all."""
    rng, channel = np.random.default_rng(1), SquareWave.of_epsilon(epsilon)
    for truth in (0.1 / 1.2, 1.1 / 1.2, rng.random()):
        x = np.where(rng.random(400) < 0.5, truth, truth + width * rng.random() * (1 - truth))[:, None]
        bets = Bets([column(channel)], 200)
        bets.add(channel.draw(x.copy(), rng), None)
        assert bets.log_won < math.log(1e4)


def test_no_edge_lies_on_a_value_that_many_rows_have():
    """Ends of a hybrid are points: in raw units and back they are changed by rounding, to either side of an edge."""
    rng, channel = np.random.default_rng(2), Hybrid.of_epsilon(0.8)
    for low, wide in ((2.0, 3.4), (1e3, 0.7), (1.5e9, 1e4)):
        rounding = 8 * np.spacing(low + wide) / wide
        for _ in range(5):
            z = (low + wide * channel.draw(rng.beta(2, 5, (400, 1)), rng) - low) / wide
            z = z + rng.uniform(-rounding / 8, rounding / 8, z.shape)
            bets = Bets([dataclasses.replace(column(channel), rounding=rounding)], 200)
            bets.add(z, None)
            assert bets.log_won < math.log(1e4)
