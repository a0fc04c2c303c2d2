"""Kernel resampling: the bandwidth, the law of new rows and of their sources, and every kind of column."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize, stats

import sfumato as sf
from domains import any_records, domain, seeds, steady
from sfumato.core.errors import TableError, UsageError
from sfumato.guarantee import EMPIRICAL
from sfumato.mechanisms import KernelResampling
from sfumato.mechanisms.bandwidth import (
    KERNELS,
    as_spread_as_published,
    category_mixing,
    equal_smoothing,
    kernel_named,
    reference_width,
    rule_width,
)
from sfumato.mechanisms.kernel_resampling import KernelResamplingWarning, apportioned
from sfumato.noise import Normal
from sfumato.noise.laws import Epanechnikov
from sfumato.table import Encoding


def two_classes(rows=600, width=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], [rows // 3, rows - rows // 3])
    return np.clip(0.5 + 0.1 * rng.standard_normal((rows, width)) * (1 + y[:, None]), 0, 1), y


def test_the_published_bandwidth_is_equation_16():
    """By hand for N = 200, d = 3 and N = 400, d = 3: (4/5)^(1/7) N^(-1/7) sigma."""
    X, y = two_classes()
    fit = KernelResampling(bandwidth="published").fit(X, y)
    for code, rows in ((0, 200), (1, 400)):
        sigma = X[y == code].std(axis=0, ddof=1)
        assert np.allclose(fit.kernels_[code].widths, 0.8 ** (1 / 7) * rows ** (-1 / 7) * sigma)
        assert np.allclose(
            [channel.law.scale for channel in fit.recipe_.of_class(code)], fit.kernels_[code].widths, rtol=1e-12
        )
    widest = np.max([kernel.widths for kernel in fit.kernels_.values()], axis=0)
    assert np.allclose([channel.law.scale for channel in fit.recipe_.channels], widest)


@pytest.mark.parametrize("d", [1, 4, 34])
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_factor_makes_all_kernels_equally_good(kernel, d):
    """The least asymptotic error of each kernel on normal data, found numerically from the kernels' integrals."""
    n = 500

    def best(law):
        roughness = integrate.quad(lambda z: law.pdf(z) ** 2, -8, 8, points=[-1, 1])[0]
        spread = integrate.quad(lambda z: z**2 * law.pdf(z), -8, 8, points=[-1, 1])[0]
        curvature = d * (d + 2) / (4 * (2 * np.sqrt(np.pi)) ** d)  # squared Laplacian of the standard normal density

        def error(log_h):
            h = np.exp(log_h)
            return np.log(roughness**d / (n * h**d) + h**4 * spread**2 * curvature / 4)

        return np.exp(optimize.minimize_scalar(error, bounds=(-5, 4), method="bounded", options={"xatol": 1e-10}).x)

    assert best(Normal(1.0)) == pytest.approx(reference_width(n, d), rel=1e-5)
    assert best(KERNELS[kernel].law(1.0)) / best(Normal(1.0)) == pytest.approx(equal_smoothing(kernel, d), rel=1e-5)


def test_a_kernel_as_a_text_is_the_one_that_has_a_name():
    """A triangle as a table, whatever its scale; and normal noise by scipy, where h is the standard deviation."""
    for text, name in (("table(-3: 0, 0: 1, 3: 0)", "triangular"), ("norm(scale=7)", "gaussian")):
        ours, theirs = KERNELS[name], kernel_named(text)
        assert theirs.roughness == pytest.approx(ours.roughness, rel=1e-3)
        assert theirs.variance == pytest.approx(ours.variance, rel=1e-6)
        assert theirs.bounded == ours.bounded
        at = np.linspace(-0.6, 0.6, 7)
        assert theirs.law(0.7).pdf(at) == pytest.approx(ours.law(0.7).pdf(at), rel=1e-6)
        assert equal_smoothing(text, 4) == pytest.approx(equal_smoothing(name, 4), rel=1e-3)


def test_rows_drawn_by_a_kernel_of_ones_own_stay_within_h_and_are_stated():
    X = np.random.default_rng(0).random((300, 2))
    fit = KernelResampling(kernel="cosine(scale=5)", bandwidth=0.1).fit(X)
    block = fit.perturb(X, None, np.random.default_rng(1))
    moved = block.X - X[block.source]
    assert np.abs(moved).max() <= 0.1
    assert moved.std() == pytest.approx(0.1 * np.sqrt(np.pi**2 / 3 - 2) / np.pi, rel=0.08)  # (pi^2/3 - 2) on [-pi, pi]
    assert fit.parameters_used()["kernel"] == "cosine(loc=0.0, scale=5.0)"
    assert "at most h, with certainty" in fit.sentence()
    people = {"x": (10 * X[:, 0]).tolist()}
    release = sf.sanitize(people, mechanism=fit.name, parameters=fit.get_params(), experiment=True)
    assert release.card.made_by().channels[0].law.support[1] == pytest.approx(0.1)  # a card's reader knows the law
    for wrong, says in (
        ("expon(scale=1)", "the mean 0"),
        ("cauchy()", "finite variance"),
        ("norm(1", "cannot be read"),
    ):
        with pytest.raises(UsageError, match=says):
            KernelResampling(kernel=wrong).fit(X)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_kernel_is_a_density_and_the_default_spreads_like_the_papers(kernel):
    """Eq. 12 by integration, and the standard deviation of the default against that of the paper's kernel."""
    law = KERNELS[kernel].law(0.7)
    assert integrate.quad(law.pdf, -8, 8, points=[-0.7, 0, 0.7])[0] == pytest.approx(1)
    assert (law.pdf(np.linspace(-2, 2, 101)) >= 0).all()
    assert KERNELS[kernel].law(1.0).variance == pytest.approx(KERNELS[kernel].variance)
    spread = KERNELS[kernel].law(as_spread_as_published(kernel)).variance
    assert spread == pytest.approx(Epanechnikov(1.0).variance)
    assert rule_width("pooling", kernel, 500, 3) == pytest.approx(
        reference_width(500, 3) * np.sqrt(0.2 / KERNELS[kernel].variance)
    )


def test_the_factor_is_about_two_point_two():
    assert equal_smoothing("epanechnikov", 1) == pytest.approx(
        2.2138, abs=1e-4
    )  # Marron & Nolan's canonical bandwidths
    assert equal_smoothing("epanechnikov", 4) == pytest.approx(2.1808, abs=1e-4)
    assert equal_smoothing("epanechnikov", 10_000) == pytest.approx(1.2 * np.sqrt(np.pi), rel=1e-3)


@pytest.mark.parametrize("d", [1, 4])
def test_the_scaled_kernel_estimates_normal_data_better_than_the_published_one(d):
    """Mean square error of the estimate against the true density, over many samples: the default is what is right."""
    rng = np.random.default_rng(3)
    errors = {"published": 0.0, "scaled": 0.0}
    for _ in range(12):
        X = rng.standard_normal((200, d))
        at = rng.uniform(-2.5, 2.5, (400, d))
        truth = stats.norm.pdf(at).prod(axis=1)
        for rule in errors:
            factor = equal_smoothing("epanechnikov", d) if rule == "scaled" else 1.0
            law = Epanechnikov(factor * reference_width(200, d))
            estimate = law.pdf(at[:, None] - X[None]).prod(axis=2).mean(axis=1)
            errors[rule] += float(((estimate - truth) ** 2).mean())
    assert errors["scaled"] < 0.8 * errors["published"]


def test_rows_are_within_h_of_their_source_and_classes_stay_apart():
    X, y = two_classes()
    fit = KernelResampling().fit(X, y)
    block = fit.perturb(X, y, np.random.default_rng(1))
    assert np.array_equal(np.bincount(block.y), np.bincount(y))
    assert np.array_equal(y[block.source], block.y)
    for code in (0, 1):
        rows = block.y == code
        moved = np.abs(block.X[rows] - X[block.source[rows]])
        assert (moved <= fit.kernels_[code].widths + 1e-12).all()
        assert (moved.max(axis=0) > 0.85 * fit.kernels_[code].widths).all()
    drawn = np.bincount(block.source, minlength=len(X))
    assert 0.30 < (drawn == 0).mean() < 0.44  # e^-1 of the people are never drawn
    assert drawn.max() >= 3


def test_a_gaussian_kernel_is_scikit_learns():
    """The same density as `KernelDensity` with the same bandwidth: its samples and ours are of one law."""
    from sklearn.neighbors import KernelDensity

    X = np.random.default_rng(5).random((300, 1)) ** 2
    fit = KernelResampling("gaussian", "scaled", rows=20_000).fit(X)
    ours = fit.perturb(X, None, np.random.default_rng(6)).X
    width = float(fit.kernels_[-1].widths[0])
    theirs = KernelDensity(bandwidth=width).fit(X).sample(20_000, random_state=7)
    assert stats.ks_2samp(ours[:, 0], theirs[:, 0]).pvalue > 1e-4
    wider = KernelDensity(bandwidth=4 * width).fit(X).sample(20_000, random_state=7)
    assert stats.ks_2samp(ours[:, 0], wider[:, 0]).pvalue < 1e-10


@pytest.mark.parametrize(("rows", "wanted"), [(None, [200, 400]), (0.5, [100, 200]), (2.0, [400, 800]), (7, [2, 5])])
def test_any_number_of_rows(rows, wanted):
    X, y = two_classes()
    fit = KernelResampling(rows=rows).fit(X, y)
    block = fit.perturb(X, y, np.random.default_rng(0))
    assert np.bincount(block.y).tolist() == wanted
    assert fit.released(600) == sum(wanted)


@given(st.dictionaries(st.integers(0, 9), st.integers(1, 50), min_size=1), st.integers(0, 500))
@steady()
def test_classes_keep_their_shares(counts, wanted):
    found = apportioned(counts, wanted)
    assert sum(found.values()) == wanted
    total = sum(counts.values())
    assert all(abs(found[code] - wanted * count / total) < 1 for code, count in counts.items())
    assert apportioned(counts, total) == counts


def dispersion(counts):
    """Sum over repetitions of Pearson's statistic against equal shares, as a normal score: 0 for multinomial counts."""
    repetitions, cells = counts.shape
    expected = counts.sum(axis=1, keepdims=True) / cells
    found = float(((counts - expected) ** 2 / expected).sum())
    df = repetitions * (cells - 1)
    return (found - df) / np.sqrt(2 * df)


def drawn_through_blocks(fit, X, y, cuts, repetitions, shares):
    """How often every row of class 1 was drawn, block by block, in every repetition."""
    parts = [slice(*ends) for ends in zip((0, *cuts), (*cuts, len(X)), strict=True)]
    counts = [dict(zip(*map(np.ndarray.tolist, np.unique(y[part], return_counts=True)), strict=True)) for part in parts]
    found = np.zeros((repetitions, len(X)), dtype=int)
    rng = np.random.default_rng(11)
    for line in found:
        for part, share in zip(parts, shares(fit, counts, rng), strict=True):
            block = fit.draw(X[part], y[part], share, rng)
            line += np.bincount(block.source + part.start, minlength=len(X))
    return found[:, y == 1]


def test_sources_are_multinomial_however_the_table_is_cut():
    """Rows of uneven blocks: equally likely, drawn neither too evenly nor too unevenly; other schemes are caught."""
    X, _ = two_classes(48)
    y = np.random.default_rng(2).integers(2, size=48)
    fit = KernelResampling(rows=96).fit(X, y)
    cuts = (1, 4, 30)

    def jointly(fit, counts, rng):
        return fit.shares(counts, rng)

    def in_proportion(fit, counts, _):
        return [{c: n * fit.draws_[c] // fit.counts_[c] for c, n in block.items()} for block in counts]

    def independently(fit, counts, rng):
        return [{c: int(rng.binomial(fit.draws_[c], n / fit.counts_[c])) for c, n in b.items()} for b in counts]

    found = drawn_through_blocks(fit, X, y, cuts, 1500, jointly)
    assert (found.sum(axis=1) == fit.draws_[1]).all()
    pooled = found.sum(axis=0)
    assert stats.chisquare(pooled).pvalue > 1e-4
    assert abs(dispersion(found)) < 4.5
    one = found[:, 0]  # binomial for each row
    law = stats.binom(fit.draws_[1], 1 / fit.counts_[1])
    expected = np.array([*law.pmf(range(6)), law.sf(5)]) * len(one)
    assert stats.chisquare(np.bincount(np.minimum(one, 6), minlength=7), expected).pvalue > 1e-4
    assert dispersion(drawn_through_blocks(fit, X, y, cuts, 1500, in_proportion)) < -6
    totals = drawn_through_blocks(fit, X, y, cuts, 200, independently).sum(axis=1)
    assert len(set(totals.tolist())) > 1  # a table of the wrong size, as a rule


def test_two_blocks_share_draws_as_the_multinomial_law_says():
    X, y = np.random.default_rng(0).random((9, 1)), np.zeros(9, dtype=int)
    fit = KernelResampling(rows=5).fit(X, y)
    rng = np.random.default_rng(1)
    counts = [{0: 2}, {}, {0: 3}, {0: 4}]
    found = np.array([[share.get(0, 0) for share in fit.shares(counts, rng)] for _ in range(20_000)])
    assert (found[:, 1] == 0).all()
    law = stats.multinomial(5, [2 / 9, 3 / 9, 4 / 9])
    cells = [(a, b, 5 - a - b) for a in range(6) for b in range(6 - a)]
    seen = [int(((found[:, [0, 2, 3]]) == cell).all(axis=1).sum()) for cell in cells]
    assert sum(seen) == 20_000
    expected = np.array([law.pmf(cell) for cell in cells]) * 20_000
    assert stats.chisquare(seen, expected).pvalue > 1e-4


def test_categories_are_smoothed_as_aitchison_and_aitken_do():
    """Kept with 1 - lambda, each other one with lambda / (c - 1), lambda = m (c - 1) / c; beside two numbers."""
    encoding = domain("nn3")
    X = any_records(encoding, np.random.default_rng(0), 500)
    m = category_mixing(500, 2)
    assert m == pytest.approx(1 - 1 / np.sqrt(1 + (1 / 500) ** (2 / 6)))
    fit = KernelResampling(rows=60_000).fit(X, encoding=encoding)
    block = fit.perturb(X, None, np.random.default_rng(1))
    before, after = (matrix[:, 2:].argmax(axis=1) for matrix in (X[block.source], block.X))
    lam = m * 2 / 3
    expected = np.array([[1 - lam if i == j else lam / 2 for j in range(3)] for i in range(3)])
    for code in range(3):
        seen = np.bincount(after[before == code], minlength=3)
        assert stats.chisquare(seen, expected[code] * seen.sum()).pvalue > 1e-4
    assert fit.recipe_.channels[2].keep == pytest.approx(1 - lam)
    assert fit.recipe_.rows == "drawn"
    assert fit.recipe_.epsilons().record == np.inf  # whatever a response proves holds for one draw only
    assert "holds per draw only" in fit.guarantee().sentence


def test_no_mixing_keeps_categories_and_numbers_lose_what_mixing_takes():
    encoding = domain("2")
    X = any_records(encoding, np.random.default_rng(0), 50)
    block = KernelResampling(category_mixing=0.0).release(X, encoding=encoding, rng=np.random.default_rng(0))
    assert np.array_equal(block.X, X[block.source])


def test_empty_cells():
    """Emptied and filled with the stated probability; what is filled comes from anywhere in the range."""
    encoding = domain("m")
    X = any_records(encoding, np.random.default_rng(3), 400)
    fit = KernelResampling(rows=40_000, category_mixing=0.2).fit(X, encoding=encoding)
    block = fit.perturb(X, None, np.random.default_rng(4))
    was, now = X[block.source, 1] > 0.5, block.X[:, 1] > 0.5
    assert stats.binomtest(int((was & ~now).sum()), int(was.sum()), 0.1).pvalue > 1e-4
    assert stats.binomtest(int((~was & now).sum()), int((~was).sum()), 0.1).pvalue > 1e-4
    assert (block.X[now, 0] == 0.5).all()
    assert stats.kstest(block.X[was & ~now, 0], "uniform").pvalue > 1e-4


def test_a_column_that_is_constant_in_a_class_stays_and_the_owner_is_told():
    X, y = two_classes()
    X[y == 0, 1] = 0.1 + 0.2  # a value whose mean does not come out exactly
    with pytest.warns(KernelResamplingWarning, match="1 time a column is constant within a class"):
        fit = KernelResampling().fit(X, y)
    block = fit.perturb(X, y, np.random.default_rng(0))
    assert (block.X[block.y == 0, 1] == 0.1 + 0.2).all()
    assert fit.notes() == {"unsmoothed_columns": 1}
    assert fit.kernels_[0].widths[1] == 0 < fit.kernels_[1].widths[1]
    sigma = X[y == 0, 0].std(ddof=1)  # two columns vary there, and only they count
    assert fit.kernels_[0].widths[0] == pytest.approx(reference_width(200, 2) * sigma)


def test_a_class_of_one_row_is_refused_unless_the_bandwidth_is_given():
    X, y = two_classes(30)
    y[:9] = 1
    with pytest.raises(TableError, match=r"1 of 2 classes have a single row.*or give the bandwidth as a number"):
        KernelResampling().fit(X, y)
    block = KernelResampling(bandwidth=0.2).release(X, y, rng=np.random.default_rng(0))
    assert np.abs(block.X[block.y == 0] - X[9]).max() <= 0.2


@given(st.text("nmoice123?", min_size=1, max_size=5), seeds, st.sampled_from(list(KERNELS)))
@steady(40)
def test_every_kind_of_column_comes_through(shape, seed, kernel):
    encoding = domain(shape)
    X = any_records(encoding, np.random.default_rng(seed), 25)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", KernelResamplingWarning)
        fit = KernelResampling(kernel).fit(X, encoding=encoding)
    block = fit.perturb(X, None, np.random.default_rng(seed))
    assert np.isfinite(block.X).all()
    for group in encoding.groups:
        if group.is_onehot:
            assert (block.X[:, group.slice].sum(axis=1) == 1).all()
        elif group.is_constant:
            assert (block.X[:, group.start] == 0.5).all()
        if group.has_indicator:
            assert set(np.unique(block.X[:, group.stop - 1])) <= {0.0, 1.0}
    assert len(encoding.decode(block.X, like_original=True)) == 25
    assert fit.guarantee().kind == EMPIRICAL
    near = "a few h" if kernel == "gaussian" else "h"
    assert f"Every row lies within {near} of a real person" in fit.guarantee().in_words()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "cosine"}, "'kernel' parameter of kernel-resampling must be one of epanechnikov, gaussian"),
        (
            {"bandwidth": "silverman"},
            "'bandwidth' parameter of kernel-resampling must be pooling, scaled, published, likelihood, matrix",
        ),
        ({"bandwidth": -0.1}, "'bandwidth' parameter"),
        ({"bandwidth": True}, "'bandwidth' parameter"),
        ({"bandwidth": [0.1, 0.2]}, "the list has 2 entries for 3 numeric columns"),
        ({"bandwidth": [0.1, 0.2, "wide"]}, "got 'wide'"),
        ({"bandwidth": {"age": 0.1}}, "there is no numeric column 'age'"),
        ({"bandwidth": {"by_class": {"7": 0.1}}}, "there is no class '7'; there are 0, 1"),
        ({"bandwidth": {"by_class": 0.1}}, "by_class is followed by classes"),
        ({"rows": 0}, "'rows' parameter of kernel-resampling must be a count"),
        ({"rows": -0.5}, "'rows' parameter"),
        ({"rows": "half"}, "'rows' parameter"),
        ({"rows": True}, "'rows' parameter"),
        ({"category_mixing": 1.0}, "'category_mixing' parameter of kernel-resampling must be a probability below 1"),
        ({"category_mixing": "some"}, "'category_mixing' parameter"),
    ],
)
def test_parameters_are_checked(parameters, message):
    with pytest.raises(UsageError, match=message):
        KernelResampling(**parameters).fit(*two_classes())


def test_other_classes_than_fitted_are_refused():
    X, y = two_classes()
    fit = KernelResampling().fit(X, y)
    for codes in (None, y + 5):
        with pytest.raises(TableError, match="fitted on rows with different classes"):
            fit.perturb(X, codes, np.random.default_rng(0))


def test_memory_order_makes_no_difference():
    X, y = two_classes()
    fit = KernelResampling().fit(X, y, encoding=Encoding.unit(3))
    first, second = (fit.perturb(matrix, y, np.random.default_rng(0)) for matrix in (X, np.asfortranarray(X)))
    assert np.array_equal(first.X, second.X)
