"""Discriminants with the noise taken out: coefficients of the clean rows, moments of every kind of column, floors."""

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.utils.estimator_checks import parametrize_with_checks

from sfumato.core.errors import CardError, UsageError
from sfumato.learn.classifiers import NoiseAwareDiscriminant
from sfumato.learn.classifiers.noise_aware_discriminant import class_moments, possible_covariance
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.mechanisms import AdditiveNoise, MultiplicativeNoise, NoisyOperator, RandomRotation
from sfumato.table import Column, Encoding, Schema

COVARIANCE = 0.01 * np.array([[1.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 1.0]])
MEANS = np.array([[0.4, 0.5, 0.5], [0.6, 0.45, 0.55]])


@parametrize_with_checks([NoiseAwareDiscriminant(), NoiseAwareDiscriminant("quadratic")])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def normals(rows=40_000, seed=0, covariances=(COVARIANCE, COVARIANCE)):
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < 0.5).astype(np.int64)
    drawn = [rng.multivariate_normal(MEANS[code], covariances[code], rows) for code in range(2)]
    return np.clip(np.where(y[:, None] == 1, drawn[1], drawn[0]), 0, 1), y


def direction(model):
    return model.coef_[1] - model.coef_[0]


def test_without_noise_it_is_the_discriminant_of_scikit_learn():
    X, y = normals(2000)
    ours, theirs = NoiseAwareDiscriminant().fit(1e4 + X, y), LinearDiscriminantAnalysis(solver="lsqr").fit(1e4 + X, y)
    np.testing.assert_allclose(direction(ours), theirs.coef_[0], rtol=2e-3)
    np.testing.assert_allclose(ours.decision_function(1e4 + X), theirs.decision_function(1e4 + X), atol=0.02)
    quadratic = NoiseAwareDiscriminant("quadratic", pooled_rows=0).fit(X, y)
    theirs = QuadraticDiscriminantAnalysis().fit(X, y)
    np.testing.assert_allclose(quadratic.predict_proba(X), theirs.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("law", ["normal", "uniform", "laplace"])
def test_coefficients_are_those_of_the_clean_rows_and_not_with_noise_30_percent_off(law):
    X, y = normals()
    clean = direction(NoiseAwareDiscriminant().fit(X, y))
    mechanism = AdditiveNoise(law=law, scale=0.1).fit(X, y)
    Z = mechanism.perturb(X, y, np.random.default_rng(1)).X

    def error(sources):
        found = direction(NoiseAwareDiscriminant().fit(Z, y, sources=sources))
        return np.linalg.norm(found - clean) / np.linalg.norm(clean)

    assert error(mechanism) < 0.08
    for factor in (0.7, 1.3):
        assert error(AdditiveNoise(law=law, scale=factor * 0.1).fit(X, y)) > 0.2
    assert error(None) > 0.4


def test_quadratic_finds_each_class_its_own_covariance():
    wide = np.diag([0.02, 0.005, 0.01])
    X, y = normals(covariances=(COVARIANCE, wide))
    mechanism = AdditiveNoise(law="normal", scale=0.15).fit(X, y)
    Z = mechanism.perturb(X, y, np.random.default_rng(1)).X
    model = NoiseAwareDiscriminant("quadratic", floor=0).fit(Z, y, sources=mechanism)
    np.testing.assert_allclose(model.covariance_, [COVARIANCE, wide], atol=0.0012)
    naive = NoiseAwareDiscriminant("quadratic").fit(Z, y)
    test, truth = normals(4000, seed=5, covariances=(COVARIANCE, wide))
    assert model.score(test, truth) > naive.score(test, truth) + 0.01


def mixed(rows=60_000, seed=0):
    """Correlated through a hidden number: one that may be missing, another, and a category; classes differ in it."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=rows)
    hidden = rng.normal(np.where(y, 0.3, -0.3), 1.0, rows)
    missing = rng.random(rows) < 1 / (1 + np.exp(2 - hidden))
    first = np.where(missing, 0.5, np.clip(0.5 + 0.15 * (hidden + rng.normal(size=rows)), 0, 1))
    second = np.clip(0.5 + 0.15 * (hidden - rng.normal(size=rows)), 0, 1)
    category = np.clip(np.round(1 + hidden), 0, 2).astype(np.int64)
    public = {"source": "public", "reason": "test"}
    columns = (
        Column("first", "numeric", low=10.0, high=30.0, missing=True, **public),
        Column("second", "numeric", low=5.0, high=6.0, **public),
        Column("category", "categorical", categories=("a", "b", "c"), **public),
    )
    return np.column_stack([first, missing, second, np.eye(3)[category]]), y, Encoding(Schema(columns))


MECHANISMS = {
    "additive": AdditiveNoise(law="uniform", low=-0.3, high=0.5, category_epsilon=1.5),
    "factor": MultiplicativeNoise(law="uniform", low=1.0, high=2.0, category_epsilon=1.5),
    "relative": MultiplicativeNoise(law="normal", scale=0.1, category_epsilon=1.5),
}


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("keep", [1.0, 0.8])
def test_moments_of_every_kind_of_column_are_those_of_the_plain_rows(name, keep):
    """Means, variances, covariances within and between columns, also behind randomized labels."""
    X, y, encoding = mixed()
    mechanism = MECHANISMS[name].fit(X, y, encoding=encoding)
    rng = np.random.default_rng(1)
    Z = mechanism.perturb(X, y, rng).X
    Z[Z[:, 1] > 0.5, 0] = 0.5  # a written release shows no value where it says "missing"
    seen = np.where(rng.random(len(y)) < keep, y, 1 - y)
    found = class_moments([Part(Z, seen, mechanism, keep)], 2)
    for code in range(2):
        plain = X[y == code]
        np.testing.assert_allclose(found.means[code], plain.mean(axis=0), atol=0.03)
        np.testing.assert_allclose(found.covariances[code], np.cov(plain.T), atol=0.02)
        apart = np.abs(np.cov(Z[y == code].T) - np.cov(plain.T)).max()
        assert apart > 0.05, "the release itself has other moments"


def test_parts_weigh_by_their_precision():
    X, y = normals(8000)
    part = np.arange(len(X)) % 2
    weak, strong = (AdditiveNoise(law="normal", scale=s).fit(X, y) for s in (0.05, 1.0))
    clean = direction(NoiseAwareDiscriminant().fit(X, y))
    apart = []
    for seed in range(5):
        noisy = [m.perturb(X, y, np.random.default_rng(seed)).X for m in (weak, strong)]
        Z = np.where(part[:, None] == 0, *noisy)
        joint = direction(NoiseAwareDiscriminant().fit(Z, y, sources=[weak, strong], part=part))
        apart.append(np.linalg.norm(joint - clean) / np.linalg.norm(clean))
    assert np.median(apart) < 0.15
    plain = direction(
        NoiseAwareDiscriminant().fit(np.where(part[:, None] == 0, X, Z), y, sources=[None, strong], part=part)
    )
    assert np.linalg.norm(plain - clean) / np.linalg.norm(clean) < 0.15


def test_no_direction_is_trusted_with_less_than_chance_allows():
    """Few rows, strong noise: the bare difference of covariances is no covariance; with the floor it is one."""
    X, y = normals(60)
    mechanism = AdditiveNoise(law="normal", scale=0.5).fit(X, y)
    Z = mechanism.perturb(X, y, np.random.default_rng(1)).X
    bare = class_moments([Part(Z, y, mechanism)], 2).covariances
    assert np.linalg.eigvalsh(bare).min() < 0
    model = NoiseAwareDiscriminant().fit(Z, y, sources=mechanism)
    assert np.linalg.eigvalsh(model.covariance_).min() >= 0.999 * 1.5 * 0.25 * np.sqrt(3 / 60)
    assert np.isfinite(model.predict_proba(X)).all()


def test_a_possible_covariance_is_left_alone():
    noise = np.diag([0.01, 0.02, 0.0])
    found = possible_covariance(COVARIANCE, noise, 0.05, np.sqrt(np.diag(COVARIANCE)))
    np.testing.assert_allclose(found, COVARIANCE, atol=1e-9)


def test_it_works_behind_a_secret_rotation_with_noise():
    X, y = normals(80_000)  # the key is new each time: of 25 keys the worst left 0.25 of the naive error
    rotation = RandomRotation(noise="normal", scale=0.15).fit(X, y)
    Z = rotation.perturb(X, y, np.random.default_rng(1)).X
    clean = direction(NoiseAwareDiscriminant().fit(rotation.embed(X), y))
    found, naive = (direction(NoiseAwareDiscriminant().fit(Z, y, sources=s)) for s in (rotation, None))
    assert np.linalg.norm(found - clean) < 0.5 * np.linalg.norm(naive - clean)


def test_mistakes_are_named():
    X, y = normals(200)
    with pytest.raises(ValueError, match="linear, quadratic"):
        NoiseAwareDiscriminant("cubic").fit(X, y)
    with pytest.raises(ValueError, match="'floor'"):
        NoiseAwareDiscriminant(floor=-1).fit(X, y)
    heavy = AdditiveNoise(law="student-t", scale=0.1, df=2).fit(X, y)
    with pytest.raises(UsageError, match=r"no variance.*reconstructed"):
        NoiseAwareDiscriminant().fit(X, y, sources=heavy)
    with pytest.raises(CardError, match="3 columns, but the rows have 2"):
        NoiseAwareDiscriminant().fit(X[:, :2], y, sources=heavy)
    public = {"source": "public", "reason": "test"}
    positive = Encoding(Schema(tuple(Column(n, "numeric", low=1.0, high=2.0, **public) for n in "abc")))
    quartic = NoisyOperator("quartic", law="uniform", low=0.5, high=1.0).fit(X, y, encoding=positive)
    with pytest.raises(UsageError, match=r"operator quartic.*reconstructed"):
        NoiseAwareDiscriminant().fit(X, y, sources=quartic)
