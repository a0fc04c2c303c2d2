"""How often bets against a card are won: as seldom as they may on honest rows, and as often as is said on others."""

import dataclasses
import math

import numpy as np

from sfumato.channels import Additive
from sfumato.noise import Laplace
from sfumato.release.bets import Bets, Column, Power

CHANNEL = Additive(Laplace(scale=0.25), low=0.0, high=1.0)


def bets_on(z):
    one = Column(slice(0, 1), (CHANNEL,), 0.0, 1.0, (-math.inf, math.inf))
    found = Bets([dataclasses.replace(one, place=slice(i, i + 1)) for i in range(z.shape[1])], len(z) // 2)
    found.add(z, None)
    return found


def test_honest_rows_win_as_seldom_as_they_may():
    """One in twenty wins twentyfold at most; what is added less is found nearly always."""
    rng = np.random.default_rng(5)
    honest, quiet = [], []
    for _ in range(400):
        x = rng.beta(2, 5, (400, 3))
        noise = rng.laplace(0, 0.25, x.shape)
        honest.append(bets_on(x + noise).log_won)
        quiet.append(bets_on(x + 0.4 * noise).log_won)
    assert np.mean(np.array(honest) > math.log(20)) <= 0.05
    assert np.mean(np.array(quiet) > math.log(4e4)) > 0.9


def test_what_is_said_to_be_found_is_found():
    """The stated power against rows that really have less noise: not above what happens, and not far below."""
    rng = np.random.default_rng(7)
    x = rng.beta(2, 3, (600, 4))
    told = Power.of(bets_on(x + rng.laplace(0, 0.25, x.shape)), 1e-4)
    assert told.found is not None
    assert told.found >= 0.3

    def found(share):
        runs = [bets_on(x + share * rng.laplace(0, 0.25, x.shape)).log_won for _ in range(40)]
        return np.mean(np.array(runs) > math.log(2e4))

    assert found(told.found) >= 0.85
    assert found(1.0) == 0.0
