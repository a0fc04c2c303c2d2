"""Bayes' rule where a row tells of all columns at once: smoothed people have their own likelihoods."""

import numpy as np
import pytest
from scipy.special import ndtr

from sfumato.attacks import ATTACKS
from sfumato.attacks.base import Knowledge, KnownNoise
from sfumato.attacks.bayes_window import BayesWindow, ListedBeliefs
from sfumato.attacks.column_beliefs import Likely, made_up
from sfumato.attacks.metrics.score import score_guess
from sfumato.attacks.metrics.scored import Truth
from sfumato.attacks.support import best_window
from sfumato.mechanisms.reported_columns import StagedRelease
from sfumato.table import Column, Encoding, Schema

COLUMNS = 6


def people(n, seed):
    """Six correlated numbers, of other shapes than normal."""
    rng, loads = np.random.default_rng(seed), np.random.default_rng(9).normal(size=(2, COLUMNS))
    scores = rng.normal(size=(n, 2)) @ loads + 0.5 * rng.normal(size=(n, COLUMNS))
    return ndtr(scores / scores.std(axis=0)) ** np.linspace(1.0, 4.0, COLUMNS)


@pytest.fixture(scope="module")
def staged():
    """Known of a release of 600 people at an epsilon of 16, by somebody who knows 300 others."""
    encoding = Encoding(Schema(tuple(Column(f"c{j}", "numeric", low=0.0, high=1.0) for j in range(COLUMNS))))
    X, S, mechanism = people(600, 1), people(300, 2), StagedRelease(epsilon_record=16.0, noise="float")
    block = mechanism.release(X, rng=np.random.default_rng(3), encoding=encoding)
    noise = KnownNoise.of(mechanism.recipe_.channels, mechanism.recipe_.map.apply(S))
    known = Knowledge(block.X, encoding, columnwise=False, guided=mechanism.recipe_.map, noise=noise, sample=S)
    return known, Truth(X, encoding, rows=X, sample=S), mechanism


@pytest.fixture(scope="module")
def believed(staged):
    return BayesWindow().run(staged[0])


def everybody_could_be(known, Z):
    """The best guesses by a list so long that nobody need be smoothed: brute force."""
    many = people(30_000, 4)
    given = known.guided.apply(many)
    log = sum(
        channel.log_likelihood(Z[:, place], given[:, place])
        for place, channel in zip(known.noise.places, known.noise.channels, strict=True)
    )
    weights = np.exp(log - log.max(axis=1, keepdims=True))
    cells = np.minimum((many * 100).astype(int), 99)
    line = (np.arange(100) + 0.5) / 100
    found = np.empty((len(Z), COLUMNS))
    for column in range(COLUMNS):
        mass = np.stack([np.bincount(cells[:, column], weights=row, minlength=100) for row in weights])
        found[:, column] = best_window(line, mass, 0.05, 0.01)[0]
    return found


def test_stages_tell_as_much_as_brute_force_reads_from_them(staged, believed):
    """Likelihoods of the 300 alone, smoothed afterwards, fell short by 7 points."""
    known, truth, _ = staged
    rows = slice(0, 150)
    best = (np.abs(everybody_could_be(known, known.release[rows]) - truth.rows[rows]) <= 0.05).mean()
    assert (np.abs(believed.aimed[rows] - truth.rows[rows]) <= 0.05).mean() > best - 0.03
    assert believed.details["mean_sureness"] == pytest.approx(score_guess(believed, truth).score, abs=0.08)


def test_it_is_not_beaten_by_somebody_who_only_watched_releases(staged, believed):
    known, truth, _ = staged
    learned = score_guess(ATTACKS["learned-inversion"](trees=5).run(known), truth).score
    assert score_guess(believed, truth).score > learned + 0.05


def test_a_person_who_is_released_anew_goes_through_one_stage(staged):
    known, _, mechanism = staged
    beliefs = ListedBeliefs(known, Likely(0, np.arange(5), known.sample, np.zeros(300)), 100)
    Z = beliefs.simulated(np.arange(300), np.random.default_rng(0))
    mechanism.recipe_.map.check_rows(mechanism.recipe_.channels, Z)  # refuses rows of several stages
    shares = [(~np.isnan(Z[:, part])).any(axis=1).mean() for part in known.guided.parts]
    assert shares == pytest.approx([0.1, 0.15, 0.75], abs=0.08)


def test_made_up_people_are_spread_and_correlated_as_people_are():
    columns = (
        Column("a", "numeric", low=0.0, high=1.0),
        Column("b", "integer", low=0, high=10, missing=True),
        Column("c", "categorical", categories=("x", "y")),
    )
    groups, rng = Encoding(Schema(columns)).groups, np.random.default_rng(0)
    hidden = rng.normal(size=3000)
    kind = (hidden + rng.normal(size=3000) > 0).astype(float)
    steps = np.rint(10 * ndtr(hidden + 0.5 * rng.normal(size=3000))) / 10
    gap = (rng.random(3000) < 0.1).astype(float)
    X = np.column_stack([ndtr(hidden) ** 3, np.where(gap > 0, 0.5, steps), gap, 1 - kind, kind])
    for share in (0.05, 0.7, 1.0):
        found, after = made_up(X, groups, share, 6000, rng)
        assert len(found) == 6000
        assert np.array_equal(found[:, 2:], X[after][:, 2:])  # gaps and categories are somebody's
        assert (found[found[:, 2] > 0.5, 1] == 0.5).all()
        assert np.abs(found[:, 1] * 10 - np.rint(found[:, 1] * 10)).max() < 1e-9  # whole steps
        assert np.quantile(found[:, 0], [0.1, 0.5, 0.9]) == pytest.approx(
            np.quantile(X[:, 0], [0.1, 0.5, 0.9]), abs=0.03
        )
        there = X[:, 2] < 0.5
        kept = found[:, 2] < 0.5
        expected = np.corrcoef(X[there][:, [0, 1, 4]], rowvar=False)
        assert np.corrcoef(found[kept][:, [0, 1, 4]], rowvar=False) == pytest.approx(expected, abs=0.06)
    assert np.abs(made_up(X, groups, 1.0, 3000, rng)[0][:, 0] - X[:, 0]).mean() > 0.1  # other people than these


def test_categories_alone_are_not_copied():
    groups = Encoding(Schema((Column("c", "categorical", categories=("x", "y")),))).groups
    found, after = made_up(np.eye(2), groups, 1.0, 8000, np.random.default_rng(0))
    assert found.tolist() == np.eye(2).tolist()
    assert after.tolist() == [0, 1]
