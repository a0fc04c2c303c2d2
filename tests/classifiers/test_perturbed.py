"""The scikit-learn door: perturbed training rows, embedded queries, usable wherever a classifier is."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from sfumato.core.errors import PrivacyLeakWarning, UsageError
from sfumato.learn.classifiers import PerturbedClassifier
from sfumato.mechanisms import MECHANISMS, AdditiveNoise, PrincipalLaplace, RandomProjection

X, y = load_wine(return_X_y=True)
BOUNDS = (0.5 * X.min(axis=0), X.max(axis=0))  # without 0, which multiplicative noise does not protect
LEAVES_CELLS_OUT = {name for name, made in MECHANISMS.items() if made.leaves_cells_out}
HAS_STAGES = {name for name, made in MECHANISMS.items() if made.rounds > 1}
"""Learners that need whole rows, or do not know the stages, say so."""
NUMERIC = [
    made
    for name, made in MECHANISMS.items()
    if not (made.only_categories or made.made_up or name in LEAVES_CELLS_OUT | HAS_STAGES)
]
"""For made-up rows classes must be public, and here they are read off the rows."""


@pytest.mark.parametrize("mechanism", NUMERIC, ids=lambda m: m.name)
@pytest.mark.parametrize("classifier", ["radius-vote", "naive-bayes", GaussianNB()], ids=str)
def test_every_mechanism_trains_every_kind_of_classifier(mechanism, classifier):
    model = PerturbedClassifier(mechanism(), classifier, bounds=BOUNDS, random_state=0).fit(X, y)
    assert set(model.predict(X)) <= set(y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


@pytest.mark.parametrize("name", sorted(LEAVES_CELLS_OUT))
def test_cells_that_are_left_out_are_learned_from_by_the_default(name):
    model = PerturbedClassifier(MECHANISMS[name](epsilon_record=8.0), bounds=BOUNDS, random_state=0).fit(X, y)
    assert (model.predict(X) == y).mean() > 0.6


@pytest.mark.parametrize("name", sorted(LEAVES_CELLS_OUT | HAS_STAGES))
def test_learners_that_need_whole_rows_say_so(name):
    with pytest.raises(UsageError, match="knows the stages" if name in HAS_STAGES else "needs every cell of a row"):
        PerturbedClassifier(MECHANISMS[name](), "radius-vote", bounds=BOUNDS, random_state=0).fit(X, y)


def test_a_release_in_stages_plays_its_rounds():
    model = PerturbedClassifier(MECHANISMS["staged-release"](epsilon_record=16.0), bounds=BOUNDS, random_state=0)
    model.fit(X, y)
    staged = model.mechanism_.recipe_.map
    assert np.ptp(staged.ranks.shares[0]) > 0  # without rounds both guides are flat
    assert not staged.ranks.is_like(staged.polynomials)
    assert model.score(X, y) > 0.75
    np.testing.assert_array_equal(model.predict(X), clone(model).fit(X, y).predict(X))


def test_weak_noise_costs_little_and_strong_noise_much():
    def accuracy(b):
        model = PerturbedClassifier(PrincipalLaplace(b=b), "naive-bayes", bounds=BOUNDS, random_state=1)
        return cross_val_score(model, X, y, cv=5).mean()

    assert accuracy(0.005) > 0.9
    assert accuracy(3.0) < 0.7


def test_it_works_in_a_grid_search_and_clones():
    model = PerturbedClassifier(AdditiveNoise(scale=0.1), "naive-bayes", bounds=BOUNDS, random_state=0)
    search = GridSearchCV(model, {"mechanism__scale": [0.05, 5.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"mechanism__scale": 0.05}
    assert clone(model).get_params()["mechanism__scale"] == 0.1


def test_learned_bounds_warn_and_void_the_guarantee():
    with pytest.warns(PrivacyLeakWarning, match="read off the training rows"):
        learned = PerturbedClassifier(AdditiveNoise(), "naive-bayes").fit(X, y)
    assert learned.guarantee().kind == "empirical-only"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        public = PerturbedClassifier(AdditiveNoise(), "naive-bayes", BOUNDS).fit(X, y)
    assert public.guarantee().kind == "local-dp"
    seeded = PerturbedClassifier(AdditiveNoise(), "naive-bayes", BOUNDS, random_state=0).fit(X, y)
    assert seeded.guarantee().kind == "empirical-only"


def test_labels_keep_their_own_names_and_one_class_is_answered():
    flowers = load_iris()
    names = flowers.target_names[flowers.target]
    model = PerturbedClassifier(PrincipalLaplace(b=0.05), bounds=(0, 8), random_state=0).fit(flowers.data, names)
    assert set(model.predict(flowers.data)) <= set(names)
    alone = PerturbedClassifier(RandomProjection(), bounds=(0, 8)).fit(flowers.data[:5], ["a"] * 5)
    assert list(alone.predict(flowers.data[:2])) == ["a", "a"]


def test_bounds_the_wrong_way_round_are_refused():
    with pytest.raises(UsageError, match="low <= high"):
        PerturbedClassifier(bounds=(1.0, 0.0)).fit(X, y)


@pytest.mark.parametrize(
    "bounds",
    [([0], [1]), (0, [1]), ([0] * 12, [1] * 12), ([[0] * 13], [[1] * 13]), (0, 1, 2), (0,), ([0] * 13, [1] * 14)],
    ids=str,
)
def test_bounds_of_another_shape_are_refused(bounds):
    with pytest.raises(UsageError, match="one for each of the 13 columns"):
        PerturbedClassifier(bounds=bounds).fit(X, y)


def _warned(model, rows=X):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = model.fit(rows, y)
    return fitted, [str(one.message) for one in caught]


def test_a_scaler_that_was_fitted_on_the_rows_voids_the_guarantee():
    """Whatever the bounds are, and as a data frame too; the same scaler fitted on other rows does not."""
    strong = AdditiveNoise(epsilon_record=4.0)
    for first in (StandardScaler(), PCA(5), StandardScaler().set_output(transform="pandas")):
        pipeline, said = _warned(make_pipeline(first, PerturbedClassifier(strong, "naive-bayes", (-2000, 2000))))
        guarantee = pipeline[-1].guarantee()
        assert guarantee.kind == "empirical-only"
        assert "a step before it" in guarantee.in_words()
        assert not said
    named = {f"x{place}": (-9, 9) for place in range(13)}
    frames = StandardScaler().set_output(transform="pandas").fit(pd.DataFrame(X, columns=list(named)))
    model, _ = _warned(
        PerturbedClassifier(strong, bounds=named), frames.transform(pd.DataFrame(X, columns=list(named)))
    )
    assert model.guarantee().kind == "empirical-only"
    others = StandardScaler().fit(X[::2])
    model, said = _warned(PerturbedClassifier(strong, "naive-bayes", (-9, 9)), others.transform(X))
    assert (model.guarantee().kind, said) == ("local-dp", [])


def test_values_outside_the_bounds_are_told_above_one_in_a_hundred():
    strong = AdditiveNoise(epsilon_record=4.0)
    _, said = _warned(make_pipeline(StandardScaler(), PerturbedClassifier(strong, "naive-bayes", (0, 1))))
    assert any("13 of 13 columns" in one and "a scaler" in one for one in said), said
    low, high = X.min(axis=0) - 1, X.max(axis=0) + 1
    rows = X.copy()
    rows[0, 0] = 1e6  # one in 178
    assert not _warned(PerturbedClassifier(strong, "naive-bayes", (low, high)), rows)[1]
    rows[1, 0] = 1e6
    assert any(
        "1 of 13 columns" in one for one in _warned(PerturbedClassifier(strong, "naive-bayes", (low, high)), rows)[1]
    )
    frame = pd.DataFrame(rows, columns=[f"x{place}" for place in range(13)])
    named = {name: (low[place], high[place]) for place, name in enumerate(frame)}
    assert any("1 of 13 columns" in one for one in _warned(PerturbedClassifier(strong, bounds=named), frame)[1])


def test_bounds_that_are_the_extremes_of_every_column_are_told():
    strong = AdditiveNoise(epsilon_record=4.0)
    for model in (
        make_pipeline(MinMaxScaler(), PerturbedClassifier(strong, "naive-bayes", (0, 1))),
        PerturbedClassifier(strong, "naive-bayes", (X.min(axis=0), X.max(axis=0))),
    ):
        assert any("smallest and the largest value of every column" in one for one in _warned(model)[1])
    marks = np.tile(np.arange(6.0), (178, 3))[:, :13]  # everybody gives marks, and all marks are given
    marks = np.random.default_rng(0).permuted(marks, axis=1)
    assert not _warned(PerturbedClassifier(strong, "naive-bayes", (0, 5)), marks)[1]
