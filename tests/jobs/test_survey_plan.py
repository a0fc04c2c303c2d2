"""A plan finds out by simulation how many respondents an accuracy needs, and that a higher floor needs more."""

import numpy as np
import pytest

from sfumato.channels.guidance.disclosure import random_startup, simulate
from sfumato.channels.guidance.guidance import SurveyCounts, SurveyRules
from sfumato.channels.guidance.space import AnswerSpace
from sfumato.core.errors import TableError, UsageError
from sfumato.learn.classifiers.factory import make_classifier
from sfumato.study.survey_plan import (
    Plan,
    Planned,
    Public,
    Tried,
    _of_random_start_up,
    _Trials,
    assumed_population,
    simulated_plan,
)

SPACE = AnswerSpace([2] * 6)


def test_more_noise_needs_more_people():
    people = assumed_population(SPACE, informative=3, strength=0.7, rows=4000)
    tried = Tried(SurveyRules(batch=50), floors=(0.1, 0.4), sizes=(100, 400, 1600), repeats=2)
    plan = simulated_plan(SPACE, 0.85, people, tried)
    assert plan.majority < 0.6 < 0.85 < plan.plain
    assert plan.needed(0.1) in (100, 400)
    assert plan.needed(0.4) is None or plan.needed(0.4) > plan.needed(0.1)
    low, high = (next(case for case in plan.cases if case.floor == floor) for floor in (0.1, 0.4))
    assert low.epsilon > high.epsilon
    assert low.disclosure_by_question > high.disclosure_by_question
    assert low.accuracy > high.accuracy


def test_a_plan_promises_what_train_learns():
    """`sfumato train` learns from the bits of all versions together, and so does the plan: no guidance is asked."""
    people = assumed_population(SPACE, informative=3, strength=0.5, rows=1000)
    rules = SurveyRules(batch=50)
    [case] = simulated_plan(SPACE, 0.01, people, Tried(rules, floors=(0.25,), sizes=(200,), repeats=1)).cases
    ask, test, rng = _Trials(SPACE, *people, Tried())._halves(0)
    who = rng.choice(ask, 200)
    run = simulate(people[0][who], people[1][who], SPACE, rules, startup=random_startup(SPACE, 2, seed=0))
    learned = make_classifier("bernoulli-naive-bayes").fit(run.bits, run.y)
    assert len(run.versions) > 2
    assert case.accuracy == (learned.predict(SPACE.onehot(people[0][test])) == people[1][test]).mean()


def started(people, rows):
    return SurveyCounts.of(SPACE.onehot(people[0][:rows]), people[1][:rows])


def test_people_with_limits_wait_or_never_send():
    """Two directions are needed, so that whoever accepts only one never sends; the others wait for nothing."""
    people = assumed_population(SPACE, informative=3, strength=0.7, rows=4000)
    settings = {"floors": (0.1,), "rules": SurveyRules(batch=50, k=2), "startup": started(people, 200)}
    plan = simulated_plan(SPACE, 0.99, people, Tried(sizes=(400,), repeats=2, public=Public(levels=(1, 2)), **settings))
    first, second, third = plan.cases[0].kinds
    assert (first.sent, first.never, first.waited) == (0, 1, None)
    assert [(kind.sent, kind.never, kind.waited) for kind in (second, third)] == [(1, 0, 0)] * 2
    assert (first.level, second.level, third.level) == (1, 2, None)
    assert plan.cases[0].accuracy > 0.8, "of those who did send"
    strict = simulated_plan(
        SPACE, 0.99, people, Tried(sizes=(100,), repeats=1, public=Public((1, 0, 0), (1, 1)), **settings)
    )
    assert strict.cases[0].accuracy < 0.6, "nobody sent: everybody is taken for one class"


def test_waiting_ends_when_the_level_falls():
    """With a floor the level is high at first; whoever accepts little waits until enough others have sent."""
    people = assumed_population(SPACE, informative=3, strength=0.7, rows=4000)
    settings = {"floors": (0.25,), "rules": SurveyRules(batch=50, mu=0.3), "startup": started(people, 20)}
    plan = simulated_plan(
        SPACE, 1.0, people, Tried(sizes=(2000,), repeats=1, public=Public((0.5, 0, 0.5), (2, 4)), **settings)
    )
    first, last = plan.cases[0].kinds
    assert first.sent == last.sent == 1
    assert first.waited_95 > first.waited > last.waited == 0


def test_shares_are_read_as_the_paper_has_them():
    assert Public.read("17/56/27") == Public()
    assert Public.read("0/0/100", "2/5").levels == (2, 5)
    for shares, levels in (("17/56", "1/4"), ("a/b/c", "1/4"), ("50/40/30", "1/4"), ("17/56/27", "0/4")):
        with pytest.raises(UsageError):
            Public.read(shares, levels)


def test_whole_tuple_response_stands_beside_it():
    people = assumed_population(SPACE, informative=3, strength=0.7, rows=4000)
    plan = simulated_plan(
        SPACE, 1.0, people, Tried(floors=(0.25,), sizes=(800,), repeats=2, theta=0.8, classifier="id3")
    )
    told = plan.whole_tuple
    assert told["respondents"] == 800
    assert told["accuracy"] > 0.75
    assert told["disclosure_by_question"] > 0.8 > 4 * plan.cases[0].disclosure_by_question


def test_one_direction_begun_at_random_is_warned_of():
    people = assumed_population(SPACE, informative=3, strength=0.7, rows=4000)
    words = {"floors": (0.25,), "sizes": (2000,), "repeats": 2}
    random, real = (
        simulated_plan(SPACE, 1.0, people, Tried(rules=SurveyRules(k=1), startup=start, **words))
        for start in (None, started(people, 200))
    )
    assert len(random.warnings) == 1
    assert "accuracy stays near guessing however many respond" in random.warnings[0]
    assert random.cases[0].accuracy < (random.majority + random.plain) / 2 < real.cases[0].accuracy
    assert not real.warnings
    assert not simulated_plan(SPACE, 1.0, people, Tried(rules=SurveyRules(), **words)).warnings


@pytest.mark.parametrize(
    ("fixed", "level", "accuracy", "warned"),
    [(1, 1.0, 0.79, True), (None, 1.0, 0.6, True), (None, 1.0, 0.79, False), (2, 2.0, 0.6, False)],
)
def test_a_level_of_one_is_warned_of_where_it_is_fixed_or_came_to_nothing(fixed, level, accuracy, warned):
    case = Planned(0.25, 500, accuracy, 0.0, 0.01, 4.0, level)
    assert bool(_of_random_start_up(Plan(0.9, 0.5, 0.8, (case,)), fixed)) == warned


def test_assumed_people_differ_as_told():
    codes, y = assumed_population(AnswerSpace((3, 1, 3, 2)), 3, informative=2, strength=1.0, rows=3000)
    told = [len(np.unique(codes[y == c, q])) == 1 for q in range(4) for c in range(3) if q != 1]
    assert sum(told) == 6
    assert np.bincount(y).min() > 800


def test_mistakes_are_named():
    people = assumed_population(SPACE, rows=100)
    with pytest.raises(UsageError, match="accuracy"):
        simulated_plan(SPACE, 80, people, Tried())
    with pytest.raises(TableError, match="40"):
        simulated_plan(SPACE, 0.8, (people[0][:10], people[1][:10]), Tried())
    with pytest.raises(UsageError):
        assumed_population(SPACE, 1)
