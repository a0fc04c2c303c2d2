"""piecewise-noise: the paper's variance, and means that are right on average."""

import math

import numpy as np
import pytest

from domains import domain
from sfumato.channels import Piecewise
from sfumato.mechanisms import PiecewiseNoise
from sfumato.noise import Streams
from sfumato.table import Encoding


def published_variance(epsilon, t):
    """Lemma 1 of the paper, for t in [-1, 1]."""
    root = math.exp(epsilon / 2)
    return t**2 / (root - 1) + (root + 3) / (3 * (root - 1) ** 2)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_variance_is_the_papers(epsilon, exact):
    channel = Piecewise.of_epsilon(epsilon, exact=exact)
    for x in (0.0, 0.2, 0.5, 1.0):
        wanted = published_variance(epsilon, 2 * x - 1) / 4
        assert float(channel.variance(np.array(x))) == pytest.approx(wanted, rel=1e-5)


def test_means_are_right_on_average_and_means_a_third_off_are_not():
    rng = np.random.default_rng(0)
    X = rng.random((60_000, 6)) ** np.array([1, 2, 3, 0.5, 4, 1])
    mechanism = PiecewiseNoise(epsilon_record=5.0).fit(X, encoding=Encoding.unit(6, public=True))
    assert mechanism.columns_ == 2
    Z = mechanism.perturb(X, None, Streams.seeded(3).generator(0)).X
    spread = np.nanstd(Z, axis=0) / np.sqrt((~np.isnan(Z)).sum(axis=0))
    off = (np.nanmean(Z, axis=0) - X.mean(axis=0)) / spread
    assert np.abs(off).max() < 5
    wrong = (np.nanmean(0.5 + (Z - 0.5) / 1.3, axis=0) - X.mean(axis=0)) / spread
    assert np.abs(wrong).max() > 8


def test_missing_cells_are_the_middle_on_average():
    mechanism = PiecewiseNoise(epsilon_record=2.0).fit(np.array([[0.5, 1.0]]), encoding=domain("m"))
    Z = mechanism.perturb(np.tile([0.5, 1.0], (50_000, 1)), None, Streams.seeded(1).generator(0)).X
    assert Z[:, 0].mean() == pytest.approx(0.5, abs=5 * Z[:, 0].std() / np.sqrt(50_000))
    assert not Z[:, 1].any()
