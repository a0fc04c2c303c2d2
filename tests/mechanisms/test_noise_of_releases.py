"""Noise as it comes out of mechanisms: its law is accepted, one 30% off rejected; exact noise lies on its grid."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from domains import any_records, domain
from sfumato.channels import Additive, draw, laplace_channels
from sfumato.mechanisms import AdditiveNoise, PrincipalLaplace
from sfumato.noise import Streams

ROWS = 40_000


def released(mechanism, shape="nn3", seed=0, rows=ROWS):
    """A fitted mechanism and, in units of the release, its rows with and without noise."""
    encoding = domain(shape)
    X = any_records(encoding, np.random.default_rng(seed), rows)
    fitted = mechanism.fit(X, encoding=encoding)
    return fitted, fitted.perturb(X, None, Streams.seeded(seed).generator(0)).X, fitted.embed(X)


def assert_law(noise, law):
    """Accepts the true scale, rejects one 30% off: a test that cannot reject proves nothing."""
    assert stats.kstest(noise, law.cdf).pvalue > 1e-6
    for factor in (1.3, 1 / 1.3):
        assert stats.kstest(noise, law.scaled(factor).cdf).pvalue < 1e-20


def on_grid(Z, grid):
    """Share of the values that are whole multiples of the public step: all of them, or the noise was not exact."""
    return np.mean(np.rint(Z / grid) * grid == Z, axis=0)


@pytest.mark.parametrize("noise", ["exact", "float"])
@pytest.mark.parametrize("bounds", ["public", "data"])
def test_every_component_has_its_scale_and_no_other(noise, bounds):
    fitted, Z, scores = released(PrincipalLaplace(0.3, components=4, component_bounds=bounds, noise=noise))
    for column, channel in enumerate(fitted.recipe_.channels):
        assert_law(Z[:, column] - scores[:, column], channel.law)
    correlations = np.corrcoef((Z - scores).T) - np.eye(4)
    assert np.abs(correlations).max() < 6 / np.sqrt(ROWS)


@pytest.mark.parametrize(
    "mechanism",
    [
        AdditiveNoise("laplace", 0.3),
        AdditiveNoise("laplace", 0.3, noise="float"),
        AdditiveNoise("normal", 0.25),
        AdditiveNoise("uniform", 0.25),
        AdditiveNoise("uniform", low=-0.2, high=0.5),
        AdditiveNoise("student-t", 0.3),
        AdditiveNoise("student-t", 0.3, df=1),
    ],
    ids=str,
)
def test_every_column_has_its_law_and_no_other(mechanism):
    fitted, Z, X = released(mechanism, "nmo")
    plain, missing, ordinal = fitted.recipe_.channels
    shown = Z[:, 2] == 0
    assert_law(Z[:, 0] - X[:, 0], plain.law)
    assert_law(Z[shown, 1] - X[shown, 1], missing.inner.law)
    assert_law(Z[:, 3] - X[:, 3], ordinal.law)


@pytest.mark.parametrize("b", [0.001, 0.3, 50])
@pytest.mark.parametrize("bounds", ["public", "data"])
def test_exact_noise_lies_on_its_grid(b, bounds):
    fitted, Z, _ = released(PrincipalLaplace(b, components=3, component_bounds=bounds), rows=5_000)
    grid = np.array([channel.step for channel in fitted.recipe_.channels])
    assert (on_grid(Z, grid) == 1).all()
    additive, Z, _ = released(AdditiveNoise(scale=b), "nn", rows=5_000)
    assert (on_grid(Z, additive.recipe_.channels[0].step) == 1).all()


class NaiveLaplace(PrincipalLaplace):
    """The planted fault: claims the exact grid and draws doubles."""

    def perturb(self, X, y, rng):
        exact = self.recipe_
        naive = tuple(Additive(channel.law, low=channel.low, high=channel.high) for channel in exact.channels)
        self.recipe_ = replace(exact, channels=naive)
        try:
            return super().perturb(X, y, rng)
        finally:
            self.recipe_ = exact


def test_a_naive_float_sampler_is_caught_by_the_same_check():
    fitted, Z, _ = released(NaiveLaplace(0.3, components=3), rows=5_000)
    grid = np.array([channel.step for channel in fitted.recipe_.channels])
    assert fitted.recipe_.path == "exact-grid"
    assert (on_grid(Z, grid) < 0.02).all()


def test_the_reachable_grid_points_do_not_depend_on_the_value():
    """Mironov's attack on doubles asks which outputs are possible; here every integer step is, for both inputs."""
    (fine,) = laplace_channels(np.zeros(1), np.ones(1), np.full(1, 2.0**-2), exact=True)
    (coarse,) = laplace_channels(np.zeros(1), np.full(1, 2.0**47), np.full(1, 1.0), exact=True)
    assert fine.bits == 40
    assert coarse.bits == 4
    steps = []
    for value in (0.0, 5.37):
        Z = draw([coarse], np.full((200_000, 1), value), Streams.seeded(3).generator(0))
        steps.append(set(np.rint(Z[np.abs(Z) < 2] * 16).astype(int).ravel()))
    assert steps[0] == steps[1] == set(range(-31, 32))


def test_values_on_the_grid_stay_inside_their_interval():
    """One component costs (n_high - n_low) / 2^k, which never exceeds width / scale."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        low = rng.normal(size=3)
        width, scale = rng.uniform(1e-6, 3, 3), rng.uniform(1e-3, 5, 3)
        channels = laplace_channels(low, low + width, scale, exact=True)
        assert len({channel.bits for channel in channels}) == 1
        for channel, least, most, b in zip(channels, low, low + width, scale, strict=True):
            assert channel.whole <= (most - least) / b
            start, stop = channel.ends
            assert start * channel.grid >= least - 1e-15 * abs(least)
            assert stop * channel.grid <= most or start == stop
            assert channel.rounding == 2.0**-channel.bits
