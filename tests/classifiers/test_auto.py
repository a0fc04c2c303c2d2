"""The default learner: chosen by held-out released rows and the card, and never without saying which."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from sfumato.learn.classifiers.training import BLEND, SHARES, THROUGH_NOISE, AutoClassifier, Blend, _chosen
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


def test_rows_without_noise_get_the_blend():
    X, y = rings(1_500)
    model = AutoClassifier().fit(X, y)
    assert model.chosen_ == BLEND
    others = rings(1_000, 1)
    assert (model.predict(others[0]) == others[1]).mean() > 0.9


def test_the_blend_is_the_mean_of_its_parts_on_at_most_so_many_rows():
    """A rare class is kept when rows are left out, and an empty cell silences the one part that cannot read it."""
    X, y = rings(3_000)
    y[0] = 2
    model = Blend(trees=5, rounds=5, most_rows=500).fit(X, y)
    assert list(model.classes_) == [0, 1, 2]
    told = np.mean([part.predict_proba(X[:9]) for part in model.parts_], axis=0)
    np.testing.assert_allclose(model.predict_proba(X[:9]), told)
    X[0, 0] = np.nan
    assert np.isfinite(model.predict_proba(X[:3])).all()
    assert len(Blend(trees=5, rounds=5).fit(X, y).parts_) == 2


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


def test_without_signal_the_commonest_class_loses_nothing():
    """On average and at worst; the learner that is chosen would lose points if it were believed as it stands."""
    lost, believed, share = [], [], 0.4
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.random((400, 6)), (rng.random(400) < share).astype(int)
        block, recipe = released(X, y, "square-wave", epsilon_record=1.0)
        model = AutoClassifier().fit(block.X, block.y, sources=recipe)
        others = rng.random((1_000, 6))
        assert model.belief_ < 0.6
        lost.append((1 - 2 * share) * (model.predict(others) == 1).mean())
        believed.append((1 - 2 * share) * (model.classifier_.predict(others) == 1).mean())
    assert np.mean(lost) < 0.02 < np.mean(believed)
    assert max(lost) < 0.1
    assert sum(one > 0 for one in lost) <= 1


def test_a_weak_signal_of_many_columns_is_believed():
    """No single held-out row shows it, but all of them together do."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3_000)
    X = np.clip(rng.normal(0.45 + 0.1 * y[:, None], 0.15, (3_000, 20)), 0, 1)
    block, recipe = released(X, y, "square-wave", epsilon_record=1.0)
    model = AutoClassifier().fit(block.X, block.y, sources=recipe)
    assert model.chosen_ == "empirical-bayes-naive-bayes"
    assert model.belief_ > 0.7
    assert (model.predict(X) == y).mean() > 0.7


def test_another_learner_is_taken_only_where_it_is_clearly_better():
    rng = np.random.default_rng(0)
    first = rng.normal(0.6, 0.1, 400)
    near, far = first + rng.normal(-0.005, 0.1, 400), first + rng.normal(-0.02, 0.1, 400)
    losses = {SHARES: first, "a": first, "b": near}
    assert near.mean() < first.mean()
    assert _chosen(losses) == "a"
    assert _chosen({**losses, "c": far}) == "c"
    assert _chosen({SHARES: first}) == SHARES


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
    from sfumato.learn.classifiers.perturbed import PerturbedClassifier

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


def test_two_rows_in_stages_are_answered_by_the_class_shares():
    """Plain rows are asked about, which have fewer columns than what was released."""
    mechanism = make_mechanism("staged-release", {"epsilon_record": 4.0})
    X = np.array([[0.1, 0.9, 0.5], [0.7, 0.2, 0.4]])
    block = mechanism.release(X, [0, 1], rng=np.random.default_rng(0), encoding=unit(3))
    made = AutoClassifier().fit(block.X, block.y, sources=mechanism)
    assert made.chosen_ == SHARES
    assert made.predict_proba(X).tolist() == [[0.5, 0.5], [0.5, 0.5]]
