import numpy as np
import pytest
from numpy.testing import assert_allclose

from sfumato.attacks import ColumnMoments, Knowledge, Response, Transform
from sfumato.attacks.known_transform import KnownTransform
from sfumato.attacks.linear_estimate import LinearEstimate, wiener
from sfumato.attacks.naive_estimate import NaiveEstimate
from sfumato.attacks.observation import Observation, observe


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
    ours = wiener(Z, Observation(A, np.zeros(3), N), *moments(X))
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


def test_randomized_response_is_a_gain_a_floor_and_a_spread(unit):
    """Brute force: the average covariance of the report given the truth over all categories."""
    law, mean = Response(keep=0.7, categories=3), np.array([0.5, 0.3, 0.2])
    encoding = unit(3)
    encoding.groups = (type(encoding.groups[0])(start=0, stop=3, is_onehot=True),)
    known = Knowledge(np.zeros((1, 3)), encoding, noise=(law,) * 3, transform=Transform.identity(3))
    model = observe(known, mean)
    report = np.full((3, 3), law.other) + (law.keep - law.other) * np.eye(3)
    assert_allclose(model.matrix + model.offset[:, None], report)
    spread = sum(p * (np.diag(row) - np.outer(row, row)) for p, row in zip(mean, report, strict=True))
    assert_allclose(model.noise, spread, atol=1e-12)
