"""Exact samplers: their laws are tested with power, also where ties of digits are frequent."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sfumato.core.errors import UsageError
from sfumato.noise import Laplace, Streams, discrete_laplace, grid
from sfumato.noise.grid import exact_bernoulli, uniform_integers


def rng(seed=0):
    return Streams.seeded(seed).generator(0)


def chi_square(values, probability, reach):
    """p-value of integers against P(n), |n| <= reach, all others being one cell."""
    inside = values[np.abs(values) <= reach]
    counts = np.bincount(inside + reach, minlength=2 * reach + 1)
    counts = np.append(counts, values.size - inside.size)
    expected = values.size * probability(np.arange(-reach, reach + 1))
    expected = np.append(expected, values.size - expected.sum())
    few = expected < 5
    return stats.chisquare(
        np.append(counts[~few], counts[few].sum()), np.append(expected[~few], max(expected[few].sum(), 1e-9))
    ).pvalue


def law(scale):
    return lambda n: np.tanh(0.5 / scale) * np.exp(-np.abs(n) / scale)


@pytest.mark.parametrize("k", [0, 1, 2, 4, 6])
def test_discrete_laplace_has_its_law_and_no_other(k):
    draws = discrete_laplace(rng(k), k, 300_000)
    assert chi_square(draws, law(2**k), 12 << k) > 1e-6
    assert chi_square(draws, law(1.3 * 2**k), 12 << k) < 1e-20
    assert chi_square(draws, law(2**k / 1.3), 12 << k) < 1e-20


@pytest.mark.parametrize("digit", [1, 2, 3, 4])
@pytest.mark.parametrize("k", [0, 1, 5])
def test_ties_are_resolved_exactly(k, digit):
    """With digits of a few bits a large part of all comparisons goes through the scalar path."""
    draws = discrete_laplace(rng(10 * k + digit), k, 12_000, _digit=digit)
    assert chi_square(draws, law(2**k), 10 << k) > 1e-6
    assert chi_square(draws, law(1.3 * 2**k), 10 << k) < 1e-20


def test_careless_ties_would_be_noticed(monkeypatch):
    """The planted fault: a tie counts as the end of the run. The tests above must be able to see it."""
    monkeypatch.setattr(grid, "_falls", lambda *_: False)
    draws = discrete_laplace(rng(3), 1, 30_000, _digit=2)
    assert chi_square(draws, law(2), 20) < 1e-20


def test_forgotten_bits_of_a_tied_fraction_would_be_noticed(monkeypatch):
    """The planted fault: the bits that decided a tie are not those that the result shows."""
    monkeypatch.setattr(grid._Lazy, "tail", lambda _lazy, rng, *_: int(grid.random_words(rng, 1)[0]))
    draws = discrete_laplace(rng(3), 5, 40_000, _digit=1)
    assert chi_square(draws, law(32), 320) < 1e-6


@pytest.mark.parametrize("k", [20, 46, 56])
def test_large_scales(k):
    """At k = 46 the draws are as good as continuous, and their low bits are fair coins."""
    draws = discrete_laplace(rng(k), k, 200_000)
    scaled = draws / 2.0**k
    assert stats.kstest(scaled, Laplace(1.0).cdf).pvalue > 1e-6
    assert stats.kstest(1.3 * scaled, Laplace(1.0).cdf).pvalue < 1e-20
    for bit in (0, 1, k // 2, k - 10):
        ones = int(((np.abs(draws) >> bit) & 1).sum())
        assert stats.binomtest(ones, draws.size, 0.5).pvalue > 1e-6
    # bit i of a geometric variable is 1 with probability 1 / (1 + exp(2^(i-k))), independently
    for bit in (k - 2, k - 1, k, k + 1):
        ones = int(((np.abs(draws) >> bit) & 1).sum())
        assert stats.binomtest(ones, draws.size, 1 / (1 + np.exp(2.0 ** (bit - k)))).pvalue > 1e-6


def test_draws_are_independent_of_their_neighbours_and_of_the_shape():
    draws = discrete_laplace(rng(5), 12, (500, 400))
    assert draws.dtype == np.int64
    assert draws.shape == (500, 400)
    flat = draws.ravel() / 4096
    assert abs(np.corrcoef(flat[1:], flat[:-1])[0, 1]) < 5 / np.sqrt(flat.size)
    assert abs(np.corrcoef(np.abs(flat[1:]), np.abs(flat[:-1]))[0, 1]) < 5 / np.sqrt(flat.size)
    assert (flat == discrete_laplace(rng(5), 12, 200_000) / 4096).all()
    assert discrete_laplace(rng(5), 12, 0).shape == (0,)
    assert discrete_laplace(rng(5), 12, ()).shape == ()


def test_small_and_large_requests_have_the_same_law():
    """Blocks of a few draws end in the middle of the sequence of trials; that must not favour short runs."""
    generator = rng(8)
    draws = np.concatenate([discrete_laplace(generator, 1, 3) for _ in range(5_000)])
    assert chi_square(draws, law(2), 20) > 1e-6


def test_small_passes_have_the_same_law(monkeypatch):
    """Passes of five trials: failures are carried from pass to pass."""
    monkeypatch.setattr(grid, "_TRIALS", 5)
    assert chi_square(discrete_laplace(rng(9), 0, 15_000), law(1), 12) > 1e-6


def test_a_naive_sampler_is_told_apart_from_the_grid():
    """Multiples of the step, and all of them: floating-point noise is not on the grid."""
    k, scale = 20, 0.3
    step = scale / 2**k
    exact = discrete_laplace(rng(1), k, 10_000) * step
    naive = Laplace(scale).sample(rng(1), 10_000)

    def on_grid(noise):
        return np.mean(np.rint(noise / step) * step == noise)

    assert on_grid(exact) == 1
    assert on_grid(naive) < 0.01


@given(st.integers(0, 56), st.integers(1, 40))
@settings(max_examples=30, deadline=None)
def test_any_scale_and_size_fits(k, size):
    draws = discrete_laplace(rng(k), k, size)
    assert draws.shape == (size,)
    assert (np.abs(draws / 2.0**k) < 60).all()


@pytest.mark.parametrize("k", [-1, 57, 1.5, True, None])
def test_wrong_scales_are_refused(k):
    with pytest.raises(UsageError, match="'log2_scale' parameter of discrete_laplace must be"):
        discrete_laplace(rng(), k, 3)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.987])
def test_bernoulli(p):
    threshold = int(p * 2**64)
    ones = int(exact_bernoulli(rng(2), threshold, (100, 2000)).sum())
    assert stats.binomtest(ones, 200_000, p).pvalue > 1e-6
    assert stats.binomtest(ones, 200_000, p * 1.3 if p < 0.7 else p / 1.3).pvalue < 1e-20


def test_bernoulli_at_its_ends():
    assert not exact_bernoulli(rng(), 0, 1000).any()
    assert exact_bernoulli(rng(), 2**64, 1000).all()
    words = grid.random_words(rng(), 4)
    threshold = int(words[1])
    assert exact_bernoulli(rng(), threshold, 4).tolist() == [int(w) < threshold for w in words]
    assert exact_bernoulli(rng(), threshold + 1, 4)[1]
    for wrong in (-1, 2**64 + 1):
        with pytest.raises(UsageError, match="between 0 and 2"):
            exact_bernoulli(rng(), wrong, 3)


@pytest.mark.parametrize("bound", [2, 3, 7, 10])
def test_uniform_integers(bound):
    draws = uniform_integers(rng(bound), bound, (300, 100))
    assert draws.dtype == np.int64
    counts = np.bincount(draws.ravel(), minlength=bound)
    assert counts.size == bound
    assert stats.chisquare(counts).pvalue > 1e-6


def test_uniform_integers_reject_the_excess():
    """Without rejection the lower two thirds would be 1.5 times as likely as the rest at this bound."""
    bound = 3 << 61  # 2^64 = 2 * bound + 2^62
    draws = uniform_integers(rng(4), bound, 30_000)
    low = int((draws < bound // 3).sum())
    assert stats.binomtest(low, 30_000, 1 / 3).pvalue > 1e-6
    careless = grid.random_words(rng(4), 30_000) % np.uint64(bound)
    assert stats.binomtest(int((careless < bound // 3).sum()), 30_000, 1 / 3).pvalue < 1e-20
    assert not uniform_integers(rng(), 1, 5).any()
    for wrong in (0, -3, 2**63 + 1):
        with pytest.raises(UsageError, match="'bound' parameter"):
            uniform_integers(rng(), wrong, 3)
