"""A simulated survey keeps the rules of the protocol: batches, waiting, levels, and nobody twice."""

import numpy as np
import pytest

from sfumato.channels.guidance.disclosure import mixed_limits, random_startup, simulate
from sfumato.channels.guidance.guidance import Guidance, SurveyCounts, SurveyRules
from sfumato.channels.guidance.space import AnswerSpace
from sfumato.core.errors import TableError, UsageError

SPACE = AnswerSpace([2] * 8)


def population(rows, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows)
    codes = rng.integers(0, 2, (rows, 8))
    for question, share in ((0, 0.95), (1, 0.9), (2, 0.85)):
        codes[:, question] = np.where(rng.random(rows) < share, y, 1 - y)
    return codes, y


def test_every_row_is_sent_once_with_the_version_of_its_batch():
    codes, y = population(950)
    run = simulate(codes, y, SPACE, SurveyRules(floor=0.1))
    assert np.array_equal(run.who, np.arange(950))
    assert np.array_equal(run.version, np.arange(950) // 100)
    assert [version.received for version in run.versions] == list(range(0, 950, 100))
    assert run.counts == SurveyCounts.of(run.bits, y)
    before = SurveyCounts.of(run.bits[:300], y[:300])
    assert np.array_equal(run.versions[3].guidance.V, Guidance.from_counts(before, SurveyRules(floor=0.1)).V)
    assert not len(run.never)
    assert not run.waited.any()


def test_who_refuses_a_level_waits_for_a_lower_one():
    codes, y = population(6000)
    limits = np.where(np.arange(6000) % 3 == 0, 2, 16)
    run = simulate(codes, y, SPACE, SurveyRules(floor=0.1), limits=limits)
    level = run.levels[run.version]
    assert np.all(level <= limits[run.who])
    assert run.levels[0] > 2 or run.levels[1] > 2
    assert run.levels[-1] <= 2, "k* falls while answers arrive"
    assert len(np.unique(run.who)) + len(run.never) == 6000
    assert run.waited[limits[run.who] == 2].mean() > 0 == run.waited[limits[run.who] == 16].max()
    late = run.who[np.searchsorted(run.who * 0 + run.version, np.argmax(run.levels <= 2)) :][0]
    assert limits[late] == 2, "those who waited send first"


def test_people_whose_limit_is_never_met_keep_their_answers():
    codes, y = population(300)
    start = random_startup(SPACE, 2)
    run = simulate(codes, y, SPACE, SurveyRules(k=3), limits=np.full(300, 2), startup=start)
    assert len(run.who) == 0
    assert np.array_equal(run.never, np.arange(300))
    assert run.bits.shape == (0, 16)


def test_a_fixed_level_rows_that_are_not_kept_and_start_up_rows():
    codes, y = population(1000)
    start = SurveyCounts.of(SPACE.onehot(codes[:8]), y[:8])
    kept = simulate(codes, y, SPACE, SurveyRules(k=2, floor=0.05), startup=start, seed=4)
    counted = simulate(codes, y, SPACE, SurveyRules(k=2, floor=0.05), startup=start, seed=4, keep_rows=False)
    assert kept.counts == counted.counts
    assert len(counted.bits) == 0
    assert set(kept.levels) == {2}
    assert random_startup(SPACE, 2).n == 8


def test_a_mixed_public():
    limits = mixed_limits(20_000, 16, levels=(1, 3))
    shares = [np.mean(limits == level) for level in (1, 3, 16)]
    assert np.allclose(shares, (0.17, 0.56, 0.27), atol=0.015)


def test_wrong_input_is_refused():
    codes, y = population(10)
    with pytest.raises(TableError):
        simulate(codes, y[:5], SPACE)
    with pytest.raises(UsageError):
        simulate(codes, y, SPACE, SurveyRules(batch=0))
