import numpy as np
import pytest
from numpy.testing import assert_allclose
from rotations import independent, knowledge, score, skewed

from sfumato.attacks.base import Abstain, Knowledge
from sfumato.attacks.independent_components import (
    EigenAlignment,
    agreement_of,
    axes_of,
    axis_certainty,
    matching_signs,
    standardised,
)


@pytest.mark.parametrize("d", [2, 5, 30])
def test_signs_are_right_on_skewed_data(d):
    """Every flip of every axis is found again from another sample of the same population, also in 30 dimensions."""
    X = skewed(6000, d)
    axes = axes_of(X)
    first, second = standardised(X[:3000], axes, d), standardised(X[3000:], axes, d)
    truth = np.random.default_rng(d).choice([-1.0, 1.0], size=d)
    assert_allclose(matching_signs(first * truth, second), truth)


def test_the_climb_reaches_the_top_of_all_signs():
    """Brute force over 2^7 signs."""
    X = skewed(2000, 7)
    axes = axes_of(X)
    first, second = standardised(X[:1000], axes, 7), standardised(X[1000:], axes, 7)
    agreement = agreement_of(first, second, np.ones(7))
    everything = [np.where([(k >> j) & 1 for j in range(7)], 1.0, -1.0) for k in range(2**7)]
    assert agreement.height(matching_signs(first, second)) == pytest.approx(max(map(agreement.height, everything)))


def test_one_flip_changes_the_height_by_what_the_climb_reckons():
    X = skewed(500, 4)
    first = standardised(X, axes_of(X), 4)
    agreement = agreement_of(first, first, np.linspace(0.5, 1, 4))
    signs = np.array([1.0, -1.0, 1.0, -1.0])
    top, found = agreement.climb(signs)
    assert top == pytest.approx(agreement.height(found))
    for axis in range(4):
        flipped = found.copy()
        flipped[axis] *= -1
        assert agreement.height(flipped) <= top + 1e-9


def test_a_sample_of_like_people_undoes_a_rotation():
    X = skewed(6000, 8)
    known = knowledge(X[:3000], sample=X[3000:])
    result = score(EigenAlignment().run(known), X[:3000])
    assert result.score > 0.8
    assert result.score > result.baseline + 0.3


def test_the_whole_table_as_a_sample_undoes_it_almost_exactly():
    X = skewed(4000, 6)
    guess = EigenAlignment().run(knowledge(X, sample=X))
    assert score(guess, X).score > 0.99


def test_every_rotation_falls_alike():
    X = skewed(2000, 8)
    first, second = (EigenAlignment().run(knowledge(X[:1500], turn=turn, sample=X[1500:])).X for turn in (1, 2))
    assert_allclose(first, second, atol=1e-7)


def test_noise_blurs_it():
    X = skewed(4000, 8)
    found = [score(EigenAlignment().run(knowledge(X, noise=sd, sample=X)), X).score for sd in (0.0, 0.1, 0.4)]
    assert found[0] > found[1] + 0.1 > found[2] + 0.1


def test_a_release_of_the_first_components_is_aligned_with_them():
    X = skewed(4000, 6)
    V = axes_of(X).vectors[:, :4].T
    guess = EigenAlignment().run(knowledge(X, matrix=V, sample=X)).X
    textbook = X.mean(axis=0) + (X - X.mean(axis=0)) @ V.T @ V
    assert np.sqrt(np.mean((guess - textbook) ** 2)) < 0.01


def test_axes_of_equal_variance_are_not_trusted():
    assert_allclose(axis_certainty(np.array([4.0, 1.0, 0.25]), 10_000, 10_000), 1.0, atol=0.01)
    sure = axis_certainty(np.array([4.0, 1.0, 0.999]), 1000, 1000)
    assert sure[0] > 0.99
    assert sure[1:].max() < 0.1
    assert axis_certainty(np.array([1.0]), 5, 5) == 1


def test_a_wide_table_is_aligned_along_its_first_axes():
    X = skewed(400, 40)
    guess = EigenAlignment(most_axes=10).run(knowledge(X, sample=X)).X
    assert np.linalg.matrix_rank(guess - guess.mean(axis=0), tol=0.5) <= 11
    assert ((guess - X) ** 2).mean() < X.var(axis=0).mean()


class TestBadInput:
    def test_no_sample(self):
        assert "sample" in EigenAlignment().run(knowledge(skewed(50, 3))).reason

    def test_one_column(self):
        X = skewed(400, 1)
        assert score(EigenAlignment().run(knowledge(X, sample=X)), X).score > 0.95

    @pytest.mark.parametrize("rows", [2, 5])
    def test_fewer_rows_than_columns(self, rows):
        X = independent(40, 12)
        guess = EigenAlignment().run(knowledge(X[:rows], sample=X[20:]))
        assert isinstance(guess, Abstain) or np.isfinite(guess.X).all()

    def test_constant_and_copied_columns(self):
        X = skewed(800, 5)
        X[:, 1], X[:, 3] = 0.5, X[:, 0]
        guess = EigenAlignment().run(knowledge(X, sample=X))
        assert score(guess, X).score > 0.95

    def test_nothing_varies(self, unit):
        X = np.full((10, 3), 0.5)
        assert isinstance(EigenAlignment().run(Knowledge(X, unit(3), columnwise=False, sample=X)), Abstain)
