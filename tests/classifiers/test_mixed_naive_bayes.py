from __future__ import annotations

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from sfumato.learn.classifiers.factory import make_classifier
from sfumato.learn.classifiers.survey_bits import MixedNaiveBayes, one_hot_groups


@parametrize_with_checks([MixedNaiveBayes()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def census(rows: int, seed: int):
    """Two numbers and three categories, one of forty countries of which most are rare; the first class is common."""
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < 0.24).astype(int)
    numbers = rng.normal(0.4 + 0.15 * y[:, None], 0.15, (rows, 2))
    countries = np.where(rng.random(rows) < 0.9, 0, rng.integers(1, 40, rows))
    jobs = np.where(rng.random(rows) < 0.5, rng.integers(0, 8, rows), 3 + 2 * y)
    sexes = (rng.random(rows) < 0.4 + 0.3 * y).astype(int)
    return np.hstack([numbers, np.eye(40)[countries], np.eye(8)[jobs], np.eye(2)[sexes]]), y


def test_rare_categories_do_not_outweigh_everything():
    """GaussianNB takes one-hot columns for numbers, and errs far more often than the commonest class does."""
    X, y = census(2_000, 0)
    queries, truth = census(2_000, 1)
    commonest = np.mean(truth != 0)
    error = np.mean(make_classifier("naive-bayes").fit(X, y).predict(queries) != truth)
    assert np.mean(GaussianNB().fit(X, y).predict(queries) != truth) > commonest + 0.1
    assert error < commonest - 0.05


def test_numbers_alone_are_gaussian_naive_bayes():
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 400)
    X = rng.normal(y[:, None], 1 + y[:, None], (400, 4))
    peer = GaussianNB().fit(X, y)
    np.testing.assert_allclose(MixedNaiveBayes().fit(X, y).predict_proba(X), peer.predict_proba(X), atol=1e-6)


def test_categories_have_smoothed_frequencies():
    """By hand: three a and one b of class 0, two b of class 1, one pseudo-row with shares (4/8, 4/8)."""
    X, y = np.array([[1, 0]] * 3 + [[0, 1]] * 3, dtype=float), [0, 0, 0, 0, 1, 1]
    model = MixedNaiveBayes().fit(X, y)
    a = np.array([4 / 6 * 3.5 / 5, 2 / 6 * 0.5 / 3])
    np.testing.assert_allclose(model.predict_proba([[1, 0]])[0], a / a.sum())


def test_a_class_of_one_value_is_not_certain():
    X, y = np.array([[0.0], [0.0], [0.0], [0.5], [0.2], [0.9]]), [0, 0, 0, 1, 1, 1]
    assert 0.5 < MixedNaiveBayes().fit(X, y).predict_proba([[0.0]])[0, 0] < 0.999


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [([3, 2], [[0, 1, 2], [3, 4]]), ([1, 4], [[0], [1, 2, 3, 4]]), ([2, 1, 1], [[0, 1], [2], [3]])],
)
def test_columns_of_one_category_are_found(sizes, groups):
    rng = np.random.default_rng(5)
    parts = [
        np.eye(size)[rng.integers(0, size, 50)] if size > 1 else rng.integers(0, 2, (50, 1)).astype(float)
        for size in sizes
    ]
    found, numbers = one_hot_groups(np.hstack([*parts, rng.random((50, 1))]))
    assert [group.tolist() for group in found] == groups
    assert numbers.tolist() == [sum(sizes)]


def test_a_parameter_that_makes_no_sense_is_named():
    with pytest.raises(ValueError, match="'pseudo_rows' parameter"):
        MixedNaiveBayes(pseudo_rows=0).fit([[0.0], [1.0]], [0, 1])
