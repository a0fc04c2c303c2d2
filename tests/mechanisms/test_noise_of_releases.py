"""Noise as it comes out of mechanisms: its law is accepted, one 30% off rejected; exact noise lies on its grid."""

import numpy as np
import pytest
from scipy import stats
from sfumato.mechanisms.grid_laplace import LaplaceNoise

from domains import any_records, domain
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
    for column, law in enumerate(fitted.laws()):
        assert_law(Z[:, column] - scores[:, column], law)
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
    columns = [column for column, law in enumerate(fitted.laws()) if law is not None]
    assert columns == [0, 1, 3]
    for column in columns:
        assert_law(Z[:, column] - X[:, column], fitted.laws()[column])


@pytest.mark.parametrize("b", [0.001, 0.3, 50])
@pytest.mark.parametrize("bounds", ["public", "data"])
def test_exact_noise_lies_on_its_grid(b, bounds):
    fitted, Z, _ = released(PrincipalLaplace(b, components=3, component_bounds=bounds), rows=5_000)
    grid = np.array([column["noise"]["grid"] for column in fitted.release_columns()])
    assert (on_grid(Z, grid) == 1).all()
    additive, Z, _ = released(AdditiveNoise(scale=b), "nn", rows=5_000)
    step = additive.release_columns()[0]["noise"]["grid"] / 8  # on the card in raw units, of which 8 are the range
    assert (on_grid(Z, step) == 1).all()


class NaiveLaplace(PrincipalLaplace):
    """The planted fault: claims the exact grid and draws doubles."""

    def perturb(self, X, y, rng):
        exact, self.noise_ = self.noise_, LaplaceNoise(self.noise_.low, self.noise_.high, self.noise_.scale, False)
        try:
            return super().perturb(X, y, rng)
        finally:
            self.noise_ = exact


def test_a_naive_float_sampler_is_caught_by_the_same_check():
    fitted, Z, _ = released(NaiveLaplace(0.3, components=3), rows=5_000)
    grid = np.array([column["noise"]["grid"] for column in fitted.release_columns()])
    assert fitted.noise_path() == "exact-grid"
    assert (on_grid(Z, grid) < 0.02).all()


def test_the_reachable_grid_points_do_not_depend_on_the_value():
    """Mironov's attack on doubles asks which outputs are possible; here every integer step is, for both inputs."""
    noise = LaplaceNoise(np.zeros(1), np.ones(1), np.full(1, 2.0**-2), exact=True)
    coarse = LaplaceNoise(np.zeros(1), np.full(1, 2.0**47), np.full(1, 1.0), exact=True)
    assert noise.bits == 40
    assert coarse.bits == 4
    steps = []
    for value in (0.0, 5.37):
        Z = coarse.add(np.full((200_000, 1), value), Streams.seeded(3).generator(0))
        steps.append(set(np.rint(Z[np.abs(Z) < 2] * 16).astype(int).ravel()))
    assert steps[0] == steps[1] == set(range(-31, 32))


def test_values_on_the_grid_stay_inside_their_interval():
    """One component costs (n_high - n_low) / 2^k, which never exceeds width / scale."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        low = rng.normal(size=3)
        width, scale = rng.uniform(1e-6, 3, 3), rng.uniform(1e-3, 5, 3)
        noise = LaplaceNoise(low, low + width, scale, exact=True)
        assert (noise.component_epsilon() <= width / scale).all()
        start, stop = noise._steps()
        assert (start * noise.grid >= low - 1e-15 * np.abs(low)).all()
        assert ((stop * noise.grid <= low + width) | (start == stop)).all()
        assert noise.rounding_epsilon() == 3 * 2.0**-noise.bits
