"""The leave-one-out width from counts against the double sum of Eq. 5, and counts that add up."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from domains import seeds, steady
from sfumato.core.errors import UsageError
from sfumato.reconstruction.evidence import Bins
from sfumato.reconstruction.parzen_program import LeaveOneOut, leave_one_out_width


def direct(z):
    """E_LOO as Eq. 5 prints it."""
    n, distance = len(z), np.abs(z[:, None] - z[None, :])

    def total(width):
        return np.exp(-0.5 * (distance / width) ** 2).sum() / (width * np.sqrt(2 * np.pi))

    def criterion(width):
        selves = n / (width * np.sqrt(2 * np.pi))
        return total(np.sqrt(2) * width) / n**2 - 2 / (n * (n - 1)) * (total(width) - selves)

    return criterion


SAMPLES = {
    "normal": lambda rng: rng.normal(size=500),
    "uniform": lambda rng: rng.uniform(1, 3, 500),
    "lognormal": lambda rng: rng.lognormal(size=500),
    "two far lumps": lambda rng: np.r_[rng.normal(size=300), 50 + 0.1 * rng.normal(size=300)],
    "heavy tails": lambda rng: rng.standard_t(3, size=500),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_width_is_that_of_the_double_sum(name):
    z = SAMPLES[name](np.random.default_rng(3))
    criterion = direct(z)
    width = leave_one_out_width(Bins.over(z.min(), z.max()).of(z))
    tried = np.geomspace(width / 30, width * 10, 60)
    best = int(np.argmin([criterion(t) for t in tried]))
    found = minimize_scalar(criterion, bounds=(tried[max(0, best - 1)], tried[best + 1]), method="bounded")
    assert width == pytest.approx(found.x, rel=1e-3)


@pytest.mark.parametrize("size", [10, 15, 30, 100])
@pytest.mark.parametrize("seed", range(3))
def test_width_of_few_values_is_not_narrowed_by_the_period_of_the_transform(size, seed):
    """With few values the best width is about as large as their deviation, and values at both ends must not meet."""
    rng = np.random.default_rng(seed)
    for z in (rng.random(size), rng.normal(size=size), rng.choice([0.0, 1.0], size) + 0.3 * rng.normal(size=size)):
        criterion = direct(z)
        bins = Bins.over(z.min(), z.max()).of(z)
        tried = np.geomspace(2 * bins.step, 3 * z.std(), 90)
        best = int(np.clip(np.argmin([criterion(t) for t in tried]), 1, len(tried) - 2))
        found = minimize_scalar(
            criterion, bounds=(tried[best - 1], tried[best + 1]), method="bounded", options={"xatol": 1e-7}
        )
        assert leave_one_out_width(bins) == pytest.approx(found.x, rel=1e-4)


def test_self_terms_are_right_also_at_small_widths():
    """Smeared over a cell, the self-terms at ten cells would be off by 2% of the criterion's largest part."""
    z = np.random.default_rng(0).normal(size=400)
    bins = Bins.over(z.min(), z.max()).of(z)
    criterion, exact = LeaveOneOut(bins), direct(z)
    for cells in (10, 30, 100, 1000):
        width = cells * bins.step
        selves = 1 / (2 * len(z) * width * np.sqrt(np.pi))
        assert criterion(width) == pytest.approx(exact(width), abs=3e-4 * selves)


def test_ties_do_not_draw_the_width_to_nothing():
    z = np.round(np.random.default_rng(0).normal(size=2000), 1)
    bins = Bins.over(z.min(), z.max()).of(z)
    assert leave_one_out_width(bins) >= 2 * bins.step * 0.99


@given(seeds, st.integers(0, 300))
@steady(30)
def test_counts_of_parts_add_up(seed, cut):
    z = np.random.default_rng(seed).normal(size=300)
    z[::17] = np.nan
    empty = Bins.over(-1.5, 1.5, cells=64)
    whole, parts = empty.of(z), empty.of(z[:cut]) + empty.of(iter([z[cut:]]))
    np.testing.assert_array_equal(whole.counts, parts.counts)
    np.testing.assert_allclose(whole.shift, parts.shift)
    assert whole.wobble == pytest.approx(parts.wobble)
    assert (whole.below, whole.above, whole.empty) == (parts.below, parts.above, parts.empty)
    assert whole.n + whole.empty == 300
    assert (whole.least, whole.most) == (np.nanmin(z), np.nanmax(z))
    np.testing.assert_array_equal(whole.counts, np.histogram(z, 64, (-1.5, 1.5))[0])


def test_coarse_cells_keep_every_value():
    z = np.random.default_rng(1).normal(size=1000)
    bins = Bins.over(-2, 2, cells=1000).of(z)
    edges, counts = bins.coarse(-50, 11, 100)
    assert counts.sum() == 1000
    np.testing.assert_array_equal(counts[1:-1], np.histogram(z[(z >= -2) & (z < 2)], edges)[0])


def test_grids_that_differ_are_not_added():
    with pytest.raises(UsageError, match="different grids"):
        Bins.over(0, 1) + Bins.over(0, 2)
    with pytest.raises(UsageError, match="finite bounds"):
        Bins.over(0, np.inf)
