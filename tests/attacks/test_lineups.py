"""Which of two people, and who of a hundred: figures that follow from the law alone."""

import numpy as np
import pytest
from knowing import told
from scipy import stats

from sfumato.attacks import ATTACKS
from sfumato.attacks.base import Abstain, Knowledge, KnownNoise, Lineups, Transform
from sfumato.attacks.metrics.score import score_guess
from sfumato.attacks.metrics.scored import Truth
from sfumato.channels import Additive, RandomizedResponse
from sfumato.noise import Laplace, Normal
from sfumato.table import Column, Encoding, Schema


def scored(name, known, lineup):
    return score_guess(
        ATTACKS[name]().run(known), Truth(known.release, known.encoding, rows=known.release, lineup=lineup)
    )


def test_two_people_a_distance_apart_are_told_apart_as_the_normal_law_says():
    """Normal noise of sd s, people at 0 and 1: right with probability Phi(1 / (2 s))."""
    rng, s, n = np.random.default_rng(0), 0.7, 4000
    place = rng.integers(2, size=n)
    Z = place[:, None] + rng.normal(scale=s, size=(n, 1))
    lineups = Lineups(np.arange(n), np.tile([[0.0], [1.0]], (n, 1, 1)))
    known = Knowledge(Z, Encoding.unit(1), noise=told(Normal(s)), lineups=lineups)
    expected = stats.norm.cdf(1 / (2 * s))
    for name in ("pair", "top-match"):
        found = scored(name, known, place)
        assert found.score == pytest.approx(expected, abs=0.02)
        assert found.baseline == 0.5


def test_randomized_response_is_a_tie_where_it_tells_nothing():
    """Kept with probability p, two people of different answers: right with p; of the same answer a coin toss."""
    rng, n, keep = np.random.default_rng(1), 4000, 0.8
    encoding = Encoding(Schema((Column("colour", "categorical", categories=("red", "green")),)))
    noise = told(RandomizedResponse(keep, 2), given=np.eye(2))
    place = rng.integers(2, size=n)
    Z = np.eye(2)[np.where(rng.random(n) < keep, place, 1 - place)]
    different = Lineups(np.arange(n), np.tile(np.eye(2), (n, 1, 1)))
    apart = scored("pair", Knowledge(Z, encoding, noise=noise, lineups=different), place)
    assert apart.score == pytest.approx(keep, abs=0.02)
    same = Lineups(np.arange(n), np.tile(np.eye(2)[:1], (n, 2, 1)))
    for name in ("pair", "top-match"):
        assert scored(name, Knowledge(Z, encoding, noise=noise, lineups=same), place).score == 0.5


def test_a_row_is_judged_by_the_channels_of_its_own_class():
    rng, n = np.random.default_rng(2), 1000
    narrow, wide = (Additive(Laplace(0.02)),) * 3, (Additive(Laplace(5.0)),) * 3
    X = rng.random((n, 20, 3))
    place = rng.integers(20, size=n)
    own = X[np.arange(n), place]
    y = np.arange(n) % 2
    Z = own + rng.laplace(size=own.shape) * np.where(y == 0, 0.02, 5.0)[:, None]
    noise = KnownNoise.of(wide, X[:, 0], {0: narrow, 1: wide})
    lineups = Lineups(np.arange(n), X)
    found = ATTACKS["top-match"]().run(Knowledge(Z, Encoding.unit(3), labels=y, noise=noise, lineups=lineups))
    right = found.scores.argmax(axis=1) == place
    assert right[y == 0].mean() > 0.9
    assert right[y == 1].mean() < 0.12


def test_a_mixing_release_needs_its_map():
    X = np.random.default_rng(3).random((50, 10, 4))
    place = np.arange(50) % 10
    A = np.linalg.qr(np.random.default_rng(4).normal(size=(4, 4)))[0]
    own = X[np.arange(50), place]
    parts = {"columnwise": False, "noise": told(*[None] * 4), "lineups": Lineups(np.arange(50), X)}
    assert isinstance(scored("pair", Knowledge(own @ A.T, Encoding.unit(4), **parts), place), Abstain)
    known = Knowledge(own @ A.T, Encoding.unit(4), transform=Transform(A, np.zeros(4)), **parts)
    assert scored("top-match", known, place).score == 1.0
