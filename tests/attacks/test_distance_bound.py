import numpy as np
import pytest
from knowing import told
from numpy.testing import assert_allclose
from rotations import haar_rotation, skewed

from sfumato.attacks.base import Abstain, Bounds, Knowledge, RowPairs
from sfumato.attacks.distance_bound import DistanceBound, column_norm_bound, row_norm_bound, tried_values, value_bound
from sfumato.attacks.metrics.score import score_guess
from sfumato.attacks.metrics.scored import Truth
from sfumato.channels import Exact, OrMissing, RandomizedResponse
from sfumato.core.errors import UsageError
from sfumato.table import Column, Encoding, Schema

MIXED = Encoding(
    Schema(
        (
            Column("a", "numeric", low=0, high=1),
            Column("colour", "categorical", categories=("red", "green", "blue")),
            Column("b", "numeric", low=0, high=1, missing=True),
        )
    )
)


def aimed(X, Z, encoding, columnwise=False, attack=None, **more):
    """One guess per secret, with the first five rows leaked."""
    known = Knowledge(
        Z,
        encoding,
        columnwise=columnwise,
        targets=X,
        images=np.arange(len(X)),
        known_rows=RowPairs(X[:5], np.arange(len(X[:5]))),
        **more,
    )
    return [(attack or DistanceBound()).run(known.hiding(secret)) for secret in range(len(encoding.groups))]


def holds(guesses, X, encoding):
    inside = []
    for guess in guesses:
        group = encoding.groups[guess.secret]
        truth = X[:, group.start : group.stop]
        inside.append(((truth >= guess.low - 1e-9) & (truth <= guess.high + 1e-9)).all(axis=1))
    return np.mean(inside)


@pytest.mark.parametrize("seed", range(20))
def test_the_published_lemma_is_never_violated_by_an_orthogonal_map(seed):
    """Lemma 4.1: one leaked column norm of site 2 bounds all column norms of site 1; Lemma 4.2: the last value."""
    rng = np.random.default_rng(seed)
    R = haar_rotation(12, rng)
    x1, x2 = rng.normal(1, 1, (12, 5)), rng.normal(1, 1, (12, 4))
    gamma = column_norm_bound(R @ x1, R @ x2, 2, float(np.linalg.norm(x2[:, 2])))
    assert (np.linalg.norm(x1, axis=0) >= gamma - 1e-9).all()
    for q in range(12):
        low = value_bound(gamma, np.delete(x1, q, axis=0).T)
        assert (np.abs(x1[q]) >= low - 1e-7).all()


@pytest.mark.parametrize("seed", range(20))
def test_the_row_version_is_never_violated_either(seed):
    rng = np.random.default_rng(seed)
    X = rng.random((40, 6))
    Z = X @ haar_rotation(6, rng).T
    gamma = row_norm_bound(Z, 3, float(np.linalg.norm(X[3])))
    assert (np.linalg.norm(X, axis=1) >= gamma - 1e-9).all()
    assert gamma[3] == pytest.approx(np.linalg.norm(X[3]))
    for q in range(6):
        assert (X[:, q] >= value_bound(gamma, np.delete(X, q, axis=1)) - 1e-7).all()


def test_a_projection_breaks_the_lemma_as_it_holds_only_on_average():
    rng = np.random.default_rng(0)
    X = rng.random((200, 30))
    bounds, truth = [], np.linalg.norm(X, axis=1)
    for _ in range(200):
        Z = X @ (rng.normal(size=(10, 30)) / np.sqrt(10)).T
        bounds.append(row_norm_bound(Z, 0, float(truth[0])))
    assert (np.array(bounds) > truth).any(), "a single projection may overshoot"
    assert (np.mean(bounds, axis=0)[1:] <= truth[1:] * 1.02).all(), "on average it does not"


def test_other_norms_than_the_euclidean_do_not_bound():
    """The "any l_p norm" of the paper's footnote 3 is wrong: largest entries instead of lengths break the bound."""
    x, y = np.array([[1.0], [1.0]]), np.array([[1.0], [1.0]])
    wrong = column_norm_bound(x, y, 0, float(np.abs(y).max()))[0]
    assert wrong > np.abs(x).max()


def test_a_bound_that_is_not_positive_says_nothing():
    assert_allclose(value_bound([0.0, 0.5, 1.0], np.array([[0.1], [0.5], [0.6]])), [0, 0, 0.8])
    assert_allclose(row_norm_bound(np.eye(3), 0, 1.0), [1, 0, 0])
    assert_allclose(row_norm_bound(np.eye(3), 0, 0.0), 0)


def test_distances_tell_the_missing_value_of_a_rotated_record():
    X = skewed(200, 6)
    rng = np.random.default_rng(0)
    guesses = aimed(X, (X - rng.random(6)) @ haar_rotation(6, rng).T, Encoding.unit(6))
    assert holds(guesses, X, Encoding.unit(6)) == 1
    result = score_guess(guesses, Truth(X, Encoding.unit(6), rows=X, targets=X))
    assert result.score > 0.97
    assert result.details["bounds_hold"] == 1
    assert result.details["mean_width"] < 0.03


def test_categories_and_missing_numbers_are_told_too():
    rng = np.random.default_rng(1)
    missing = rng.random(150) < 0.2
    b = np.where(missing, 0.5, rng.random(150))
    X = np.column_stack([rng.random(150), np.eye(3)[rng.integers(0, 3, 150)], b, missing])
    guesses = aimed(X, X @ haar_rotation(6, rng).T + 1, MIXED)
    assert holds(guesses, X, MIXED) == 1
    assert score_guess(guesses, Truth(X, MIXED, rows=X, targets=X)).score > 0.9
    assert [len(tried_values(group)) for group in MIXED.groups] == [401, 3, 402]


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_bounds_hold_under_noise_and_widen(noise):
    X = skewed(300, 5)
    rng = np.random.default_rng(2)
    Z = X @ haar_rotation(5, rng).T + rng.laplace(scale=noise, size=X.shape)
    exact = aimed(X, X, Encoding.unit(5))
    blurred = aimed(X, Z, Encoding.unit(5), noise_covariance=2 * noise**2 * np.eye(5))
    assert holds(blurred, X, Encoding.unit(5)) > 0.97
    width = [np.mean([guess.high - guess.low for guess in guesses]) for guesses in (exact, blurred)]
    assert width[1] > width[0] + 0.02


def test_a_projection_gives_wide_bounds_that_mostly_hold():
    X = skewed(300, 10)
    A = np.random.default_rng(0).normal(size=(5, 10)) / np.sqrt(5)
    guesses = aimed(X, X @ A.T, Encoding.unit(10))
    assert holds(guesses, X, Encoding.unit(10)) > 0.95


def test_the_lemma_as_an_attack_bounds_from_below():
    X = 0.5 + 0.5 * skewed(100, 4)
    Z = X @ haar_rotation(4, np.random.default_rng(0)).T
    guesses = [
        guess for guess in aimed(X, Z, Encoding.unit(4), attack=DistanceBound(lemma=True)) if isinstance(guess, Bounds)
    ]
    assert guesses
    assert holds(guesses, X, Encoding.unit(4)) == 1
    assert all((guess.high == 1).all() for guess in guesses)
    strong = score_guess(aimed(X, Z, Encoding.unit(4)), Truth(X, Encoding.unit(4), rows=X, targets=X))
    weak = score_guess(guesses, Truth(X, Encoding.unit(4), rows=X, targets=X))
    assert weak.score < strong.score, "the distances themselves tell more"


def test_overwhelming_noise_makes_every_bound_vacuous():
    X = skewed(50, 3)
    Z = X + np.random.default_rng(0).normal(scale=20, size=X.shape)
    guesses = aimed(X, Z, Encoding.unit(3), noise_covariance=400 * np.eye(3))
    result = score_guess(guesses, Truth(X, Encoding.unit(3), rows=X, targets=X))
    assert isinstance(result, Abstain)
    assert "no bound says anything" in result.reason


def test_a_randomized_answer_is_left_alone():
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.random(50), np.eye(3)[rng.integers(0, 3, 50)], rng.random(50), np.zeros(50)])
    noise = told(None, RandomizedResponse(0.8, 3), OrMissing(Exact(), 1.0))
    guesses = aimed(X, X, MIXED, columnwise=True, noise=noise)
    assert (guesses[1].high - guesses[1].low == 1).all()
    assert holds(guesses, X, MIXED) == 1


class TestBadInput:
    def test_one_column_constant_columns_and_few_rows(self):
        for X in (skewed(6, 1), np.full((6, 3), 0.5), skewed(6, 10)):
            for guess in aimed(X, X + 1, Encoding.unit(X.shape[1])):
                assert np.isfinite(guess.low).all()
                assert (guess.low <= guess.high).all()

    def test_sites_of_different_size_and_negative_lengths(self):
        with pytest.raises(UsageError, match="same number of rows"):
            column_norm_bound(np.ones((3, 2)), np.ones((4, 2)), 0, 1.0)
        with pytest.raises(UsageError, match="negative"):
            row_norm_bound(np.ones((3, 2)), 0, -1.0)

    def test_the_lemma_speaks_of_numbers_and_abstains_when_it_says_nothing(self):
        X = np.column_stack([np.zeros(3), np.eye(3), np.zeros((3, 2))])
        found = aimed(X, X, MIXED, attack=DistanceBound(lemma=True))
        assert all(isinstance(guess, Abstain) for guess in found)
        assert "numbers" in found[1].reason
        assert "says nothing of anyone" in found[0].reason
