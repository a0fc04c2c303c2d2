"""A bandwidth that is a matrix: the noise has its covariance, and whoever reads several columns at once uses it."""

import json

import numpy as np
import pytest
from scipy import stats

import sfumato as sf
from sfumato.attacks.base import Knowledge, KnownNoise
from sfumato.attacks.bayes_window import BayesWindow
from sfumato.attacks.metrics.utility import RowDensity
from sfumato.attacks.nearest_row import NearestSource
from sfumato.channels import Recipe, apart
from sfumato.core.errors import CardError, UsageError
from sfumato.learn.classifiers.noise_aware_discriminant import class_moments
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.reconstruct import Projection
from sfumato.mechanisms import KernelResampling
from sfumato.mechanisms.bandwidth import CONSTANTS, LEAST_SHARE, correlated_root, reference_width
from sfumato.mechanisms.base import Given
from sfumato.noise import Streams
from sfumato.noise.laws import Epanechnikov


def rows_of(n=400, d=4, seed=0):
    """Columns that follow one hidden number, as in most tables: what tells people apart is what is left."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 2).astype(int)
    hidden = rng.standard_normal((n, 1)) * np.where(y == 0, 1.0, -1.0)[:, None] ** np.arange(d)
    return np.clip(0.5 + 0.1 * hidden + 0.02 * rng.standard_normal((n, d)), 0, 1), y


def test_the_root_keeps_every_column_as_wide_and_follows_the_correlations():
    X, _ = rows_of()
    S = np.cov(X, rowvar=False)
    B = correlated_root(S, np.sqrt(np.diag(S)))
    assert np.allclose(B @ B.T, S)
    units = np.diag([1.0, 10.0, 0.1, 3.0])
    assert np.allclose(correlated_root(units @ S @ units, np.diag(units) * np.sqrt(np.diag(S))), units @ B)
    twice = np.cov(np.column_stack([X, X[:, 0] - X[:, 1]]), rowvar=False)  # one column follows from two others
    C = correlated_root(twice, np.sqrt(np.diag(twice)))
    assert np.linalg.eigvalsh(C @ C.T / np.sqrt(np.outer(np.diag(twice), np.diag(twice))))[0] > 0.5 * LEAST_SHARE
    assert np.allclose(np.linalg.norm(C, axis=1), np.sqrt(np.diag(twice)))


@pytest.mark.parametrize("kernel", ["epanechnikov", "gaussian"])
def test_the_noise_that_is_drawn_has_the_matrix_and_one_that_is_off_is_rejected(kernel):
    X, y = rows_of()
    fit = KernelResampling(kernel, "matrix", rows=40_000).fit(X, y)
    block = fit.perturb(X, y, np.random.default_rng(1))
    noise, white = block.X - X[block.source], KernelResampling(kernel, "matrix")
    for code in (0, 1):
        mine = X[y == code]
        wanted = reference_width(len(mine), 4) ** 2 / 5 * np.cov(mine, rowvar=False)  # by either kernel
        seen = noise[block.y == code]
        assert np.allclose(np.cov(seen, rowvar=False) / wanted, 1.0, atol=0.06)
        assert not np.allclose(np.cov(1.3 * seen, rowvar=False) / wanted, 1.0, atol=0.3)
        shared = apart(fit.recipe_.of_class(code))
        alone = shared.white(seen)
        law = shared.source
        for j in range(4):
            assert stats.kstest(alone[:5000, j], law.cdf).pvalue > 1e-4
            assert stats.kstest(1.3 * alone[:5000, j], law.cdf).pvalue < 1e-4
            one = fit.recipe_.of_class(code)[j].law  # what the column shows by itself
            assert stats.kstest(seen[:5000, j], one.cdf).pvalue > 1e-4
            assert stats.kstest(1.3 * seen[:5000, j], one.cdf).pvalue < 1e-4
            assert one.variance == pytest.approx(wanted[j, j])
        assert np.abs(np.corrcoef(alone.T) - np.eye(4)).max() < 0.05
    assert white.get_params()["bandwidth"] == "matrix"


def test_a_card_states_it_and_a_forged_one_is_refused():
    X, y = rows_of()
    fit = KernelResampling(bandwidth="matrix").fit(X, y)
    told, transform = json.loads(json.dumps(fit.recipe_.to_dict())), fit.recipe_.map.to_dict()
    again = Recipe.from_dict(told, transform, fit.encoding_)
    assert again.by_class == fit.recipe_.by_class
    assert "share their noise" in fit.sentence()
    assert any("correlated" in line for line in fit.learned())
    told["channels"][1]["weights"] = told["channels"][0]["weights"]
    with pytest.raises(CardError, match="without an inverse"):
        Recipe.from_dict(told, transform, fit.encoding_)
    told["channels"][1]["weights"] = [1.0]
    with pytest.raises(CardError, match="cannot be"):
        Recipe.from_dict(told, transform, fit.encoding_)


def test_densities_and_likelihoods_of_whole_rows_are_those_of_the_matrix():
    """Against scipy's multivariate normal; sums to one where the kernel is bounded."""
    X, _ = rows_of(30, 2)
    fit = KernelResampling("gaussian", [[0.04, 0.03], [0.03, 0.05]]).fit(X)
    density = RowDensity.of(fit, X, None, None)
    Z = np.random.default_rng(2).random((50, 2))
    theirs = np.mean([stats.multivariate_normal(x, [[0.04, 0.03], [0.03, 0.05]]).pdf(Z) for x in X], axis=0)
    assert np.allclose(np.exp(density.logpdf(Z)), theirs)
    assert fit.parameters_used()["bandwidth"] == [[0.04, 0.03], [0.03, 0.05]]
    assert not any("bandwidth" in line for line in fit.learned())
    bounded = KernelResampling("epanechnikov", "matrix").fit(X)
    grid = np.stack(np.meshgrid(*[np.linspace(-0.3, 1.3, 401)] * 2), axis=-1).reshape(-1, 2)
    total = np.exp(RowDensity.of(bounded, X, None, None).logpdf(grid)).sum() * 0.004**2
    assert total == pytest.approx(1.0, abs=0.01)


def test_the_likelihood_chooses_how_wide_a_matrix_is():
    """Whitened normal rows get about the reference width, whatever their correlations."""
    X = np.random.default_rng(5).multivariate_normal([0.5, 0.5], [[0.01, 0.0095], [0.0095, 0.01]], 500)
    fit = KernelResampling("gaussian", "matrix-likelihood").fit(X)
    c = fit.kernels_[-1].widths[0] / X[:, 0].std(ddof=1) / reference_width(500, 2)
    assert np.min(np.abs(CONSTANTS - c)) < 1e-9
    assert 0.6 < c < 1.6
    assert len(list(fit.fitting(Given(fit.encoding_, None, Streams())))) == 2


def hits(bandwidth, attack_knows=True):
    X, y = rows_of(300, 5, seed=3)
    fit = KernelResampling("gaussian", bandwidth).fit(X, y)
    block = fit.perturb(X, y, np.random.default_rng(4))
    noise = KnownNoise.of(fit.recipe_.channels, X, fit.recipe_.by_class)
    if not attack_knows:  # the columns' own laws, as if they were independent
        plain = KernelResampling("gaussian", "pooling").fit(X, y)
        noise = KnownNoise.of(plain.recipe_.channels, X, plain.recipe_.by_class)
    known = Knowledge(
        release=block.X,
        encoding=fit.encoding_,
        labels=block.y,
        noise=noise,
        noise_covariance=noise.covariance(),
        register=X,
        register_labels=y,
        sample=rows_of(600, 5, seed=9)[0],
        sample_labels=rows_of(600, 5, seed=9)[1],
    )
    found = NearestSource().guess(known)
    values = BayesWindow(people=300).guess(known).aimed
    return np.mean(found.index == block.source), np.mean(np.abs(values - X[block.source]) <= 0.02)


def test_the_adversaries_use_the_matrix_and_do_better_by_it():
    matrix, ignorant, diagonal = hits("matrix"), hits("matrix", attack_knows=False), hits("pooling")
    assert matrix[0] > 1.3 * ignorant[0]  # the likelihood of the whole row is worth something
    assert matrix[0] > 1.3 * diagonal[0]  # and the diagonal hides people better
    assert matrix[1] > ignorant[1] + 0.01


def test_moments_of_plain_rows_come_back():
    X, _ = rows_of(3000, 3, seed=6)
    X = X[::2]
    fit = KernelResampling("uniform", [[0.02, 0.015, 0.0], [0.015, 0.03, 0.0], [0.0, 0.0, 0.02]], rows=20_000).fit(X)
    block = fit.perturb(X, None, np.random.default_rng(7))
    rows = Part(block.X, np.zeros(len(block.X), dtype=int), fit.recipe_)
    found = class_moments([rows], 1)
    assert np.allclose(found.covariances[0], np.cov(X, rowvar=False), atol=6e-4)
    assert found.removed[0, 0, 1] / (0.015 / 3) == pytest.approx(1.0, abs=0.01)


def test_other_columns_keep_to_themselves_and_wrong_ones_are_refused():
    X, y = rows_of()
    names = ["x0", "x1", "x2", "x3"]
    fit = KernelResampling(bandwidth=["matrix", 0.1, "matrix", "pooling"]).fit(X, y)
    assert fit.kernels_[0].block.tolist() == [0, 2]
    assert len(names) == X.shape[1]
    flat = X.copy()
    flat[:, 3] = 0.5
    with pytest.warns(UserWarning, match="constant within a class"):
        assert KernelResampling(bandwidth="matrix").fit(flat, y).kernels_[1].block.tolist() == [0, 1, 2]
    for given, message in (
        ([[0.1]], "as many rows"),
        ([[1.0, 2.0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], "not symmetric"),
        (np.zeros((4, 4)).tolist(), "no positive variance"),
        ([["a"] * 4] * 4, "as many rows"),
        (["matrix", "matrix-likelihood", 0.1, 0.1], "one matrix"),
    ):
        with pytest.raises(UsageError, match=message):
            KernelResampling(bandwidth=given).fit(X, y)


def test_a_release_says_so_and_sums_of_columns_have_the_right_noise():
    import pandas as pd

    X, y = rows_of(200, 3)
    frame = pd.DataFrame(100 * X, columns=["a", "b", "c"]).assign(ill=np.where(y, "yes", "no"))
    release = sf.sanitize(frame, label="ill", mechanism="kernel-resampling", parameters={"bandwidth": "matrix"}, seed=1)
    recipe = release.card.made_by()
    shared = apart(recipe.channels)
    spans = [group.column.bounds[1] - group.column.bounds[0] for group in recipe.encoding.groups]
    weights = np.array([spans[0], -2 * spans[1], 0.0])
    covariance = shared.root @ shared.root.T * Epanechnikov(1.0).variance
    noise, _, _ = Projection.read("a - 2 * b", ["a", "b", "c"]).noise(release.card)
    assert noise.law.variance == pytest.approx(weights @ covariance @ weights)
    with pytest.raises(CardError, match="share their noise"):
        sf.reconstruct(release, joint=("a", "b"))
