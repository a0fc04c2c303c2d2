"""A plan finds out by simulation how many respondents an accuracy needs, and that a higher floor needs more."""

import numpy as np
import pytest

from sfumato.errors import TableError, UsageError
from sfumato.guidance import AnswerSpace, SurveyRules
from sfumato.jobs.survey_plan import assumed_population, plan_survey

SPACE = AnswerSpace([2] * 6)


def test_more_noise_needs_more_people():
    people = assumed_population(SPACE, informative=3, strength=0.7, rows=4000)
    plan = plan_survey(
        SPACE, 0.85, people, floors=(0.1, 0.4), sizes=(100, 400, 1600), repeats=2, rules=SurveyRules(batch=50)
    )
    assert plan.majority < 0.6 < 0.85 < plan.plain
    assert plan.needed(0.1) in (100, 400)
    assert plan.needed(0.4) is None or plan.needed(0.4) > plan.needed(0.1)
    low, high = (next(case for case in plan.cases if case.floor == floor) for floor in (0.1, 0.4))
    assert low.epsilon > high.epsilon
    assert low.disclosure > high.disclosure
    assert low.accuracy > high.accuracy


def test_assumed_people_differ_as_told():
    codes, y = assumed_population(AnswerSpace((3, 1, 3, 2)), 3, informative=2, strength=1.0, rows=3000)
    told = [len(np.unique(codes[y == c, q])) == 1 for q in range(4) for c in range(3) if q != 1]
    assert sum(told) == 6
    assert np.bincount(y).min() > 800


def test_mistakes_are_named():
    people = assumed_population(SPACE, rows=100)
    with pytest.raises(UsageError, match="accuracy"):
        plan_survey(SPACE, 80, people)
    with pytest.raises(TableError, match="40"):
        plan_survey(SPACE, 0.8, (people[0][:10], people[1][:10]))
    with pytest.raises(UsageError):
        assumed_population(SPACE, 1)
