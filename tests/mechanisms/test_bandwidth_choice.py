"""Bandwidths per column and per class, and those that leave-one-out likelihood chooses."""

import numpy as np
from scipy import stats

from sfumato.mechanisms import KernelResampling
from sfumato.mechanisms import bandwidth as leave_one_out
from sfumato.mechanisms.bandwidth import (
    CONSTANTS,
    RowSample,
    best_constant,
    log_likelihoods,
    reference_width,
    rule_width,
)


def rows_of(n=300, seed=0):
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 3 == 0).astype(int)
    return np.clip(0.3 + 0.2 * y[:, None] + 0.08 * rng.standard_normal((n, 3)), 0, 1), y


def test_a_list_and_a_mapping_give_each_column_its_own():
    X, y = rows_of()
    listed = KernelResampling(bandwidth=[0.1, "scaled", 0.3]).fit(X, y)
    names = [group.column.name for group in listed.encoding_.groups]
    named = KernelResampling(bandwidth={names[0]: 0.1, names[1]: "scaled", names[2]: 0.3}).fit(X, y)
    for code, rows in ((0, 200), (1, 100)):
        sigma = X[y == code, 1].std(ddof=1)
        wanted = [0.1, sigma * rule_width("scaled", "epanechnikov", rows, 3), 0.3]
        assert np.allclose(listed.kernels_[code].widths, wanted)
        assert np.allclose(named.kernels_[code].widths, wanted)
    assert listed.parameters_used()["bandwidth"] == dict(zip(names, [0.1, "scaled", 0.3], strict=True))
    block = listed.perturb(X, y, np.random.default_rng(1))
    moved = np.abs(block.X - X[block.source]).max(axis=0)
    assert 0.09 < moved[0] <= 0.1
    assert 0.27 < moved[2] <= 0.3


def test_a_class_can_have_its_own_and_the_others_follow_the_default():
    X, y = rows_of()
    fit = KernelResampling("uniform", {"by_class": {"1": 0.25}}).fit(X, y)
    sigma = X[y == 0].std(axis=0, ddof=1)
    assert np.allclose(fit.kernels_[1].widths, 0.25)
    assert np.allclose(fit.kernels_[0].widths, sigma * reference_width(200, 3) * np.sqrt(3 / 5))
    channel = fit.recipe_.of_class(1)[0]
    assert channel.law.support == (-0.25, 0.25)
    assert any("standard deviation" in line for line in fit.learned())


def test_numbers_alone_learn_nothing_from_the_rows():
    X, y = rows_of()
    fit = KernelResampling(bandwidth=[0.1, 0.1, 0.2]).fit(X, y)
    assert not any("bandwidth" in line for line in fit.learned())


def test_the_likelihood_leaves_each_row_out():
    """By scikit-learn's estimate from all the other rows, up to a constant that no bandwidth changes."""
    from sklearn.neighbors import KernelDensity

    X = np.random.default_rng(3).normal(size=(12, 2))
    sigma = np.array([1.0, 1.0])
    found = log_likelihoods(X, sigma)
    for k in (5, 20, 35):
        h = CONSTANTS[k] * reference_width(12, 2)
        theirs = [
            KernelDensity(bandwidth=h).fit(np.delete(X, j, axis=0)).score_samples(X[j : j + 1])[0] for j in range(12)
        ]
        assert np.allclose(found[:, k] - theirs, np.log(11) + np.log(2 * np.pi), atol=1e-8)


def test_it_finds_a_width_that_estimates_two_clusters_better_than_the_reference_rule():
    """Eq. 16 takes two narrow clusters for one wide one; the chosen width is far smaller, and nearer to the truth."""
    rng = np.random.default_rng(4)
    X = np.concatenate([rng.normal(0.1, 0.01, 200), rng.normal(0.9, 0.01, 200)])[:, None]
    chosen, rule = (KernelResampling("gaussian", name).fit(X) for name in ("likelihood", "scaled"))
    small, wide = (float(fit.kernels_[-1].widths[0]) for fit in (chosen, rule))
    assert small < 0.15 * wide
    at = np.linspace(-0.3, 1.3, 4001)
    truth = (stats.norm.pdf(at, 0.1, 0.01) + stats.norm.pdf(at, 0.9, 0.01)) / 2
    errors = [np.abs(stats.norm.pdf(at[:, None], X[:, 0], h).mean(axis=1) - truth).sum() for h in (small, wide)]
    assert errors[0] < 0.3 * errors[1]
    assert any("fits best" in line for line in chosen.learned())


def test_normal_rows_get_about_the_reference_width_and_blocks_add_up_in_any_order(monkeypatch):
    monkeypatch.setattr(leave_one_out, "MOST_ROWS", 500)
    X = np.random.default_rng(5).normal(0.5, 0.1, (1200, 2)).clip(0, 1)
    sigma, codes = X.std(axis=0, ddof=1), np.zeros(1200, dtype=int)
    whole = RowSample.among(X, codes)
    parts = [RowSample.among(X[cut], codes[cut]) for cut in (slice(0, 1), slice(1, 700), slice(700, None))]
    merged = parts[2] + (parts[0] + parts[1])
    assert len(whole.rows[0]) == 500
    assert np.array_equal(whole.rows[0], merged.rows[0])
    assert stats.ks_2samp(whole.rows[0][:, 0], X[:, 0]).pvalue > 0.01  # a fair sample
    assert 0.6 < best_constant(whole.rows[0], sigma) < 1.6
    assert best_constant(None, sigma) == best_constant(X[:1], sigma) == best_constant(X, 0 * sigma) == 1.0
