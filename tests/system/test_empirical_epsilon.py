"""The stated epsilon with ten times the draws: what is proved comes within a few percent of what is stated."""

import numpy as np
import pytest

from distinguisher import empirical_epsilon, proved_epsilon
from domains import any_records, domain
from sfumato.channels import RandomizedResponse as Response
from sfumato.mechanisms import AdditiveNoise, PiecewiseNoise, PrincipalLaplace, RandomizedResponse, SquareWaveColumns
from sfumato.noise import Streams

pytestmark = pytest.mark.system

DRAWS = 2_000_000
BASIS = np.array([[0.6, 0.3, -0.5, 0.2, 0.4, -0.3], [0.2, -0.7, 0.3, 0.5, -0.4, 0.1], [0.4, 0.1, 0.6, -0.5, 0.2, 0.3]])


def assert_tight(proved, claim):
    """Nobody beats the claim; a claim that is a tenth too small would be beaten."""
    assert proved <= claim
    assert proved > 0.9 * claim


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(
    ("mechanism", "shape"),
    [
        (PrincipalLaplace(basis=BASIS, basis_reason="test"), "nm3"),
        (PrincipalLaplace(basis=BASIS[:2], basis_reason="test"), "nnn3"),
        (AdditiveNoise(), "nm3"),
        (AdditiveNoise(), "oi?"),
        (RandomizedResponse(), "23?"),
        (SquareWaveColumns(), "nm3?"),
        (SquareWaveColumns(columns=2), "nm3"),
        (PiecewiseNoise(), "nm3?"),
        (PiecewiseNoise(columns=2), "nnm"),
    ],
    ids=str,
)
def test_records(mechanism, shape, epsilon):
    encoding = domain(shape)
    X = any_records(encoding, np.random.default_rng(0), 20)
    fitted = mechanism.set_params(epsilon_record=epsilon).fit(X, encoding=encoding)
    assert_tight(proved_epsilon(fitted, DRAWS, Streams.seeded(11)), fitted.guarantee().record)


class ATenthTooQuiet(AdditiveNoise):
    """The planted fault is small: noise of nine tenths."""

    def perturb(self, X, y, rng):
        block = super().perturb(X, y, rng)
        block.X[:] = X + (block.X - X) * 0.9
        return block


def test_noise_a_tenth_too_small_is_caught():
    fitted = ATenthTooQuiet(epsilon_record=1.0).fit(np.array([[0.0], [1.0]]), encoding=domain("n"))
    assert proved_epsilon(fitted, DRAWS, Streams.seeded(11)) > fitted.guarantee().record


@pytest.mark.parametrize("classes", [2, 5])
def test_private_labels(classes):
    response, streams, ratios = Response.of_epsilon(1.0, classes), Streams.seeded(3), []
    for label in (0, 1):
        codes = response.draw_codes(np.full(DRAWS, label), streams.generator(label))
        log = response.log_likelihood(np.eye(classes)[codes], np.eye(classes)[:2])
        ratios.append(log[:, 0] - log[:, 1])
    assert_tight(empirical_epsilon(*ratios, response.epsilon), response.epsilon)
