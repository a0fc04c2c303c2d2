"""Attacks on a device: the answers are those of the processor, ties included, however small the blocks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sfumato.attacks.base import ColumnMoments, Knowledge, KnownNoise
from sfumato.attacks.bayes_window import BayesWindow
from sfumato.attacks.likelihood import first_of_largest
from sfumato.attacks.linear_estimate import LinearEstimate
from sfumato.attacks.nearest_row import NearestRow, NearestSource
from sfumato.attacks.posterior_breach import PosteriorBreach
from sfumato.attacks.row_ratios import Membership
from sfumato.channels import Additive, OrMissing, RandomizedResponse, Sampled, SquareWave, draw
from sfumato.noise import Laplace, Normal, Uniform
from sfumato.table import Column, Encoding, Schema
from sfumato.table.neighbours.arrays import Arrays
from sfumato.table.neighbours.nearest import DeviceMemoryWarning, on_device


def arrays():
    """The double, and PyTorch's processor where it is installed."""
    found = [Arrays()]
    try:
        import torch  # noqa: F401
    except ImportError:
        return found
    from sfumato.table.neighbours.arrays import TorchArrays

    return [*found, TorchArrays("cpu")]


@pytest.mark.parametrize("library", arrays())
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e5, 1e9])
def test_sums_that_differ_by_rounding_alone_are_equal_whatever_their_size(library, size):
    terms = size * np.random.default_rng(0).normal(1.0, 0.3, 200)
    sums = -np.array([sum(sorted(terms)), sum(sorted(terms, reverse=True)), sum(terms), np.sum(terms)])
    assert len(set(sums)) > 1
    worse = sums.min() - 1e-8 * np.abs(sums).max()
    for order in (np.argsort(sums), np.argsort(-sums)):
        log = library.put(np.array([[worse, *sums[order]]]))
        assert int(first_of_largest(library, log, axis=1)[0][0]) == 1


def number(name, **more):
    return Column(name, "numeric", low=0.0, high=1.0, **more)


ENCODING = Encoding(
    Schema(
        (
            number("a"),
            number("b"),
            Column("steps", "integer", low=0, high=4),
            number("gaps", missing=True),
            Column("colour", "categorical", categories=("r", "g", "b")),
            Column("ill", "categorical", categories=("no", "yes"), role="label"),
        )
    )
)
LAWS = {
    "normal": Additive(Normal(0.1)),
    "laplace": Additive(Laplace(0.2), low=0.1, high=0.9),
    "uniform": Additive(Uniform(0.3)),
    "window": SquareWave.of_epsilon(2.0),
    "float window": SquareWave.of_epsilon(2.0, exact=False),
    "some cells": SquareWave.of_epsilon(2.0),
}


@pytest.fixture(scope="module")
def released():
    """What is known of a table with twins, released by one law for every number."""
    rng = np.random.default_rng(3)
    n = 260
    y = rng.integers(2, size=n)
    a, b = np.clip(rng.normal([0.4, 0.6], 0.15, (n, 2)) + 0.1 * y[:, None], 0.0, 1.0).T
    gone = rng.random(n) < 0.2
    colours = np.eye(3)[rng.integers(3, size=n)]
    X = np.column_stack([a, b, rng.integers(5, size=n) / 4, np.where(gone, 0.5, rng.random(n)), gone, colours])
    X[150:200] = X[100:150]  # twins, and people who are alike in most things
    X[200:230, 3:] = X[100:130, 3:]

    def make(law):
        channel = LAWS[law]
        channels = (channel, channel, channel, OrMissing(channel, 0.875), RandomizedResponse.of_epsilon(2.0, 3))
        if law == "some cells":  # so that many rows and people are equally likely
            channels = tuple(Sampled(one, 0.3) for one in channels)
        Z = draw(channels, X[:200].copy(), np.random.default_rng(4))
        Z[180:200], y[180:200] = Z[100:120], y[100:120]  # rows that say the same
        noise = KnownNoise.of(channels, X)
        return Knowledge(
            release=Z,
            transform=noise.on_average(np.eye(X.shape[1]), np.zeros(X.shape[1])),
            noise_covariance=noise.covariance(),
            column_moments=ColumnMoments(X[200:].mean(axis=0), np.cov(X[200:], rowvar=False)),
            encoding=ENCODING,
            labels=y[:200],
            label_keep=0.9,
            noise=noise,
            sample=X[200:],
            sample_labels=y[200:],
            register=X[:200],
            register_labels=y[:200],
            targets=X[90:200],
            target_labels=y[90:200],
            candidates=X[140:],
            candidate_labels=y[140:],
            column_distributions=tuple(np.sort(X[200:], axis=0).T),
        )

    return make


@pytest.mark.parametrize("device", arrays(), ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("law", LAWS)
def test_likelihoods_give_the_same_links(released, device, law):
    known = released(law)
    here = [attack.run(known) for attack in (NearestRow(), NearestSource(), Membership(statistic="likelihood"))]
    with on_device(device, memory=1 << 20):
        row, source, member = (
            attack.run(known) for attack in (NearestRow(), NearestSource(), Membership(statistic="likelihood"))
        )
    assert row.by_likelihood
    assert_array_equal(row.index, here[0].index)
    assert_allclose(row.distance, here[0].distance, atol=1e-9)
    assert_array_equal(source.index, here[1].index)
    assert_allclose(source.distance, here[1].distance, atol=1e-9)
    assert_allclose(member.scores, here[2].scores, atol=1e-9)


@pytest.mark.parametrize("device", arrays(), ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("law", LAWS)
def test_windows_and_beliefs_are_the_same(released, device, law):
    known = released(law)
    here, linear, breach = (attack.run(known) for attack in (BayesWindow(), LinearEstimate(), PosteriorBreach()))
    with on_device(device, memory=1 << 22):
        found = BayesWindow().run(known)
        assert_array_equal(LinearEstimate().run(known).aimed, linear.aimed)
        assert_allclose(PosteriorBreach().run(known).posterior, breach.posterior, atol=1e-12)
    assert_array_equal(found.aimed, here.aimed)
    assert_allclose(found.X, here.X, atol=1e-4)
    assert_allclose(found.details["mean_sureness"], here.details["mean_sureness"], atol=1e-4)


class Small(Arrays):
    """A card that holds fewer numbers than it was said to."""

    def put(self, matrix):
        if matrix.size > 15_000:
            raise MemoryError
        return super().put(matrix)


def test_a_card_that_runs_full_goes_on_in_smaller_blocks_and_says_so(released):
    known = released("window")
    here = NearestSource().run(known)
    with on_device(Small()), pytest.warns(DeviceMemoryWarning, match="blocks of"):
        assert_array_equal(NearestSource().run(known).index, here.index)


def test_too_many_rows_with_gaps_are_refused_in_words(released, monkeypatch):
    known = released("some cells")
    monkeypatch.setattr("sfumato.attacks.row_ratios.MOST_CELLS", 1)  # so that distances are taken
    assert NearestSource().run(known).index.shape == (200,)
    monkeypatch.setattr("sfumato.attacks.nearest_row.MOST_PAIRS_WITH_GAPS", 1)
    assert "--max-rows" in NearestSource().run(known).reason
