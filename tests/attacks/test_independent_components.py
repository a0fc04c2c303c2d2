from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from rotations import independent, knowledge, scaled, score, skewed

from sfumato.attacks.base import Abstain, Knowledge
from sfumato.attacks.independent_components import (
    IndependentComponents,
    canonical_scores,
    column_quantiles,
    matching_costs,
)
from sfumato.mechanisms.random_rotation import haar_rotation


def test_independent_columns_are_recovered_almost_exactly():
    X = independent(4000, 6)
    guess = IndependentComponents().run(knowledge(X, population=independent(4000, 6, seed=1)))
    result = score(guess, X)
    assert result.score > 0.95
    assert guess.details["stable_components"] == 1
    assert result.details["converged_runs"] > 0
    assert np.sqrt(np.mean((guess.X - X) ** 2, axis=0)).max() < 0.05


def test_every_rotation_falls_alike():
    X = independent(2000, 5)
    first, second = (IndependentComponents().run(knowledge(X, turn=turn)).X for turn in (1, 2))
    assert_allclose(first, second, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_normal_data_have_no_components_and_that_is_not_called_privacy(seed):
    X = scaled(np.random.default_rng(seed).normal(size=(1000, 5)))
    guess = IndependentComponents().run(knowledge(X))
    assert isinstance(guess, Abstain)
    assert "did not converge" in guess.reason
    assert "nothing about privacy" in guess.reason


def test_a_run_that_is_cut_short_did_not_converge():
    guess = IndependentComponents(iterations=1).run(knowledge(independent(500, 5)))
    assert isinstance(guess, Abstain)
    assert "did not converge" in guess.reason


def test_noise_blurs_it():
    X = independent(3000, 5)
    found = [score(IndependentComponents().run(knowledge(X, noise=sd)), X) for sd in (0.0, 0.1, 0.3)]
    assert found[0].score > 0.9
    assert found[1].score < 0.7 * found[0].score
    assert isinstance(found[2], Abstain) or found[2].score < found[1].score


def test_components_are_signed_by_their_distribution():
    rng = np.random.default_rng(0)
    columns = np.column_stack([rng.exponential(size=2000), rng.random(2000), rng.gamma(0.3, size=2000)])
    components = (columns - columns.mean(axis=0)) / columns.std(axis=0) * [-1, 1, 1]
    quantiles = column_quantiles(tuple(np.sort(columns, axis=0).T), columns.mean(axis=0), columns.std(axis=0))
    costs, signs = matching_costs(components, quantiles)
    assert costs.argmin(axis=0).tolist() == [0, 1, 2]
    assert np.diag(signs).tolist()[::2] == [-1, 1]
    assert_allclose(np.diag(costs), 0, atol=1e-6)


def test_whitened_scores_are_the_same_for_every_rotation():
    X = skewed(500, 4)
    R = haar_rotation(4, np.random.default_rng(0))
    assert_allclose(canonical_scores(X), canonical_scores(X @ R.T + 3), atol=1e-8)


def test_a_projection_gives_fewer_components_and_the_rest_is_the_mean():
    X = independent(1500, 6)
    guess = IndependentComponents().run(knowledge(X, matrix=np.random.default_rng(1).normal(size=(3, 6))))
    assert isinstance(guess, Abstain) or (np.ptp(guess.X, axis=0) == 0).sum() == 3


class TestBadInput:
    def test_one_column(self):
        X = independent(500, 1)
        assert score(IndependentComponents().run(knowledge(X)), X).score == 1

    def test_constant_and_copied_columns(self):
        X = independent(2000, 4)
        X = np.column_stack([X, np.full(2000, 0.5), X[:, 0]])
        guess = IndependentComponents().run(knowledge(X))
        assert np.isfinite(guess.X).all()
        assert_allclose(guess.X[:, 4], 0.5)

    def test_fewer_rows_than_columns(self):
        guess = IndependentComponents().run(knowledge(independent(10, 20)))
        assert "more than 10 rows" in guess.reason

    def test_nothing_varies(self):
        known = replace(knowledge(independent(50, 3)), release=np.ones((50, 3)))
        assert "does not vary" in IndependentComponents().run(known).reason

    def test_a_columnwise_release_has_nothing_to_unmix(self, unit):
        known = replace(knowledge(independent(50, 3)), columnwise=True)
        assert "no mixing" in IndependentComponents().run(known).reason
        assert isinstance(IndependentComponents().run(Knowledge(np.ones((5, 2)), unit(2))), Abstain)
