"""Nobody tells neighbouring records apart better than stated, and the statement is not a third too high."""

from dataclasses import replace

import numpy as np
import pytest

from distinguisher import assert_honest, empirical_epsilon, proved_epsilon, worst_pair
from domains import any_records, corner_records, domain
from sfumato.channels import RandomizedResponse as Response
from sfumato.guarantee import LOCAL_DP
from sfumato.mechanisms import (
    AdditiveNoise,
    PiecewiseNoise,
    PrincipalLaplace,
    RandomizedResponse,
    SquareWaveColumns,
    StagedRelease,
)
from sfumato.noise import Streams

DRAWS = 200_000  # of each of two records
BASIS = np.array([[0.6, 0.3, -0.5, 0.2, 0.4, -0.3], [0.2, -0.7, 0.3, 0.5, -0.4, 0.1], [0.4, 0.1, 0.6, -0.5, 0.2, 0.3]])

CASES = [
    (PrincipalLaplace(basis=BASIS, basis_reason="test", epsilon_record=1.5), "nm3"),
    (PrincipalLaplace(basis=BASIS[:2], basis_reason="test", epsilon_record=2.0), "nnn3"),
    (PrincipalLaplace(basis=BASIS[:2], basis_reason="test", epsilon_record=1.0, noise="float"), "nnn3"),
    (PrincipalLaplace(basis="identity", epsilon_record=1.8), "nm"),
    (AdditiveNoise(epsilon_record=2.0), "nm3"),
    (AdditiveNoise(epsilon_record=1.2, category_epsilon=0.2), "m?"),
    (AdditiveNoise(epsilon_record=1.0, noise="float"), "n"),
    (RandomizedResponse(epsilon_record=1.5), "23?"),
    (SquareWaveColumns(epsilon_record=0.5), "n"),
    (SquareWaveColumns(epsilon_record=1.0), "nm3?"),
    (PiecewiseNoise(epsilon_record=0.5), "nm"),
    (PiecewiseNoise(epsilon_record=2.0, columns=2), "nnm"),
    (SquareWaveColumns(epsilon_record=2.0, columns=2), "nm3?"),
    (SquareWaveColumns(epsilon_record=2.0, columns=1, noise="float"), "nmo"),
]


def fitted(mechanism, shape):
    encoding = domain(shape)
    return mechanism.fit(any_records(encoding, np.random.default_rng(0), 20), encoding=encoding)


@pytest.mark.parametrize(("mechanism", "shape"), CASES, ids=str)
def test_the_best_distinguisher_reaches_the_claim_and_no_more(mechanism, shape):
    mechanism = fitted(mechanism, shape)
    stated = mechanism.guarantee()
    assert stated.record <= 2
    assert (stated.kind == LOCAL_DP) == (getattr(mechanism, "noise", "exact") == "exact")
    assert_honest(proved_epsilon(mechanism, DRAWS, Streams.seeded(7)), stated.record)


def cost_of_every_draw(mechanism, rng):
    """For all pairs of corner records: ln of the largest ratio that one channel's own draws show, channel by channel.

    How strong each channel's noise really is, the contract of mechanisms measures (`check_noise_is_as_stated`).
    """
    recipe = mechanism.recipe_
    given = recipe.map.apply(corner_records(mechanism.encoding_))
    costs = []
    for place, channel in zip(recipe.places, recipe.channels, strict=True):
        cells, which = np.unique(given[:, place], axis=0, return_inverse=True)
        log = channel.log_likelihood(channel.draw(np.repeat(cells, 2_000, axis=0), rng), cells)
        costs.append((log[:, :, None] - log[:, None, :]).max(axis=0)[np.ix_(which, which)])
    return np.array(costs)


@pytest.mark.parametrize(
    ("mechanism", "shape"), [case for case in CASES if getattr(case[0], "noise", "exact") == "exact"], ids=str
)
def test_every_draw_costs_what_is_stated_of_it(mechanism, shape):
    """One released column by itself, and all that one row reports together: no pair of records is further apart, and
    some pair is that far."""
    mechanism = fitted(mechanism, shape)
    stated, recipe = mechanism.guarantee(), mechanism.recipe_
    costs = cost_of_every_draw(mechanism, Streams.seeded(3).generator(0))
    alone = stated.column if recipe.is_columnwise else stated.component
    assert 0.98 * alone < costs.max() <= alone * (1 + 1e-6)
    told = costs if recipe.reports is None else np.sort(costs, axis=0)[-recipe.reports :]
    assert 0.95 * stated.record < told.sum(axis=0).max() <= stated.record * (1 + 1e-6)


@pytest.mark.parametrize("made", [SquareWaveColumns, PiecewiseNoise, StagedRelease], ids=lambda one: one.name)
def test_of_columns_that_tell_unequally_the_most_telling_ones_count(made):
    """A row reports two of three columns: the worst row is the one that reports the two that tell most."""
    weak, strong = (fitted(made(epsilon_record=epsilon, columns=2), "nnn").recipe_ for epsilon in (2.0, 8.0))
    first, second = (recipe.channels[0].epsilons(recipe.encoding.groups[:1]).record for recipe in (weak, strong))
    assert second > 2 * first
    for places in ((0,), (1,), (0, 2)):
        channels = [(strong if place in places else weak).channels[place] for place in range(3)]
        each = sorted(second if place in places else first for place in range(3))
        record = replace(weak, channels=(*channels, *weak.channels[3:])).epsilons().record
        assert record == pytest.approx(sum(each[-2:]))


class TooQuiet(PrincipalLaplace):
    """The planted fault: the noise is two thirds of what is stated."""

    def perturb(self, X, y, rng):
        block = super().perturb(X, y, rng)
        scores = self.embed(X)
        block.X[:] = scores + (block.X - scores) * 2 / 3
        return block


class TooTrue(RandomizedResponse):
    """The planted fault: one record in four is released as it is."""

    def perturb(self, X, y, rng):
        block = super().perturb(X, y, rng)
        back = rng.random(len(X)) < 1 / 4
        block.X[back] = X[back]
        return block


class OneMore(SquareWaveColumns):
    """The planted fault: every record reports one column more than the epsilon was shared among."""

    def perturb(self, X, y, rng):
        self.recipe_ = replace(self.recipe_, reports=self.columns_ + 1)
        block = super().perturb(X, y, rng)
        self.recipe_ = replace(self.recipe_, reports=self.columns_)
        return block


class TooNear(SquareWaveColumns):
    """The planted fault: a threshold that is a fifth too high."""

    def perturb(self, X, y, rng):
        stated, one = self.recipe_, self.recipe_.channels[0]
        wrong = replace(one, near=1.2 * one.near)
        self.recipe_ = replace(stated, channels=(wrong,))
        block = super().perturb(X, y, rng)
        self.recipe_ = stated
        return block


class NotClipped(AdditiveNoise):
    """The planted fault: what lies beyond the bounds is not clipped, and lies half a range further."""

    def perturb(self, X, y, rng):
        block = super().perturb(X, y, rng)
        block.X[:] += np.where(X == 1.0, 0.5, 0.0)
        return block


class SameNoise(AdditiveNoise):
    """The planted fault: one draw of noise serves all columns, so that their differences are released as they are."""

    def perturb(self, X, y, rng):
        block = super().perturb(X, y, rng)
        block.X[:] = X + (block.X - X)[:, :1]
        return block


class SameNoiseForAll(AdditiveNoise):
    """The planted fault: one draw of noise serves all rows."""

    def perturb(self, X, y, rng):
        block = super().perturb(X, y, rng)
        block.X[:] = X + (block.X - X)[:1]
        return block


@pytest.mark.parametrize("faulty", [SameNoise(epsilon_record=2.0), SameNoiseForAll(epsilon_record=2.0)], ids=str)
def test_noise_that_is_used_again_is_caught(faulty):
    """Either more is proved than stated, or far less, since draws are not what their law says."""
    faulty = fitted(faulty, "nn")
    with pytest.raises(AssertionError, match="was proved"):
        assert_honest(proved_epsilon(faulty, DRAWS, Streams.seeded(7)), faulty.guarantee().record)


@pytest.mark.parametrize(
    ("faulty", "shape"),
    [
        (NotClipped(epsilon_record=1.0), "n"),
        (OneMore(epsilon_record=1.5), "nnn"),
        (TooNear(epsilon_record=1.0), "n"),
        (TooQuiet(basis=BASIS, basis_reason="test", epsilon_record=1.5), "nm3"),
        (TooTrue(epsilon_record=1.5), "23?"),
    ],
    ids=str,
)
def test_noise_that_is_too_small_is_caught(faulty, shape):
    faulty = fitted(faulty, shape)
    with pytest.raises(AssertionError, match="was proved, and only"):
        assert_honest(proved_epsilon(faulty, DRAWS, Streams.seeded(7)), faulty.guarantee().record)


def test_a_claim_that_is_too_small_is_caught():
    """Right noise, wrong arithmetic: the column's epsilon stated as the record's."""
    mechanism = fitted(AdditiveNoise(epsilon_record=2.0), "nn")
    with pytest.raises(AssertionError, match="was proved, and only"):
        assert_honest(proved_epsilon(mechanism, DRAWS, Streams.seeded(7)), mechanism.guarantee().column)


@pytest.mark.parametrize(("classes", "epsilon"), [(2, 1.0), (3, 2.0), (10, 1.5)])
def test_a_private_label(classes, epsilon):
    response = Response.of_epsilon(epsilon, classes)
    streams = Streams.seeded(5)
    ratios = []
    for label in (0, 1):
        codes = response.draw_codes(np.full(DRAWS, label), streams.generator(label))
        log = response.log_likelihood(np.eye(classes)[codes], np.eye(classes)[:2])
        ratios.append(log[:, 0] - log[:, 1])
    assert_honest(empirical_epsilon(*ratios, response.epsilon), response.epsilon)


def test_the_worst_pair_is_what_the_claim_is_about():
    mechanism = fitted(PrincipalLaplace(basis=BASIS, basis_reason="test", noise="float"), "nm3")
    x, other = worst_pair(mechanism)
    steep = np.array([channel.steepness for channel in mechanism.recipe_.channels])
    moved = np.abs(mechanism.embed(x[None]) - mechanism.embed(other[None])) * steep
    assert moved.sum() == pytest.approx(mechanism.guarantee().record, rel=1e-8)
