"""DAPL against integrals and closed forms, the source-hit rate by brute force, and hard intervals that hold."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import integrate, stats

from domains import any_records, domain
from sfumato.attacks.metrics import utility
from sfumato.attacks.metrics.scored import hard_interval, source_hit_rate
from sfumato.attacks.metrics.utility import RowDensity, dapl, half_l1
from sfumato.channels import Additive
from sfumato.channels.exact import Apart
from sfumato.core.errors import UsageError
from sfumato.mechanisms import KernelResampling
from sfumato.mechanisms.bandwidth import KERNELS
from sfumato.noise import Normal


@dataclass(frozen=True)
class NormalRows:
    """A known truth: independent normal columns."""

    mean: np.ndarray
    scale: float = 1.0

    def logpdf(self, Z):
        return stats.norm.logpdf(Z, self.mean, self.scale).sum(axis=1)

    def sample(self, count, rng):
        return self.mean + self.scale * rng.standard_normal((count, len(self.mean)))


@pytest.mark.parametrize("shift", [0.25, 1.0, 3.0])
def test_half_the_distance_of_two_normal_laws(shift):
    """2 Phi(shift / 2) - 1 along one column of three; a figure 30% off is rejected."""
    f, g = NormalRows(np.zeros(3)), NormalRows(np.array([0.0, shift, 0.0]))
    found = half_l1(f, g, np.random.default_rng(1), draws=20_000)
    truth = 2 * stats.norm.cdf(shift / 2) - 1
    assert abs(found.loss - truth) < 4 * found.error
    assert abs(found.loss - 0.7 * truth) > 8 * found.error
    assert found.error < 0.005


def test_far_apart_is_one_and_the_same_is_nothing():
    f = NormalRows(np.zeros(2))
    assert half_l1(f, f, np.random.default_rng(0)).loss == 0
    assert half_l1(f, NormalRows(np.full(2, 80.0)), np.random.default_rng(0)).loss == pytest.approx(1)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_estimate_is_a_density_and_its_loss_is_the_integral(kernel):
    rng = np.random.default_rng(2)
    X = np.clip(0.5 + 0.15 * rng.standard_normal((60, 1)), 0, 1)
    estimate = RowDensity.of(KernelResampling(kernel).fit(X), X, None, None)
    at = np.linspace(-1, 2, 20_001)[:, None]
    pdf, truth = np.exp(estimate.logpdf(at)), stats.norm.pdf(at[:, 0], 0.5, 0.15)
    assert integrate.trapezoid(pdf, at[:, 0]) == pytest.approx(1, abs=1e-4)
    exact = integrate.trapezoid(np.abs(pdf - truth), at[:, 0]) / 2
    found = half_l1(NormalRows(np.array([0.5]), 0.15), estimate, rng, draws=40_000)
    assert abs(found.loss - exact) < 4 * found.error
    assert abs(found.loss - 1.3 * exact) > 6 * found.error
    drawn = estimate.sample(20_000, rng)[:, 0]
    cumulative = integrate.cumulative_trapezoid(pdf, at[:, 0], initial=0)
    assert stats.kstest(drawn, lambda z: np.interp(z, at[:, 0], cumulative)).pvalue > 1e-4


def test_a_gaussian_estimate_is_scikit_learns():
    from sklearn.neighbors import KernelDensity

    X = np.random.default_rng(3).random((200, 3))
    ours = RowDensity(X, (Additive(Normal(0.2)),) * 3)
    at = np.random.default_rng(4).random((50, 3))
    assert np.allclose(ours.logpdf(at), KernelDensity(bandwidth=0.2).fit(X).score_samples(at))


def test_sites_are_weighted_by_their_rows_and_the_same_rows_give_no_loss():
    rng = np.random.default_rng(5)
    X = 0.5 + 0.1 * rng.standard_normal((90, 2))
    whole = RowDensity.of(KernelResampling().fit(X), X, None, None)
    assert dapl(whole, [whole], [90], rng).loss == 0  # why f must come from elsewhere
    truth = NormalRows(np.full(2, 0.5), 0.1)
    parts = [X[:80], X[80:]]
    sites = [RowDensity.of(KernelResampling().fit(part), part, None, None) for part in parts]
    alone = [half_l1(truth, site, np.random.default_rng(6), 20_000).loss for site in sites]
    both = dapl(truth, sites, [80, 10], rng, 20_000)
    assert both.loss == pytest.approx((80 * alone[0] + 10 * alone[1]) / 90, abs=5 * both.error)
    assert alone[1] > alone[0] + 0.05
    per_site = dapl([truth, truth], sites, [80, 10], np.random.default_rng(7), 20_000)
    assert per_site.loss == pytest.approx(both.loss, abs=0.02)
    with pytest.raises(UsageError, match="at least one site"):
        dapl(truth, [], [], rng)


def test_the_loss_falls_with_rows_and_saturates_with_columns():
    rng = np.random.default_rng(8)
    losses = {}
    for d, n in ((2, 50), (2, 2000), (16, 50), (16, 2000)):
        X = np.clip(0.5 + 0.1 * rng.standard_normal((n, d)), 0, 1)
        site = RowDensity.of(KernelResampling(bandwidth="published").fit(X), X, None, None)
        losses[d, n] = half_l1(NormalRows(np.full(d, 0.5), 0.1), site, rng).loss
    assert losses[2, 2000] < 0.6 * losses[2, 50]
    assert losses[16, 2000] > 0.95
    assert losses[16, 50] > 0.95


def test_constant_columns_agree_only_if_the_constant_does():
    X = np.column_stack([np.random.default_rng(9).random(40), np.full(40, 0.3)])
    with pytest.warns(UserWarning, match="constant"):
        fit = KernelResampling().fit(X)
    same, other = RowDensity.of(fit, X, None, None), RowDensity.of(fit, X + np.array([0, 0.1]), None, None)
    rng = np.random.default_rng(0)
    assert half_l1(same, RowDensity.of(fit, X[::-1], None, None), rng).loss == pytest.approx(0, abs=1e-9)
    assert half_l1(same, other, rng).loss == 1


def test_categories_and_empty_cells_count_by_their_probabilities():
    """Half the L1 distance of two estimates of a number that may be missing and a category, cell by cell."""
    encoding = domain("m3")
    X = any_records(encoding, np.random.default_rng(0), 30)
    fits = [
        KernelResampling("gaussian", bandwidth=0.1, category_mixing=m).fit(X, encoding=encoding) for m in (0.1, 0.6)
    ]
    f, g = (RowDensity.of(fit, X, None, None) for fit in fits)
    at = np.linspace(-1, 2, 3001)
    exact = 0.0
    for code in range(3):
        slots = np.eye(3)[code]
        shown = np.array([[z, 0.0, *slots] for z in at])
        empty = np.array([[0.5, 1.0, *slots]])
        exact += integrate.trapezoid(np.abs(np.exp(f.logpdf(shown)) - np.exp(g.logpdf(shown))), at) / 2
        exact += float(np.abs(np.exp(f.logpdf(empty)) - np.exp(g.logpdf(empty)))[0]) / 2
    found = half_l1(f, g, np.random.default_rng(1), draws=20_000)
    assert exact > 0.05
    assert abs(found.loss - exact) < 4 * found.error
    assert abs(found.loss - 1.3 * exact) > 6 * found.error


def test_source_hits_by_brute_force_and_twins():
    rng = np.random.default_rng(10)
    X = rng.random((120, 3))
    X[7] = X[8]
    source = rng.integers(120, size=400)
    Z = X[source] + 0.08 * rng.standard_normal((400, 3))
    near = ((Z[:, None] - X[None]) ** 2).sum(axis=2).argmin(axis=1)
    found = source_hit_rate(Z, X, source)
    assert found.rate == np.mean((X[near] == X[source]).all(axis=1))
    assert 0.3 < found.interval.low < found.rate < found.interval.high < 0.9
    assert source_hit_rate(X[source], X, source).rate == 1


def test_hard_intervals_hold_and_shrink_with_draws():
    rng = np.random.default_rng(11)
    X, y = rng.random((300, 2)), rng.integers(2, size=300)
    fit = KernelResampling(rows=2_000).fit(X, y)
    block = fit.perturb(X, y, rng)
    widths = np.array([fit.kernels_[code].widths for code in block.y])
    found = hard_interval(block.X, block.source, 300, widths)
    drawn = found.draws > 0
    assert drawn.mean() > 0.99
    assert np.isnan(found.low[~drawn]).all()
    assert ((found.low[drawn] <= X[drawn] + 1e-12) & (X[drawn] <= found.high[drawn] + 1e-12)).all()
    once, often = found.draws <= 4, found.draws >= 9
    assert found.widths[often].mean() < 0.8 * found.widths[once & drawn].mean()
    narrower = hard_interval(block.X, block.source, 300, widths / 1.3)
    assert not ((narrower.low[drawn] <= X[drawn]) & (X[drawn] <= narrower.high[drawn])).all()


def test_rows_are_prepared_for_a_shared_kernel_some_at_a_time(monkeypatch):
    """A sample may be much larger than the table whose estimate it is held against."""
    X = np.random.default_rng(6).random((30, 3))
    estimate = RowDensity.of(KernelResampling(bandwidth="matrix").fit(X), X, None, None)
    Z, white, most = np.random.default_rng(7).random((400, 3)), Apart.white, []
    whole = estimate.logpdf(Z)
    monkeypatch.setattr(Apart, "white", lambda self, rows: most.append(len(rows)) or white(self, rows))
    monkeypatch.setattr(utility, "CELLS", 50 * len(X))
    assert np.allclose(estimate.logpdf(Z), whole)
    assert max(most) == 50
