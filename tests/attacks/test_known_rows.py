from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from rotations import independent, knowledge, score, skewed

from sfumato.attacks.base import Abstain, ColumnMoments, Knowledge, RowPairs
from sfumato.attacks.known_rows import KnownRows, rotation_like
from sfumato.attacks.metrics.scored import Truth, recovery_curve
from sfumato.table import Encoding


@pytest.mark.parametrize("d", [1, 2, 8, 30])
def test_as_many_rows_as_columns_and_one_more_undo_a_rotation(d):
    X = skewed(400, d)
    guess = KnownRows().run(knowledge(X, known=d + 1))
    assert np.abs(guess.X - X).max() < 1e-8
    assert score(guess, X).score == 1.0


def test_nothing_is_needed_but_the_pairs():
    X = skewed(200, 5)
    known = replace(knowledge(X, known=6), column_moments=None, noise_covariance=None)
    assert_allclose(KnownRows().run(known).X, X, atol=1e-8)


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_every_rotation_falls_alike(noise):
    """Noise is turned with the rows, so that both adversaries see the same thing from two sides."""
    X = skewed(300, 6)
    first, second = knowledge(X, turn=1, known=9), knowledge(X, turn=2, known=9)
    if noise:
        blur = noise * np.random.default_rng(3).normal(size=X.shape)
        covariance = noise**2 * np.eye(6)
        one, two = (np.linalg.lstsq(X - X.mean(0), Z - Z.mean(0))[0] for Z in (first.release, second.release))
        first = replace(first, release=first.release + blur @ one, noise_covariance=covariance)
        second = replace(second, release=second.release + blur @ two, noise_covariance=covariance)
    assert_allclose(KnownRows().run(first).X, KnownRows().run(second).X, atol=1e-7)


def test_fewer_rows_recover_less():
    X = skewed(600, 10)
    curve = recovery_curve(knowledge(X, known=11), Truth(X, Encoding.unit(10), rows=X), counts=range(1, 12))
    found = list(curve.values())
    assert list(curve) == list(range(1, 12))
    assert found[0] < 0.7
    assert found[-1] == 1.0
    assert all(after >= before - 0.02 for before, after in pairwise(found)), found


def test_a_mean_that_is_known_from_a_sample_spoils_nothing_that_the_pairs_tell():
    """Eight rows show seven directions of eight columns exactly; the population only tells the sign of the last."""
    both = skewed(800, 8, seed=3)
    X, others = both[:600], both[600:]
    told = [score(KnownRows(rows).run(knowledge(X, known=8, population=others)), X).score for rows in (2, 4, 6, 7, 8)]
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_known_rows_that_repeat_each_other_leave_room_for_the_mean():
    X = skewed(300, 5)
    known = knowledge(X, known=5)
    pairs = known.known_rows
    twice = RowPairs(np.vstack([pairs.X, pairs.X[:2]]), np.append(pairs.index, pairs.index[:2]))
    assert_allclose(KnownRows().run(replace(known, known_rows=twice)).X, X, atol=1e-8)


def test_the_curve_has_three_points_by_default():
    X = skewed(100, 10)
    assert list(recovery_curve(knowledge(X, known=11), Truth(X, Encoding.unit(10), rows=X))) == [1, 5, 11]
    assert list(recovery_curve(knowledge(X, known=3), Truth(X, Encoding.unit(10), rows=X))) == [1]
    assert recovery_curve(knowledge(X), Truth(X, Encoding.unit(10), rows=X)) == {}


def test_noise_stops_it():
    X = skewed(600, 8)
    found = [score(KnownRows().run(knowledge(X, noise=sd, known=9)), X) for sd in (0.0, 0.05, 0.2, 0.5)]
    assert [result.score for result in found] == sorted((result.score for result in found), reverse=True)
    assert found[-1].score < found[-1].baseline + 0.1
    assert found[0].score == 1.0


def test_more_rows_wear_noise_down():
    X = skewed(2000, 8)
    few, many = (score(KnownRows().run(knowledge(X, noise=0.05, known=k)), X).score for k in (9, 400))
    assert many > few + 0.05


def test_a_projection_is_fitted_by_least_squares():
    """d + 1 pairs give the matrix exactly; what it projected away is filled in from the covariance."""
    X = skewed(500, 8)
    A = np.random.default_rng(0).normal(size=(4, 8))
    guess = KnownRows().run(knowledge(X, matrix=A, known=9)).X
    assert_allclose((guess - X)[np.all((guess > 0) & (guess < 1), axis=1)] @ A.T, 0, atol=1e-6)
    assert np.mean((guess - X) ** 2) < 0.8 * X.var(axis=0).mean()


def test_a_stretching_square_map_is_fitted_too():
    X = skewed(500, 6)
    A = np.random.default_rng(0).normal(size=(6, 6))
    assert_allclose(KnownRows().run(knowledge(X, matrix=A, known=7)).X, X, atol=1e-6)


def test_a_columnwise_copy_hides_nothing_and_noise_is_filtered(unit):
    X = skewed(500, 5)
    moments = ColumnMoments(X.mean(axis=0), np.cov(X, rowvar=False))
    pairs = RowPairs(X[:6], np.arange(6))
    assert_allclose(KnownRows().run(Knowledge(X, unit(5), known_rows=pairs)).X, X, atol=1e-9)
    Z = X + 0.3 * np.random.default_rng(0).normal(size=X.shape)
    known = Knowledge(Z, unit(5), known_rows=pairs, noise_covariance=0.09 * np.eye(5), column_moments=moments)
    guess = KnownRows().run(known).X
    assert ((guess - X) ** 2).mean() < 0.5 * ((np.clip(Z, 0, 1) - X) ** 2).mean()


class TestBadInput:
    def test_identical_rows_are_one_row(self):
        X = np.tile(skewed(50, 4)[:1], (20, 1))
        guess = KnownRows().run(knowledge(X, known=5))
        assert np.isfinite(guess.X).all()

    def test_constant_and_copied_columns(self):
        X = skewed(300, 6)
        X[:, 2] = 0.5
        X[:, 4] = X[:, 1]
        assert_allclose(KnownRows().run(knowledge(X, known=7)).X, X, atol=1e-7)

    def test_fewer_rows_than_columns(self):
        X = independent(8, 20)
        assert np.isfinite(KnownRows().run(knowledge(X, known=4)).X).all()

    def test_nobody_known(self):
        assert isinstance(KnownRows().run(knowledge(skewed(50, 3))), Abstain)

    def test_a_release_of_another_width_is_no_rotation(self):
        X = skewed(10, 4)
        assert not rotation_like(X, X[:, :3], np.zeros((3, 3)))
        assert rotation_like(X, X + 1, np.zeros((4, 4)))
        assert not rotation_like(X, X, np.eye(4))
