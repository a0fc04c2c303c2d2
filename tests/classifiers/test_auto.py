"""The default learner: chosen by held-out released rows and the card, and never without saying which."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sfumato.classifiers.auto import AS_THEY_ARE, SHARES, THROUGH_NOISE, AutoClassifier
from sfumato.mechanisms import make_mechanism
from sfumato.table import Column, Encoding, Schema

PUBLIC = {"source": "public", "reason": "the form"}


def unit(columns):
    return Encoding(Schema(tuple(Column(f"c{j}", "numeric", low=0.0, high=1.0, **PUBLIC) for j in range(columns))))


def rings(n, seed=0):
    """Two classes that no single column tells apart."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, ((X[:, 0] > 0.5) == (X[:, 1] > 0.5)).astype(int)


def slopes(n, seed=0, signal=1.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return np.clip(rng.normal(0.45 + 0.12 * signal * y[:, None], 0.12, (n, 4)), 0, 1), y


def released(X, y, name, **parameters):
    mechanism = make_mechanism(name, parameters)
    block = mechanism.release(X, y, np.random.default_rng(5), encoding=unit(X.shape[1]))
    return block, mechanism.recipe_


def test_exact_rows_get_an_ordinary_learner():
    X, y = rings(1_500)
    model = AutoClassifier().fit(X, y)
    assert set(model.losses_) == {SHARES, *AS_THEY_ARE} - set(model.skipped_)
    assert model.chosen_ in ("boosting", "forest", "knn")
    others = rings(1_000, 1)
    assert (model.predict(others[0]) == others[1]).mean() > 0.95


@pytest.mark.parametrize("name", ["square-wave", "additive-noise", "random-rotation"])
def test_noise_gets_a_learner_that_reads_it(name):
    X, y = slopes(3_000)
    parameters = {"noise": "laplace", "scale": 0.1} if name == "random-rotation" else {"epsilon_record": 6.0}
    mechanism = make_mechanism(name, parameters)
    block = mechanism.release(X, y, np.random.default_rng(5), encoding=unit(4))
    model = AutoClassifier().fit(block.X, block.y, sources=mechanism.recipe_)
    assert model.chosen_ in THROUGH_NOISE
    assert model.losses_[model.chosen_] < model.losses_[SHARES]
    X, y = slopes(1_500, 1)
    assert (model.predict(mechanism.embed(X)) == y).mean() > 0.75
    np.testing.assert_allclose(model.predict_proba(mechanism.embed(X)).sum(axis=1), 1.0)


def test_where_nothing_can_be_learned_the_commonest_class_is_answered():
    X, _ = slopes(400, signal=0.0)
    y = (np.random.default_rng(3).random(400) < 0.2).astype(int)
    block, recipe = released(X, y, "square-wave", epsilon_record=0.5)
    model = AutoClassifier().fit(block.X, block.y, sources=recipe)
    assert (model.predict(X) == 0).mean() > 0.98


def test_it_is_not_worse_than_the_commonest_class_beyond_chance():
    """Twenty tables with hardly any signal: on average no loss, and none that is large."""
    lost = []
    for seed in range(20):
        X, y = slopes(300, seed, signal=0.1)
        block, recipe = released(X, y, "square-wave", epsilon_record=1.0)
        model = AutoClassifier().fit(block.X, block.y, sources=recipe)
        others = slopes(2_000, 1_000 + seed, signal=0.1)
        lost.append(max(np.mean(others[1]), 1 - np.mean(others[1])) - (model.predict(others[0]) == others[1]).mean())
    assert np.mean(lost) < 0.02
    assert max(lost) < 0.12


def test_randomized_labels_and_several_parts():
    X, y = slopes(4_000)
    keep = 0.8
    seen = np.where(np.random.default_rng(0).random(len(y)) < keep, y, 1 - y)
    first, second = (
        released(X[half], seen[half], "square-wave", epsilon_record=e)
        for half, e in ((slice(0, 2_000), 4.0), (slice(2_000, None), 8.0))
    )
    Z, part = np.vstack([first[0].X, second[0].X]), np.repeat([0, 1], 2_000)
    model = AutoClassifier().fit(Z, seen, sources=[first[1], second[1]], part=part, label_keep=keep)
    others = slopes(1_500, 1)
    assert (model.predict(others[0]) == others[1]).mean() > 0.75


def test_it_is_the_default_of_a_perturbed_classifier():
    from sfumato.classifiers.perturbed import PerturbedClassifier

    X, y = load_iris(return_X_y=True)
    mechanism = make_mechanism("square-wave", {"epsilon_record": 8.0})
    model = PerturbedClassifier(mechanism, bounds=(X.min(axis=0), X.max(axis=0))).fit(X, y)
    assert model.score(X, y) > 0.6


def test_a_category_that_no_row_of_a_fold_reports_is_no_obstacle():
    """Few rows that report one of many columns each."""
    columns = [Column(f"q{j}", "categorical", categories=("no", "yes"), **PUBLIC) for j in range(12)]
    encoding = Encoding(Schema(tuple(columns)))
    y = np.arange(40) % 2
    X = np.tile(np.column_stack([y == 0, y == 1]).astype(float), (1, 12))
    mechanism = make_mechanism("square-wave", {"epsilon_record": 2.0})
    block = mechanism.release(X, y, np.random.default_rng(5), encoding=encoding)
    seldom = (~np.isnan(block.X[:, ::2])).sum(axis=0).min()
    assert seldom < 5
    model = AutoClassifier().fit(block.X[:12], block.y[:12], sources=mechanism.recipe_)
    assert model.predict(X).shape == y.shape
