"""The worst pair of answers: that of brute force, or a bound between what is attained and the sum over bits."""

import numpy as np
import pytest

from sfumato.channels.guidance.epsilon import TO_CHECK, WORK, _Search, record_epsilon, survey_epsilon
from sfumato.channels.guidance.guidance import Guidance, SurveyCounts, SurveyRules
from sfumato.channels.guidance.space import AnswerSpace, bit_probabilities


def orthonormal(width, k, seed=0):
    return np.ascontiguousarray(np.linalg.qr(np.random.default_rng(seed).normal(size=(width, k)))[0])


def honest(sizes, k, seed=0):
    """Guidance of 500 answers whose class is that two questions agree."""
    rng, space = np.random.default_rng(seed), AnswerSpace(sizes)
    codes = np.column_stack([rng.integers(0, size, 500) for size in sizes])
    label = (codes[:, 0] > 0) ^ (codes[:, 1] > 0) ^ (rng.random(500) < 0.2)
    return space, Guidance.from_counts(
        SurveyCounts.of(space.onehot(codes), label.astype(int)), SurveyRules(floor=0.0, k=k)
    ).V


def brute_force(V, space, floor, link):
    q = bit_probabilities(space.onehot(space.every()), V, floor, link)
    yes, no = np.log(q), np.log(1 - q)
    return max(float(np.maximum(yes[i] - yes, no[i] - no).sum(axis=1).max()) for i in range(len(q)))


CASES = [
    (sizes, blank, k, floor, link)
    for sizes, blank, k in [
        ((2, 3, 2, 2), False, 2),
        ((2,) * 8, False, 3),
        ((3, 4), True, 2),
        ((5, 1, 2), True, 4),
        ((3, 2, 4), False, 1),
    ]
    for floor, link in [(0.25, "square"), (0.05, "square"), (0.1, "linear")]
]


@pytest.mark.parametrize(("sizes", "blank", "k", "floor", "link"), CASES, ids=str)
def test_it_is_that_of_brute_force(sizes, blank, k, floor, link):
    space = AnswerSpace(sizes, blank=blank)
    V = orthonormal(space.width, k)
    worst, found = brute_force(V, space, floor, link), record_epsilon(V, space, floor, link)
    assert worst <= found.value <= worst * (1 + 1e-6)
    assert found.exact
    assert found.value <= survey_epsilon(V, space, floor, link).record


def test_the_sum_over_bits_is_half_too_large_in_the_usual_case():
    """What made the search worth it: over random guidance of several directions, .6 of the sum in the median."""
    shares = []
    for seed in range(20):
        space = AnswerSpace((2, 3, 2, 4))
        V = orthonormal(space.width, 2 + seed % 3, seed)
        shares.append(record_epsilon(V, space).value / survey_epsilon(V, space).record)
    assert 0.5 < np.median(shares) < 0.75


@pytest.mark.parametrize("link", ["square", "linear"])
def test_sixteen_questions_are_exact(link):
    space, V = honest((2,) * 16, 3)
    found = record_epsilon(V, space, 0.25, link)
    assert found.exact
    assert found.value < 0.9 * survey_epsilon(V, space, 0.25, link).record


@pytest.mark.parametrize("sizes", [(2,) * 40, (40,) * 6, (300, 2)], ids=lambda sizes: f"{len(sizes)} of {sizes[0]}")
def test_a_search_that_is_cut_short_is_an_upper_bound(sizes):
    space, V = honest(sizes, 3)
    attained = _Search(V, space, 0.25, "square").climb()
    before = survey_epsilon(V, space).record
    for work in (1, 10_000, 300_000):
        found = record_epsilon(V, space, work=work)
        assert attained <= found.value <= before * (1 + 1e-12)
        before = found.value


def test_who_checks_finds_no_more_than_who_states():
    """Beginnings that tie are continued in another order where sums are rounded otherwise."""
    space, V = honest((2,) * 40, 3)
    near = V * (1 + 1e-15 * np.random.default_rng(0).normal(size=V.shape))
    stated = record_epsilon(V, space).value
    assert record_epsilon(near, space, work=TO_CHECK * WORK).value <= stated * (1 + 1e-9)


def test_without_a_floor_there_is_none():
    assert record_epsilon(orthonormal(4, 2), AnswerSpace((2, 2)), 0.0).value == np.inf
