"""Definition 2: nothing exceeds the certified bound, one case attains it, and the search comes near to the best."""

import numpy as np
import pytest

from daily import first_daily
from sfumato.channels.guidance.disclosure import exact_disclosure
from sfumato.channels.guidance.guidance import Guidance, SurveyCounts, SurveyRules
from sfumato.channels.guidance.most_disclosure import most_bits, most_disclosure
from sfumato.channels.guidance.space import AnswerSpace
from sfumato.core.errors import UsageError

SPACE = AnswerSpace((2, 3, 2))


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(2)
    first = rng.integers(0, 2, 200)
    return np.column_stack([first, rng.integers(0, 3, 200), first ^ (rng.random(200) < 0.2)])


def entropy(p):
    return -p * np.log2(p) - (1 - p) * np.log2(1 - p)


@pytest.mark.parametrize("link", ["square", "linear"])
@pytest.mark.parametrize("floor", [0.0, 0.05, 0.25])
def test_no_guidance_exceeds_the_bound(people, link, floor):
    """Random guidance, single choices and pairs of choices, every level."""
    rng = np.random.default_rng(0)
    for k in range(1, SPACE.width + 1):
        bound = most_bits(SPACE, k, floor, link, people)
        assert bound <= most_bits(SPACE, k, floor, link) + 1e-9, "a population can only lower it"
        tried = [np.linalg.qr(rng.normal(size=(SPACE.width, k)) * rng.choice([0.1, 1], SPACE.width)[:, None])[0]]
        tried += [np.eye(SPACE.width)[:, rng.permutation(SPACE.width)[:k]] for _ in range(3)]
        for V in tried:
            assert exact_disclosure(people, SPACE, V, floor, link).bits <= bound


def test_the_bound_is_attained_by_one_question():
    """Half the people say yes: one direction reads the answer through the floor, and no other bound is possible."""
    space, codes = AnswerSpace((2,)), np.arange(10)[:, None] % 2
    for floor in (0.0, 0.1, 0.25):
        told = exact_disclosure(codes, space, np.eye(2)[:, :1], floor).bits
        assert told == pytest.approx(1 - entropy(floor) if floor else 1.0)
        assert most_bits(space, 1, floor, codes=codes) == pytest.approx(told)


def test_the_bound_grows_with_the_level_and_falls_with_the_floor():
    space = AnswerSpace([2] * 16)
    by_level = [most_bits(space, k) for k in (1, 2, 3, 32)]
    assert by_level[0] == pytest.approx(16 * (1 - entropy(0.25)))
    assert by_level == sorted(by_level)
    assert most_bits(space, 2, 0.4) < most_bits(space, 2, 0.25) / 2
    assert most_bits(space, 2, 0.25, "linear") < most_bits(space, 2, 0.25, "square")


@pytest.mark.parametrize(("link", "floor"), first_daily([("square", 0.1), ("linear", 0.1), ("square", 0.0)]))
def test_the_search_finds_what_listing_finds(link, floor):
    """Two questions, one direction: against 3,000 directions that cover the sphere."""
    rng = np.random.default_rng(3)
    space = AnswerSpace((2, 2))
    codes = np.column_stack([rng.integers(0, 2, 60), rng.random(60) < 0.3]).astype(int)
    found = most_disclosure(codes, space, 1, floor, link)
    sphere = rng.normal(size=(3000, 4, 1))
    best = max(exact_disclosure(codes, space, V / np.linalg.norm(V), floor, link).bits for V in sphere)
    assert 0.97 * best <= found.found.bits <= found.bits
    assert best <= found.bits
    assert found.found.error == 0, "a survey of two questions is listed"


def test_the_worst_guidance_discloses_more_than_the_honest_one(people):
    y = people[:, 0]
    honest = Guidance.from_counts(SurveyCounts.of(SPACE.onehot(people), y), SurveyRules(floor=0.1, k=2)).V
    found = most_disclosure(people, SPACE, 2, 0.1, guidance=honest)
    assert (
        exact_disclosure(people, SPACE, honest, 0.1).of_whole_answers
        <= found.found.of_whole_answers
        <= found.of_whole_answers
        <= 1
    )
    assert found.by_question < found.of_whole_answers
    assert np.abs(found.V.T @ found.V - np.eye(found.V.shape[1])).max() < 1e-9
    assert found.V.shape[1] <= 2


def test_impossible_levels_are_refused(people):
    for level in (0, SPACE.width + 1, True):
        with pytest.raises(UsageError, match="level k"):
            most_bits(SPACE, level)
    with pytest.raises(UsageError, match="row for each"):
        most_disclosure(people, SPACE, 1, guidance=np.eye(3))
