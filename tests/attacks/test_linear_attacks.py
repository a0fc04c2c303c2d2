import numpy as np
import pytest
from knowing import told
from numpy.testing import assert_allclose

from sfumato.attacks.base import Abstain, ColumnMoments, Knowledge, Transform
from sfumato.attacks.likelihood import Observation, observe
from sfumato.attacks.linear_estimate import (
    KnownTransform,
    LinearEstimate,
    NaiveEstimate,
    PrincipalFilter,
    SpectralFilter,
    above_edge,
    marchenko_pastur_edge,
    wiener,
)
from sfumato.channels import RandomizedResponse
from sfumato.noise import Uniform


def moments(X):
    return ColumnMoments(X.mean(axis=0), np.cov(X, rowvar=False))


def principal(X, s):
    V = np.linalg.svd(X - X.mean(axis=0))[2][:s]
    return Transform(V, -V @ X.mean(axis=0))


def test_naive_reads_a_columnwise_release_as_it_stands(unit):
    Z = np.array([[0.2, 1.7], [-0.3, 0.4]])
    assert_allclose(NaiveEstimate().run(Knowledge(Z, unit(2))).X, [[0.2, 1.0], [0.0, 0.4]])


def test_naive_stretches_a_mixed_release_to_the_known_moments(unit, correlated):
    X = correlated(d=3)
    Z = 5 + 3 * X[:, :2]  # two release columns; the third source column can only be guessed by its mean
    guess = NaiveEstimate().run(Knowledge(Z, unit(3), columnwise=False, column_moments=moments(X))).X
    assert_allclose(guess[:, :2], X[:, :2], atol=2e-3)
    assert_allclose(guess[:, 2], X[:, 2].mean())


def test_reverse_pca_is_the_textbook_one(unit, correlated):
    X = correlated()
    transform = principal(X, 3)
    Z = X @ transform.matrix.T + transform.offset
    known = Knowledge(Z, unit(6), columnwise=False, transform=transform, column_moments=moments(X))
    textbook = X.mean(axis=0) + (X - X.mean(axis=0)) @ transform.matrix.T @ transform.matrix
    assert_allclose(KnownTransform().run(known).X, np.clip(textbook, 0, 1), atol=1e-12)


def test_a_transform_of_full_rank_without_noise_hides_nothing(unit, correlated):
    X = correlated()
    A = np.random.default_rng(1).normal(size=(8, 6))
    known = Knowledge(X @ A.T + 1, unit(6), columnwise=False, transform=Transform(A, np.ones(8)))
    assert_allclose(KnownTransform().run(known).X, X, atol=1e-10)


def test_the_linear_estimate_is_the_regression_of_source_on_release(correlated):
    """A second way to the Wiener filter: ordinary least squares of X on Z over many noisy copies gives the same map."""
    rng = np.random.default_rng(3)
    X = np.tile(correlated(n=400, d=4), (500, 1))
    A, N = rng.normal(size=(3, 4)), np.diag([0.2, 0.5, 0.1])
    Z = X @ A.T + rng.normal(size=(len(X), 3)) @ np.sqrt(N)
    ours = wiener(Z, Observation(A, np.zeros(3), N), *moments(X))[0]
    design = np.column_stack([np.ones(len(Z)), Z])
    theirs = design @ np.linalg.lstsq(design, X, rcond=None)[0]
    assert np.abs(ours - theirs).max() < 0.02
    assert ((ours - X) ** 2).mean() == pytest.approx(((theirs - X) ** 2).mean(), rel=1e-4)


def test_the_linear_estimate_beats_naive_and_known_transform(unit, correlated):
    X = correlated(n=2000)
    noise = np.random.default_rng(5).laplace(scale=0.3, size=X.shape)
    known = Knowledge(
        X + noise,
        unit(6),
        transform=Transform.identity(6),
        noise_covariance=0.18 * np.eye(6),
        column_moments=moments(X),
    )
    error = {
        attack: ((attack.run(known).X - X) ** 2).mean()
        for attack in (LinearEstimate(), LinearEstimate(moments="release"), NaiveEstimate(), KnownTransform())
    }
    best, from_release, *others = error.values()
    assert best < 0.4 * min(others)
    assert from_release < 1.1 * best


@pytest.mark.parametrize("source", ["known", "release"])
def test_without_noise_the_linear_estimate_is_exact_even_where_the_sample_never_varied(unit, source):
    X = np.random.default_rng(0).random((50, 3))
    short = ColumnMoments(np.array([0.5, 0.5, 0.2]), np.diag([0.08, 0.08, 0.0]))
    known = Knowledge(
        X, unit(3), transform=Transform.identity(3), noise_covariance=np.zeros((3, 3)), column_moments=short
    )
    assert_allclose(LinearEstimate(source).run(known).X, X, atol=1e-6)


def test_randomized_response_is_a_gain_a_floor_and_a_spread(categorical):
    """Brute force: the average covariance of the report given the truth over all categories."""
    law, mean = RandomizedResponse(keep=0.7, categories=3), np.array([0.5, 0.3, 0.2])
    known = Knowledge(np.zeros((1, 3)), categorical(3), noise=told(law), transform=Transform.identity(3))
    model = observe(known, mean)
    report = np.full((3, 3), law.other) + (law.keep - law.other) * np.eye(3)
    assert_allclose(model.matrix + model.offset[:, None], report)
    spread = sum(p * (np.diag(row) - np.outer(row, row)) for p, row in zip(mean, report, strict=True))
    assert_allclose(model.noise, spread, atol=1e-12)


def test_the_filters_stop_at_the_noise(unit, correlated):
    """Two directions of six hold the data: both filters must remove about two thirds of the noise's energy."""
    X = correlated(n=3000)
    noise = np.random.default_rng(5).normal(scale=0.2, size=X.shape)
    known = Knowledge(X + noise, unit(6), transform=Transform.identity(6), noise_covariance=0.04 * np.eye(6))
    naive = ((KnownTransform().run(known).X - X) ** 2).mean()
    for attack in (PrincipalFilter("own"), SpectralFilter()):
        assert ((attack.run(known).X - X) ** 2).mean() < 0.55 * naive
    best = PrincipalFilter("best").run(known)
    candidates = list(best.candidates(slice(None)))
    assert len(candidates) == 6
    errors = [((guess - X) ** 2).mean() for guess in candidates]
    assert int(np.argmin(errors)) == 1  # p = 2
    assert_allclose(candidates[1], PrincipalFilter(2).run(known).X)
    assert_allclose(candidates[-1], KnownTransform().run(known).X, atol=1e-10)


def test_pure_noise_lies_below_the_marchenko_pastur_edge():
    Z = np.random.default_rng(0).normal(size=(4000, 40)) * np.linspace(0.5, 3, 40)
    top = np.linalg.eigvalsh(np.cov(Z / np.linspace(0.5, 3, 40), rowvar=False))[-1]
    assert top == pytest.approx(marchenko_pastur_edge(4000, 40), rel=0.03)
    filtered = above_edge(Z, np.diag(np.linspace(0.5, 3, 40) ** 2) * 1.1)
    assert_allclose(filtered, np.broadcast_to(Z.mean(axis=0), Z.shape), atol=1e-12)


def test_without_whitening_strong_noise_in_one_column_would_be_taken_for_data(unit, correlated):
    X = correlated(n=2000)
    deviations = np.array([0.05] * 5 + [1.0])
    Z = X + np.random.default_rng(1).normal(size=X.shape) * deviations
    N = np.diag(deviations**2)
    known = Knowledge(Z, unit(6), transform=Transform.identity(6), noise_covariance=N)
    guess = SpectralFilter().run(known).X
    assert ((guess - X) ** 2)[:, 5].mean() < 0.1 * ((Z - X) ** 2)[:, 5].mean()


def test_multiplicative_noise_is_filtered_on_logarithms(unit, correlated):
    rng = np.random.default_rng(2)
    X = np.exp(correlated(n=3000) - 1)  # positive, and still of two directions on the log scale
    log_noise = rng.normal(scale=0.2, size=X.shape)
    known = Knowledge(
        X * np.exp(log_noise), unit(6), transform=Transform.identity(6), noise_covariance=0.04 * np.eye(6)
    )
    plain = np.clip(known.release, 0, 1)
    assert ((SpectralFilter(log=True).run(known).X - X) ** 2).mean() < 0.6 * ((plain - X) ** 2).mean()
    negative = Knowledge(
        known.release - 1, unit(6), transform=Transform.identity(6), noise_covariance=known.noise_covariance
    )
    assert isinstance(SpectralFilter(log=True).run(negative), Abstain)


def test_noise_that_is_not_centred_is_centred(unit, correlated):
    X = correlated()
    law = Uniform(low=0.0, high=0.02)
    noise = told(*[law] * 6)
    known = Knowledge(
        X + 0.01,
        unit(6),
        transform=noise.on_average(*Transform.identity(6)),
        noise=noise,
        noise_covariance=law.variance * np.eye(6),
        column_moments=moments(X),
    )
    assert abs((LinearEstimate().run(known).X - X).mean()) < 1e-4
