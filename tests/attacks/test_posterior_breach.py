"""The examples of [principal-laplace]: uniform, normal and projection break, Laplace holds."""

import numpy as np
import pytest
from knowing import told
from numpy.testing import assert_allclose

from sfumato.attacks.base import Abstain, Knowledge, Transform
from sfumato.attacks.posterior_breach import PosteriorBreach, posterior, properties_of
from sfumato.channels import Additive, RandomizedResponse
from sfumato.guarantee.cost import posterior_bound
from sfumato.noise import Laplace, Normal, StudentT, Uniform

SPARSE = ([0.0, 1.0], [0.99, 0.01])  # Example 4.2


def test_example_1_1_uniform_noise_gives_the_only_high_salary_away():
    salaries, shares = [*np.arange(20_000, 120_000, 1000), 150_000], [*[0.0099] * 100, 0.01]
    after = posterior(salaries, shares, Additive(Uniform(low=-100_000, high=100_000)), 250_000)
    assert after[0, -1] == 1.0


def test_example_4_1_uniform_noise_on_the_unit_interval():
    values = np.linspace(0, 1, 101)
    after = posterior(values, None, Additive(Uniform(low=0.0, high=1.0)), [1.99, 0.5])
    assert after[0, values >= 0.99].sum() == pytest.approx(1.0)
    assert after[1, values >= 0.99].sum() == 0.0


def test_example_4_2_normal_noise_breaks_at_large_values():
    after = posterior(*SPARSE, Additive(Normal(1.0)), [0.0, 5.0, 1000.0])[:, 1]
    gamma = np.exp(5 - 0.5)
    assert after[1] == pytest.approx(gamma / (99 + gamma))  # Eq. (6)
    assert after[2] == pytest.approx(1.0)
    assert after[0] < 0.01


def test_laplace_noise_holds_where_normal_noise_broke():
    after = posterior(*SPARSE, Additive(Laplace(0.5)), [1.0, 5.0, 1000.0, 1e6])[:, 1]
    assert_allclose(after, 0.069, atol=0.001)
    assert_allclose(after, posterior_bound(0.01, 1 / 0.5))


def test_student_t_noise_holds_too():
    y = np.linspace(-50, 50, 2001)
    after = posterior(*SPARSE, Additive(StudentT(0.5, df=3)), y)[:, 1]
    assert after.max() <= posterior_bound(0.01, StudentT(0.5, df=3).log_amplification(1.0)) + 1e-9
    assert after.max() < 0.2


def test_example_4_3_a_projection_shows_who_is_not_zero(unit):
    """Sparse rows, no noise: a non-zero image can only come from a non-zero row."""
    rng = np.random.default_rng(0)
    X = np.zeros((200, 4))
    X[:8] = rng.random((8, 4)) * 0.5 + 0.5
    A = rng.normal(size=(2, 4))
    known = Knowledge(
        X @ A.T,
        unit(4),
        columnwise=False,
        transform=Transform(A, np.zeros(2)),
        noise=told(None, None),
        column_distributions=tuple(np.sort(X, axis=0).T),
        sample=np.vstack([np.zeros((92, 4)), rng.random((8, 4)) * 0.5 + 0.5]),
    )
    guess = PosteriorBreach().run(known)
    nonzero = [i for i, item in enumerate(guess.properties) if item.low >= 0 and item.slot == 0]
    raised = guess.posterior[:, nonzero].sum(axis=1)
    assert guess.prior[nonzero].sum() <= 0.1
    assert (raised[:8] > 0.99).all()
    assert (raised[8:] < 0.01).all()


def test_the_posterior_is_bayes_rule_by_brute_force(unit, correlated):
    X = correlated(n=60, d=3)
    A = np.array([[1.0, -0.5, 0.2], [0.3, 0.8, 1.0]])
    laws = (Laplace(0.2), Normal(0.3))
    Z = X @ A.T + 0.1
    known = Knowledge(
        Z,
        unit(3),
        columnwise=False,
        transform=Transform(A, np.full(2, 0.1)),
        noise=told(*laws),
        column_distributions=tuple(np.sort(X, axis=0).T),
        sample=X,
    )
    guess = PosteriorBreach(parts=4).run(known)
    weights = np.array([[laws[0].pdf(z[0] - e[0]) * laws[1].pdf(z[1] - e[1]) for e in X @ A.T + 0.1] for z in Z])
    holds = np.column_stack([item.covers(X[:, item.slot]) for item in guess.properties])
    assert_allclose(guess.posterior, weights @ holds / weights.sum(axis=1, keepdims=True), atol=1e-9)
    assert_allclose(guess.prior, holds.mean(axis=0))


def test_columns_are_done_exactly_and_bounded_by_the_amplification(unit, correlated):
    X = correlated(n=400, d=3)
    Z = X + np.random.default_rng(0).laplace(scale=0.5, size=X.shape)
    distributions = tuple(np.sort(X, axis=0).T)
    guess = PosteriorBreach().run(
        Knowledge(Z, unit(3), noise=told(*[Laplace(0.5)] * 3), column_distributions=distributions)
    )
    bound = np.array([posterior_bound(prior, 1 / 0.5) for prior in guess.prior])
    assert (guess.posterior <= bound + 1e-9).all()
    assert_allclose(guess.posterior[:, :20].sum(axis=1), 1.0)  # intervals of one column cover it
    assert guess.prior == pytest.approx(0.05, abs=0.006)


def test_randomized_response_by_bayes_rule(categorical):
    prior, law = np.array([0.6, 0.3, 0.1]), RandomizedResponse(keep=0.5, categories=3)
    Z = np.eye(3)
    distributions = tuple(np.sort(np.repeat(np.eye(3), [60, 30, 10], axis=0), axis=0).T)
    guess = PosteriorBreach().run(Knowledge(Z, categorical(3), noise=told(law), column_distributions=distributions))
    joint = prior * np.array([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.25, 0.5]])
    assert_allclose(guess.posterior, joint / joint.sum(axis=1, keepdims=True))
    assert_allclose(guess.prior, prior)


def test_an_impossible_value_goes_to_the_nearest_possible_one():
    assert posterior([0.0, 1.0], None, Additive(Uniform(low=-0.1, high=0.1)), [0.7, -9.0]).tolist() == [[0, 1], [1, 0]]


def test_mixed_columns_without_a_sample_make_it_abstain(unit):
    known = Knowledge(
        np.ones((5, 1)),
        unit(2),
        columnwise=False,
        transform=Transform(np.ones((1, 2)), np.zeros(1)),
        noise=told(Laplace(1.0)),
        column_distributions=(np.linspace(0, 1, 5),) * 2,
    )
    assert isinstance(PosteriorBreach().run(known), Abstain)


def test_the_properties_of_a_column_are_disjoint_and_cover_it(unit):
    values = np.sort(np.random.default_rng(0).integers(0, 6, size=300) / 5)
    known = Knowledge(np.zeros((1, 1)), unit(1), column_distributions=(values,))
    held = np.column_stack([item.covers(values) for item in properties_of(known, 20)])
    assert (held.sum(axis=1) == 1).all()
