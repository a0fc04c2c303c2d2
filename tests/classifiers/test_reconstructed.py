"""Learners on reconstructed values: recovered laws, closed forms, parts, categories, perturbed queries."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import laplace, norm
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from sfumato.core.errors import CardError, TableError
from sfumato.learn.classifiers import OnReconstruction, ReconstructedNaiveBayes, ReconstructedTree
from sfumato.learn.classifiers.class_densities import Slice, UnsettledWarning, class_densities, columns_of, slices
from sfumato.learn.classifiers.on_reconstruction import Assignment, by_rank, moved_codes
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.mechanisms import AdditiveNoise, MultiplicativeNoise, RandomRotation
from sfumato.reconstruction.evidence import Cells
from sfumato.reconstruction.expectation_maximization import ExpectationMaximization
from sfumato.reconstruction.parzen_program import ConvergenceError
from sfumato.table import Column, Encoding, Schema

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from sfumato.auditing.figures.sets import ATTRIBUTES, agrawal_srikant

LEARNERS = [ReconstructedNaiveBayes(), ReconstructedTree(), OnReconstruction(GaussianNB())]


@parametrize_with_checks(LEARNERS)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def people(rows, function, seed=0):
    low, high = np.array(list(ATTRIBUTES.values())).T
    X, y = agrawal_srikant(np.random.default_rng(seed), rows, function)
    return (X - low) / (high - low), y


def normals(rows, seed=0):
    """Two normal classes in [0, 1], nearly never clipped, 60% of the second."""
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < 0.6).astype(np.int64)
    return np.clip(rng.normal(np.where(y, 0.6, 0.35), 0.08, rows), 0, 1)[:, None], y


def noisy(X, y, seed=1, **parameters):
    mechanism = AdditiveNoise(**{"law": "normal", "scale": 1 / 3.92, **parameters}).fit(X, y)
    return mechanism, mechanism.perturb(X, y, np.random.default_rng(seed)).X


@pytest.mark.parametrize("law", ["normal", "uniform"])
def test_the_by_class_tree_beats_the_naive_one_at_privacy_100(law):
    """F1 is a rule of age alone; noise as wide as the range hides it from a tree that takes values as they are."""
    X, y = people(4000, 1)
    test, truth = people(3000, 1, seed=9)
    mechanism, Z = noisy(X, y, law=law, scale=1 / 3.92 if law == "normal" else 1 / (0.95 * np.sqrt(12)))
    naive = ReconstructedTree().fit(Z, y).score(test, truth)
    aware = ReconstructedTree().fit(Z, y, sources=mechanism).score(test, truth)
    assert aware > 0.9
    assert naive < 0.82
    assert OnReconstruction(GaussianNB()).fit(Z, y, sources=mechanism).score(test, truth) > naive


def test_class_densities_are_recovered_and_not_with_noise_30_percent_off():
    X, y = normals(20_000)
    mechanism, Z = noisy(X, y, scale=0.15)
    wrong = AdditiveNoise(law="normal", scale=0.15 * 0.7).fit(X, y)

    def spreads(source):
        column = slices([Part(Z, y, source)])[0]
        found = class_densities(column, 2, intervals=50)
        middles = found.cells.middles
        means = found.mass @ middles
        return means, np.sqrt(found.mass @ middles**2 - means**2)

    means, deviations = spreads(mechanism)
    np.testing.assert_allclose(means, [0.35, 0.6], atol=0.01)
    np.testing.assert_allclose(deviations, 0.08, rtol=0.2)
    assert (spreads(wrong)[1] > 0.08 * 1.4).all(), "too little noise taken away leaves too wide classes"


def test_naive_bayes_gives_the_probabilities_of_the_closed_form():
    X, y = normals(20_000)
    mechanism, Z = noisy(X, y, scale=0.1)
    model = ReconstructedNaiveBayes().fit(Z, y, sources=mechanism)
    x = np.linspace(0.35, 0.6, 26)
    true = 0.6 * norm.pdf(x, 0.6, 0.08) / (0.6 * norm.pdf(x, 0.6, 0.08) + 0.4 * norm.pdf(x, 0.35, 0.08))
    assert np.abs(model.predict_proba(x[:, None])[:, 1] - true).mean() < 0.05
    naive = ReconstructedNaiveBayes().fit(Z, y).predict_proba(x[:, None])[:, 1]
    assert np.abs(naive - true).mean() > 0.1


def test_perturbed_rows_are_classified_by_the_blurred_densities():
    """P(class | z) of two normals with normal noise is known: deviations become sqrt(.08^2 + s^2)."""
    X, y = normals(20_000)
    mechanism, Z = noisy(X, y, scale=0.1)
    model = ReconstructedNaiveBayes().fit(Z, y, sources=mechanism)
    stronger = AdditiveNoise(law="normal", scale=0.3).fit(X, y)
    z = np.linspace(0.0, 1.0, 41)
    wide = np.hypot(0.08, 0.3)
    true = 0.6 * norm.pdf(z, 0.6, wide) / (0.6 * norm.pdf(z, 0.6, wide) + 0.4 * norm.pdf(z, 0.35, wide))
    found = model.predict_proba_released(z[:, None], stronger)[:, 1]
    np.testing.assert_allclose(found, true, atol=0.05)
    assert np.abs(model.predict_proba(z[:, None])[:, 1] - true).max() > 0.3, "plain and perturbed rows differ"
    assert set(model.predict_released(z[:, None], stronger)) <= {0, 1}


def mixed(rows=20_000, seed=0):
    """A number that may be missing, a whole number and a category, all different in the two classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=rows)
    missing = rng.random(rows) < np.where(y, 0.4, 0.1)
    number = np.where(missing, 0.5, np.clip(rng.normal(np.where(y, 0.7, 0.4), 0.1, rows), 0, 1))
    whole = rng.binomial(4, np.where(y, 0.7, 0.3)) / 4
    category = np.where(rng.random(rows) < np.where(y, 0.7, 0.2), 0, rng.integers(1, 3, size=rows))
    columns = (
        Column("number", "numeric", low=10.0, high=30.0, missing=True, source="public", reason="test"),
        Column("whole", "integer", low=0, high=4, source="public", reason="test"),
        Column("category", "categorical", categories=("a", "b", "c"), source="public", reason="test"),
    )
    X = np.column_stack([number, missing, whole, np.eye(3)[category]]).astype(np.float64)
    return X, y, Encoding(Schema(columns))


def released(mechanism, X, seed):
    """As a written release is read again: a cell reported missing shows no value."""
    Z = mechanism.perturb(X, None, np.random.default_rng(seed)).X
    Z[Z[:, 1] > 0.5, 0] = 0.5
    return Z


@pytest.mark.parametrize("mechanism", [AdditiveNoise(law="normal", scale=0.2, category_epsilon=1.5),
                                       MultiplicativeNoise(law="uniform", low=1, high=2, category_epsilon=1.5)],
                         ids=["additive", "multiplicative"])  # fmt: skip
def test_every_kind_of_column_is_freed_from_its_noise(mechanism):
    X, y, encoding = mixed()
    if isinstance(mechanism, MultiplicativeNoise):  # a range that contains 0 is refused
        columns = [c if c.name != "whole" else Column("whole", "integer", low=1, high=5, source="public", reason="test")
                   for c in encoding.schema.columns]  # fmt: skip
        encoding = Encoding(Schema(tuple(columns)))
    mechanism.fit(X, y, encoding=encoding)
    parts = [Part(released(mechanism, X, 1), y, mechanism)]
    columns = slices(parts)
    number, whole, category = (class_densities(column, 2) for column in columns)
    assert not any("values" in vars(part) for column in columns for part in column)  # of all: another table in memory
    np.testing.assert_allclose(number.missing, [0.1, 0.4], atol=0.03)
    np.testing.assert_allclose((number.mass @ number.cells.middles - 10) / 20, [0.4, 0.7], atol=0.03)
    assert whole.cells.atoms
    np.testing.assert_allclose(whole.mass @ np.arange(5), [1.2, 2.8], atol=0.25)
    np.testing.assert_allclose(category.mass, [[0.2, 0.4, 0.4], [0.7, 0.15, 0.15]], atol=0.03)
    Z = Assignment().rows(parts, 2, np.random.default_rng(0))
    for code in range(2):
        mine, true = Z[y == code], X[y == code]
        np.testing.assert_allclose(mine.mean(axis=0), true.mean(axis=0), atol=0.06)
    assert (Z[:, 3:].sum(axis=1) == 1).all()
    assert np.corrcoef(Z[:, 0], X[:, 0])[0, 1] > np.corrcoef(parts[0].Z[:, 0], X[:, 0])[0, 1] - 0.02
    test, truth, _ = mixed(4000, seed=5)
    clean = ReconstructedNaiveBayes().fit(X, y).score(test, truth)
    model = ReconstructedNaiveBayes().fit(parts[0].Z, y, sources=mechanism)
    assert model.score(test, truth) > clean - 0.02
    queries = released(mechanism, test, 6)
    assert np.mean(model.predict_released(queries, mechanism) == truth) > np.mean(model.predict(queries) == truth)
    assert ReconstructedTree().fit(parts[0].Z, y, sources=mechanism).score(test, truth) > clean - 0.06


def test_randomized_labels_are_undone_in_the_densities():
    X, y = normals(30_000)
    mechanism, Z = noisy(X, y, scale=0.1)
    rng = np.random.default_rng(3)
    seen = np.where(rng.random(len(y)) < 0.7, y, 1 - y)
    model = ReconstructedNaiveBayes().fit(Z, seen, sources=mechanism, label_keep=0.7)
    np.testing.assert_allclose(model.class_prior_, [0.4, 0.6], atol=0.02)
    middles = 0.5 * (model.edges_[0][1:] + model.edges_[0][:-1])
    np.testing.assert_allclose(model.mass_[0] @ middles, [0.35, 0.6], atol=0.02)
    taken_as_true = ReconstructedNaiveBayes().fit(Z, seen, sources=mechanism)
    assert abs(taken_as_true.mass_[0][0] @ middles - 0.35) > 0.05


def test_parts_with_different_noise_make_one_joint_estimate():
    """A few rows with weak noise and many with strong: together better than either, and than one law for all."""
    X, y = people(6000, 1)
    test, truth = people(3000, 1, seed=9)
    part = (np.arange(len(X)) % 8 > 0).astype(np.int64)
    weak, strong = (AdditiveNoise(law="normal", scale=s).fit(X, y) for s in (0.1, 0.5))
    Z = np.where(part[:, None] == 0, weak.perturb(X, y, np.random.default_rng(1)).X,
                 strong.perturb(X, y, np.random.default_rng(2)).X)  # fmt: skip
    joint = ReconstructedNaiveBayes().fit(Z, y, sources=[weak, strong], part=part).score(test, truth)
    wrong = ReconstructedNaiveBayes().fit(Z, y, sources=strong).score(test, truth)
    assert joint > 0.88
    assert joint > wrong + 0.1
    with pytest.raises(TableError, match="outside what this noise"):
        ReconstructedNaiveBayes().fit(Z, y, sources=weak)
    mixture = ReconstructedNaiveBayes().fit(np.where(part[:, None] == 0, X, Z), y, sources=[None, strong], part=part)
    assert mixture.score(test, truth) > 0.88, "some parts may have no noise at all"


def test_all_classes_at_once_are_as_one_by_one():
    X, y = normals(3000)
    mechanism, Z = noisy(X, y, scale=0.2)
    column = slices([Part(Z, y, mechanism)])[0]
    together = class_densities(column, 2, intervals=30)
    apart = class_densities(column, 2, intervals=30, method=ExpectationMaximization(smooth=True, points=100))
    np.testing.assert_allclose(together.cells.edges, apart.cells.edges)
    assert 0.5 * np.abs(together.mass - apart.mass).sum(axis=1).max() < 0.02


def test_ranks_become_quantiles_and_keep_their_order():
    values = np.random.default_rng(0).normal(size=1000)
    cells, mass = Cells.even(0, 1, 4), np.array([0.5, 0.0, 0.25, 0.25])
    found = by_rank(values, cells, mass)
    assert (np.argsort(found) == np.argsort(values)).all()
    np.testing.assert_allclose(np.histogram(found, cells.edges)[0], 1000 * mass, atol=1)
    assert set(by_rank(values, cells, mass, middles=True)) == {0.125, 0.625, 0.875}
    np.testing.assert_allclose(np.sort(by_rank(values, cells, np.full(4, 0.25))), (np.arange(1000) + 0.5) / 1000)


def test_categories_move_as_little_as_their_shares_allow():
    codes = np.repeat([0, 1, 2], [600, 300, 100])
    moved = moved_codes(codes, np.array([0.5, 0.3, 0.2]), np.random.default_rng(0))
    assert np.bincount(moved).tolist() == [500, 300, 200]
    assert (moved != codes).sum() == 100
    assert np.bincount(moved_codes(codes[:7], np.array([0.5, 0.25, 0.25]), np.random.default_rng(0))).sum() == 7


def test_intervals_follow_the_rows():
    for rows, wanted, cells in ((50, None, 10), (1000, None, 20), (60_000, None, 60), (50, 33, 33)):
        X, y = normals(rows)
        mechanism, Z = noisy(X, y)
        assert class_densities(slices([Part(Z, y, mechanism)])[0], 2, intervals=wanted).cells.count == cells


def test_mistakes_are_named():
    X, y = normals(200)
    mechanism, Z = noisy(X, y)
    with pytest.raises(ValueError, match="by-class, global"):
        ReconstructedTree("local").fit(Z, y)
    with pytest.raises(ValueError, match="above 0"):
        ReconstructedNaiveBayes(pseudo_rows=0).fit(Z, y)
    with pytest.raises(ValueError, match="'label_keep' parameter"):
        ReconstructedNaiveBayes().fit(Z, y, sources=mechanism, label_keep=2)
    with pytest.raises(ValueError, match="'part' parameter"):
        ReconstructedTree().fit(Z, y, sources=[mechanism, mechanism])
    with pytest.raises(CardError, match="describes 1 columns"):
        ReconstructedTree().fit(np.hstack([Z, Z]), y, sources=mechanism)
    bounded, _ = noisy(X, y, law="uniform", scale=0.05)
    with pytest.raises(TableError, match="outside what this noise"):
        ReconstructedNaiveBayes().fit(Z, y, sources=bounded)
    rotation = RandomRotation().fit(np.hstack([X, X, X]), y)
    with pytest.raises(CardError, match="noise-aware-lda"):
        columns_of(rotation.recipe_)


def test_a_class_of_few_rows_is_taken_as_all_rows_are():
    X, y = normals(400)
    y[:4] = 2
    mechanism, Z = noisy(X, y)
    found = class_densities([Slice(columns_of(mechanism.recipe_)[0], Z, y)], 3)
    np.testing.assert_allclose(found.mass[2], found.overall)
    assert np.abs(found.mass[0] - found.overall).sum() > 0.2


@pytest.mark.parametrize("scale", [0.1, 2.0, 8.0])
def test_jumps_of_the_smoothed_iteration_end_where_its_steps_would(scale, monkeypatch):
    """Ten times fewer rounds under strong noise, where the plain iteration needs thousands, and the same masses."""
    from sfumato.learn.classifiers import class_densities as one

    rng = np.random.default_rng(1)
    x = np.where(rng.random(3_000) < 0.4, rng.beta(2, 8, 3_000), rng.beta(8, 3, 3_000))
    edges, middles = np.linspace(-5 * scale, 1 + 5 * scale, 99), (np.arange(30) + 0.5) / 30
    noise = laplace(scale=scale)
    beyond = np.concatenate([[-np.inf], edges, [np.inf]])
    spread = np.diff(noise.cdf(beyond[:, None] - middles[None]), axis=0)
    seen = np.bincount(np.searchsorted(edges, x + noise.rvs(3_000, random_state=rng)), minlength=100)[:, None]
    nothing = np.zeros(1)
    part = one._Counts(seen.astype(float), spread, np.full(100, 0.01), nothing, nothing, nothing)
    plain, steps = np.full((30, 1), 1 / 30), 0
    while True:
        after, steps = one._step([part], plain), steps + 1
        if np.abs(after - plain).sum() < 1e-10:
            break
        plain = after
    calls, step = [], one._step
    monkeypatch.setattr(one, "_step", lambda *a: calls.append(1) or step(*a))
    found, settled = one.iterate([part], 30, seen.sum(axis=0))
    assert settled.all()
    assert np.abs(found - plain).sum() < 1e-3
    assert len(calls) < steps / 4


@pytest.mark.parametrize("learner", [ReconstructedNaiveBayes(), ReconstructedTree()], ids=str)
def test_a_reconstruction_that_does_not_settle_degrades(learner, monkeypatch):
    """Under strong noise the iteration can take longer than it may: classes are then taken to be like all rows."""
    from sfumato.learn.classifiers import class_densities as one

    X, y = normals(600)
    mechanism, Z = noisy(X, y, scale=4.0)
    monkeypatch.setattr(one, "LONGEST", 6)
    with pytest.warns(one.UnsettledWarning, match="did not converge"):
        model = learner.fit(Z, y, sources=mechanism)
    assert model.score(X, y) > 0.55  # the commonest class is .6 of the rows


class Fails:
    """A method that finds an estimate for some, by number of values, and none for others."""

    name = "fails"

    def __init__(self, fewest):
        self.fewest = fewest

    def prepare(self, parts, cells):
        if sum(part.bins.n for part in parts) < self.fewest:
            raise ConvergenceError("no estimate")
        return ExpectationMaximization(stopping=20).prepare(parts, cells)


@pytest.mark.parametrize(("fewest", "words"), [(500, "2 of 2 classes"), (1e9, "Smoothed")])
def test_a_method_that_fails_degrades(fewest, words):
    X, y = normals(600)
    mechanism, Z = noisy(X, y)
    with pytest.warns(UnsettledWarning, match=words):
        found = class_densities([Slice(columns_of(mechanism)[0], Z, y)], 2, method=Fails(fewest))
    assert np.allclose(found.mass.sum(axis=1), 1)
    assert np.allclose(found.mass[0], found.overall) == (fewest == 500)


def test_a_column_that_shows_hardly_a_value_is_left_out():
    """One empty column stopped the whole training."""
    X, y = normals(200)
    mechanism, Z = noisy(X, y)
    assert class_densities([Slice(columns_of(mechanism)[0], Z[:9], y[:9])], 2) is None
    model = ReconstructedNaiveBayes().fit(Z[:9], y[:9], sources=mechanism)
    assert (model.predict(X) == np.bincount(y[:9]).argmax()).all()
