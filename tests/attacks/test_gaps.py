"""Adversaries and cells that are not reported: what they learn comes from the others, and nothing is invented."""

import numpy as np
import pytest
from knowing import told
from numpy.testing import assert_allclose

from sfumato.attacks import ATTACKS
from sfumato.attacks.base import Abstain, ColumnMoments, Knowledge, Transform
from sfumato.attacks.likelihood import covariance_of
from sfumato.attacks.linear_estimate import HardInterval, KnownTransform, LinearEstimate, NaiveEstimate
from sfumato.attacks.metrics.privacy import auc
from sfumato.attacks.nearest_row import AttributeInference, NearestRow
from sfumato.attacks.posterior_breach import PosteriorBreach
from sfumato.attacks.row_ratios import Membership
from sfumato.attacks.support import nearest_reported, patterns, reported_mean
from sfumato.channels import Additive, Exact, RandomizedResponse, Sampled, draw
from sfumato.noise import Laplace, Normal, Uniform

D = 10


def people(n, seed):
    """Far from the middle of their ranges, and hanging together."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 1))
    return 0.05 + 0.3 / (1 + np.exp(-(common + 0.5 * rng.normal(size=(n, D)))))


@pytest.fixture(scope="module")
def world():
    """300 people whose cells are reported seven times in ten, with hardly any noise, and 300 strangers."""
    X, strangers = people(300, 1), people(300, 2)
    noise = told(*[Sampled(Additive(Laplace(0.008)), 0.7)] * D, given=strangers)
    Z = draw(noise.channels, X, np.random.default_rng(3))
    known = {
        "noise": noise,
        "noise_covariance": noise.covariance(),
        "transform": Transform.identity(D),
        "column_moments": ColumnMoments(strangers.mean(axis=0), np.cov(strangers, rowvar=False)),
        "column_distributions": tuple(np.sort(strangers, axis=0).T),
        "candidates": np.vstack([X, strangers]),
        "targets": X,
        "images": np.arange(300),
    }
    return X, Z, known


def knowledge(world, unit, **more):
    _, Z, known = world
    return Knowledge(Z, unit(D), **{**known, **more})


@pytest.mark.parametrize("attack", [NaiveEstimate, KnownTransform, LinearEstimate])
def test_values_that_nobody_reported_are_guessed_by_what_is_usual(world, unit, attack):
    X, Z, _ = world
    guess = attack().run(knowledge(world, unit)).X
    gaps = np.isnan(Z)
    assert np.abs(guess - X)[~gaps].max() < 0.15
    assert np.abs(guess[gaps] - 0.5).min() > 0.15, "the middle of the range is nobody's value"
    usual = np.broadcast_to(X.mean(axis=0), X.shape)[gaps]
    error, baseline = np.mean((guess[gaps] - X[gaps]) ** 2), np.mean((usual - X[gaps]) ** 2)
    assert error < (0.5 if attack is LinearEstimate else 1.2) * baseline


def test_the_linear_estimate_of_a_row_is_the_regression_on_its_own_cells(world, unit):
    _, Z, known = world
    guess = LinearEstimate().run(knowledge(world, unit)).X
    mean, S = known["column_moments"]
    for row in range(20):
        seen = np.flatnonzero(~np.isnan(Z[row]))
        inside = S[np.ix_(seen, seen)] + known["noise_covariance"][np.ix_(seen, seen)]
        one = mean + S[:, seen] @ np.linalg.solve(inside, Z[row, seen] - mean[seen])
        assert_allclose(guess[row], np.clip(one, 0, 1), atol=1e-5)


@pytest.mark.parametrize("statistic", ["likelihood", "distance"])
def test_members_are_still_found(world, unit, statistic):
    scores = Membership(statistic).run(knowledge(world, unit)).scores
    assert auc(scores[:300], scores[300:]) > (0.95 if statistic == "likelihood" else 0.8)


def test_people_are_still_linked_and_their_secrets_inferred(world, unit):
    X, Z, _ = world
    assert np.mean(NearestRow().run(knowledge(world, unit)).index == np.arange(300)) > 0.9
    guess = AttributeInference(neighbours=1).run(knowledge(world, unit).hiding(0)).X[:, 0]
    told_of = ~np.isnan(Z[:, 0])
    assert np.abs(guess - X[:, 0])[told_of].mean() < 0.5 * np.abs(guess - X[:, 0])[~told_of].mean()


def test_a_column_that_nobody_reports_has_no_secret_to_infer(world, unit):
    Z = world[1].copy()
    Z[:, 0] = np.nan
    found = AttributeInference().run(Knowledge(Z, unit(D), targets=world[0]).hiding(0))
    assert isinstance(found, Abstain)
    assert "reports" in found.reason


def test_beliefs_move_only_by_what_is_reported(world, unit):
    _, Z, _ = world
    guess = PosteriorBreach().run(knowledge(world, unit))
    for slot in range(D):
        mine = [place for place, item in enumerate(guess.properties) if item.slot == slot]
        gaps = np.isnan(Z[:, slot])
        assert_allclose(guess.posterior[np.ix_(gaps, mine)], np.tile(guess.prior[mine], (gaps.sum(), 1)), atol=1e-9)
        assert guess.posterior[np.ix_(~gaps, mine)].max() > 0.7


def test_categories_that_are_left_out(categorical):
    law = Sampled(RandomizedResponse(0.5, 3), 0.6)
    Z = np.vstack([np.eye(3), np.full((1, 3), np.nan)])
    distributions = tuple(np.sort(np.repeat(np.eye(3), [60, 30, 10], axis=0), axis=0).T)
    known = Knowledge(Z, categorical(3), noise=told(law), column_distributions=distributions)
    guess = PosteriorBreach().run(known)
    assert_allclose(guess.posterior[3], [0.6, 0.3, 0.1])
    joint = np.array([0.6, 0.3, 0.1]) * np.array([0.5, 0.25, 0.25])
    assert_allclose(guess.posterior[0], joint / joint.sum())


def test_a_cell_without_noise_is_certain_where_it_is_reported(unit):
    X = np.random.default_rng(0).random((50, 3))
    noise = told(*[Sampled(Exact(), 0.5)] * 3)
    Z = draw(noise.channels, X, np.random.default_rng(1))
    known = Knowledge(Z, unit(3), noise=noise, candidates=np.vstack([X, 1 - X]), images=np.arange(50), secret=0)
    bounds = HardInterval().run(known)
    gaps = np.isnan(Z[:, 0])
    assert (bounds.high - bounds.low == np.where(gaps, 1.0, 0.0)[:, None]).all()
    scores = Membership().run(known).scores
    assert auc(scores[:50], scores[50:]) > 0.85


def test_bounded_noise_rules_nothing_out_where_nothing_is_reported(unit):
    noise = told(Sampled(Additive(Uniform(low=-0.1, high=0.1)), 0.5))
    known = Knowledge(np.array([[0.5], [np.nan]]), unit(1), noise=noise, images=np.arange(2), secret=0)
    bounds = HardInterval().run(known)
    assert_allclose(bounds.low[:, 0], [0.4, 0.0])
    assert_allclose(bounds.high[:, 0], [0.6, 1.0])


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=lambda attack: attack.name)
def test_what_is_believed_does_not_depend_on_what_stands_in_the_gap(world, unit, attack):
    """An attack that reads gaps gives finite guesses; the others say that they cannot."""
    known = knowledge(world, unit, sample=people(100, 4), register=world[0], secret=0)
    guess = attack().run(known)
    if not attack.reads_gaps:
        assert isinstance(guess, Abstain)
    for value in vars(guess).values():
        assert not isinstance(value, np.ndarray) or np.isfinite(value).all()


def test_mixed_components_that_are_left_out(unit):
    """Turned back row by row: exactly as by hand."""
    rng = np.random.default_rng(0)
    A, X = rng.normal(size=(6, 4)), rng.random((40, 4))
    noise = told(*[Sampled(Additive(Normal(0.01)), 0.8)] * 6)
    Z = draw(noise.channels, X @ A.T, rng)
    moments = ColumnMoments(np.full(4, 0.5), np.eye(4) / 12)
    known = Knowledge(
        Z, unit(4), columnwise=False, transform=Transform(A, np.zeros(6)), noise=noise, column_moments=moments
    )
    guess = KnownTransform(clip=False).run(known).X
    for row in range(40):
        seen = ~np.isnan(Z[row])
        by_hand = 0.5 + np.linalg.pinv(A[seen]) @ (Z[row, seen] - A[seen] @ np.full(4, 0.5))
        assert_allclose(guess[row], by_hand, atol=1e-9)


class TestDistances:
    def test_by_brute_force(self):
        rng = np.random.default_rng(0)
        Q, R = rng.random((15, 4)), rng.random((20, 4))
        R[rng.random(R.shape) < 0.4] = np.nan
        distance, index = nearest_reported(Q, R, k=3)
        usual = [np.log1p(np.mean((q[:, None] - r[~np.isnan(r)]) ** 2)) for q, r in zip(Q.T, R.T, strict=True)]
        brute = np.array([[np.sum(np.where(np.isnan(r), usual, (q - r) ** 2)) for r in R] for q in Q])
        assert (index == np.argsort(brute, axis=1, kind="stable")[:, :3]).all()
        assert_allclose(distance, np.sqrt(np.sort(brute, axis=1)[:, :3]))
        back, _ = nearest_reported(R, Q)
        assert_allclose(back[:, 0], np.sqrt(brute.min(axis=0)))

    def test_a_row_that_says_nothing_is_near_to_nobody(self):
        rows = np.array([[np.nan, np.nan], [20.0, 20.0], [80.0, 90.0], [20.0, np.nan]])
        assert nearest_reported(np.array([[21.0, 20.0], [80.0, 89.0]]), rows)[1].ravel().tolist() == [1, 2]

    def test_patterns_cover_every_row_once(self):
        Z = np.where(np.random.default_rng(0).random((50, 3)) < 0.5, np.nan, 1.0)
        rows = np.concatenate([found for found, _ in patterns(Z)])
        assert np.array_equal(np.sort(rows), np.arange(50))
        for found, columns in patterns(Z):
            assert (~np.isnan(Z[found]) == np.isin(np.arange(3), columns)).all()

    def test_means_and_covariances_of_what_is_reported(self):
        Z = np.array([[1.0, 2.0, np.nan], [3.0, np.nan, np.nan], [2.0, 4.0, np.nan]])
        assert reported_mean(Z).tolist() == [2.0, 3.0, 0.5]
        found = covariance_of(Z)
        assert found[0, 0] == 1.0
        assert found[0, 1] == found[1, 0]
        assert not found[2].any()
