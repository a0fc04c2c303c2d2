"""Windows that slide with the truth: the grid by brute force, moments by integration, widths by what they maximise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from sfumato.channels import FLOAT_NOISE, HidesMissing, Piecewise, RandomizedResponse, SquareWave
from sfumato.channels.base import EXACT_WINDOW, Channel
from sfumato.core.errors import UsageError
from sfumato.noise.grid import WORD
from sfumato.noise.response import WindowNoise, draw_cells, square_wave_width

kinds = pytest.mark.parametrize("kind", [SquareWave, Piecewise])


def square_wave(epsilon):
    """Density given x as the paper prints it, on released values in [0, 1] units."""
    e = epsilon
    b = (e * math.exp(e) - math.exp(e) + 1) / (2 * math.exp(e) * (math.exp(e) - 1 - e))
    p = math.exp(e) / (2 * b * math.exp(e) + 1)
    return lambda z, x: (p if abs(z - x) <= b else p * math.exp(-e)) if -b <= z <= 1 + b else 0.0


def piecewise(epsilon):
    """In units of t = 2x - 1, as printed; here z and x lie about [0, 1]."""
    e, root = math.exp(epsilon), math.exp(epsilon / 2)
    c = (root + 1) / (root - 1)
    p = (e - root) / (2 * root + 2)

    def density(z, x):
        z, t = 2 * z - 1, 2 * x - 1
        left = (c + 1) / 2 * t - (c - 1) / 2
        return 2 * (p if left <= z <= left + c - 1 else p / e) if -c <= z <= c else 0.0

    return density


PUBLISHED = {SquareWave: square_wave, Piecewise: piecewise}


@kinds
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
class TestLaw:
    def test_density_is_the_published_one(self, kind, epsilon, exact):
        channel, density = kind.of_epsilon(epsilon, exact=exact), PUBLISHED[kind](epsilon)
        low, high, _ = channel.reach(0.0, 1.0, 0.0)
        z = np.linspace(low + 1e-4, high - 1e-4, 301)
        x = np.array([0.0, 0.137, 0.5, 1.0])
        wanted = np.array([[density(one, other) for other in x] for one in z])
        found = np.exp(channel.log_likelihood(z[:, None], x[:, None]))
        assert np.mean(np.abs(found / wanted - 1) < 1e-4) > 0.99  # the grid moves an edge by half a step

    def test_epsilon_is_the_one_wanted_and_never_more(self, kind, epsilon, exact):
        told = kind.of_epsilon(epsilon, exact=exact).epsilon
        assert told == pytest.approx(epsilon, abs=1e-12)
        assert not exact or told <= epsilon

    def test_mean_and_variance_by_integration(self, kind, epsilon, exact):
        channel = kind.of_epsilon(epsilon, exact=exact)
        low, high, _ = channel.reach(0.0, 1.0, 0.0)
        noise = channel.raw_noise(1.0)
        for x in (0.0, 0.3, 1.0):
            half = 0.5 * channel.window * channel.stretch
            centre = 0.5 + channel.stretch * (x - 0.5)
            edges = [p for p in (centre - half, centre + half) if low < p < high]

            def moment(power, x=x, edges=edges):
                return integrate.quad(lambda z: z**power * float(noise.pdf(z, x)), low, high, points=edges)[0]

            slope, offset = channel.mean_line()
            assert moment(0) == pytest.approx(1, abs=1e-9)
            assert moment(1) == pytest.approx(slope * x + offset, abs=1e-9)
            assert moment(2) - moment(1) ** 2 == pytest.approx(float(channel.variance(np.array(x))), abs=1e-9)

    def test_cdf_span_and_transition_agree_with_the_density(self, kind, epsilon, exact):
        channel = kind.of_epsilon(epsilon, exact=exact)
        low, high, _ = channel.reach(0.0, 1.0, 0.0)
        noise, x = WindowNoise(channel.near, channel.window, channel.stretch, 10.0, 4.0), np.array([0.0, 0.21, 1.0])
        edges = np.linspace(low, high, 41)
        by_density = Channel.transition(
            channel, edges, x[:, None]
        )  # it misses the edge of a window by an eighth of a cell
        eighth = channel.near / channel.window / channel.stretch * (edges[1] - edges[0]) / 8
        assert np.allclose(channel.transition(edges, x[:, None]), by_density, atol=eighth)
        assert np.mean(np.isclose(channel.transition(edges, x[:, None]), by_density)) > 0.8
        assert channel.transition(edges, x[:, None]).sum(axis=0) == pytest.approx(1)
        assert np.allclose(
            np.diff(noise.cdf(10 + 4 * edges[:, None], 10 + 4 * x), axis=0), channel.transition(edges, x[:, None])
        )
        for tail in (1e-4, 0.05, 0.3):
            first, last = noise.span(10 + 4 * x, tail)
            assert noise.cdf(first, 10 + 4 * x) == pytest.approx(tail)
            assert noise.cdf(last, 10 + 4 * x) == pytest.approx(1 - tail)


@kinds
def test_the_grid_by_counting_every_word(kind):
    """A tiny grid: probabilities as fractions, from the integers that the program uses; their ratio is the epsilon."""
    channel = kind(0.625, 3 / 4, 4)
    near, far = Fraction(channel.threshold, WORD * 3), Fraction(WORD - channel.threshold, WORD * 4)
    assert 3 * near + 4 * far == 1
    assert channel.epsilon == pytest.approx(math.log(near / far), rel=1e-15)
    assert Fraction(math.exp(channel.epsilon)) >= near / far * (1 - Fraction(1, 10**15))
    rng = np.random.default_rng(0)
    for start in range(5):
        cells = draw_cells(rng, np.full(70_000, start), channel.threshold, 3, 4)
        wanted = [float(near if start <= cell < start + 3 else far) for cell in range(7)]
        assert stats.chisquare(np.bincount(cells, minlength=7), np.array(wanted) * 70_000).pvalue > 1e-6
        log = channel.log_likelihood(channel._of_cells(np.arange(7))[:, None], np.array([[start / 4]]))[:, 0]
        assert np.exp(log) * channel.step == pytest.approx(wanted)


def test_the_square_waves_width_maximises_what_is_learned():
    """The differential entropy of the output for uniform x, as approximated in the paper, less that of the noise."""
    for epsilon in (0.7, 1.5, 3.0):
        e = math.exp(epsilon)

        def loss(b, e=e):
            p = e / (2 * b * e + 1)
            return -(math.log(1 + 2 * b) + 2 * b * p * math.log(p) + (p / e) * math.log(p / e))

        best = optimize.minimize_scalar(loss, bounds=(1e-3, 0.6), method="bounded", options={"xatol": 1e-9}).x
        assert square_wave_width(epsilon) == pytest.approx(2 * best, rel=1e-4)


@kinds
def test_values_survive_raw_units(kind):
    """A cell is known again although raw units have rounded it, also far from 0."""
    channel, rng = kind.of_epsilon(8.0), np.random.default_rng(1)
    x = rng.random((20_000, 1))
    z = channel.draw(x, rng)
    low, width = 40_000.0, 365.0
    again = ((low + width * z) - low) / width
    grid = np.linspace(0, 1, 7)[:, None]
    assert np.array_equal(channel.log_likelihood(z, grid), channel.log_likelihood(again, grid))


@kinds
def test_paths_and_absurd_epsilons(kind):
    assert kind.of_epsilon(1.0).path == EXACT_WINDOW
    assert kind.of_epsilon(1.0, exact=False).path == FLOAT_NOISE
    for epsilon in (0.0, -1.0, 1e-9, 21.0, 1e6, math.inf, math.nan):
        with pytest.raises(UsageError, match="epsilon of one column"):
            kind.of_epsilon(epsilon)
    assert kind.of_epsilon(20.0).epsilon == pytest.approx(20, abs=1e-9)
    assert kind.of_epsilon(1e-6).epsilon <= 1e-6


@kinds
def test_what_lies_beyond_the_bounds_is_clipped(kind):
    channel, rng = kind.of_epsilon(2.0), np.random.default_rng(0)
    low, high, _ = channel.reach(0.0, 1.0, 0.0)
    for x in (-5.0, 1 + 1e-9, 70.0):
        z = channel.draw(np.full((5_000, 1), x), rng)
        assert z.min() >= low
        assert z.max() <= high


@pytest.mark.parametrize("inner", [SquareWave.of_epsilon(1.0), RandomizedResponse.of_epsilon(1.0, 5)])
def test_missing_costs_no_more_than_values_do(inner):
    """The uniform law lies between the two levels of probability, which are e^epsilon apart."""
    channel = HidesMissing(inner)
    truths = np.vstack([np.column_stack([np.eye(5), np.zeros(5)]), [0, 0, 0, 0, 0, 1]]) if inner.width > 1 else None
    outcomes = np.column_stack([np.eye(5), np.zeros(5)]) if inner.width > 1 else None
    if truths is None:
        truths = np.column_stack([np.append(np.linspace(0, 1, 21), 0.5), np.append(np.zeros(21), 1.0)])
        outcomes = np.column_stack([np.linspace(*inner.reach(0, 1, 0)[:2], 999), np.zeros(999)])
    log = channel.log_likelihood(outcomes, truths)
    assert (log.max(axis=1) - log.min(axis=1)).max() == pytest.approx(inner.epsilon, rel=1e-9)
    assert np.ptp(log[:, -1]) == 0
    present = log[:, :-1]
    assert (log[:, -1] < present.max()).all()
    assert (log[:, -1] > present.min()).all()
