"""A survey in one process and in several: every answer is counted once, and guidance follows from the counts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
from survey_examples import example_survey, message, some_answer, some_bits

from sfumato.channels.guidance.guidance import SurveyCounts, decode_matrix
from sfumato.study.protocol.agreed import check_chain
from sfumato.study.protocol.survey_guidance import verify_guidance
from sfumato.study.server.settings import Settings
from sfumato.study.server.store import Store
from sfumato.study.server.store.survey_store import DIFFERENT, NEW, SAME, Answer, SurveyStore, unpack
from sfumato.study.server.survey.desk import REMEMBERED, SurveyDesk


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = request.getfixturevalue("postgres_url") if request.param == "postgresql" else None
    store = Store.open(Settings(data=tmp_path, database=url))
    yield store
    store.close()


@pytest.fixture
def study(store: Store) -> str:
    return store.studies.create(example_survey())[0]


def test_an_answer_is_kept_once(store: Store, study: str) -> None:
    surveys, rng = store.surveys, np.random.default_rng(1)
    one, two = some_answer(rng), some_answer(rng)
    changed = Answer(one.id, one.version, 1 - one.label, one.bits)
    assert surveys.add(study, [one, two, one]) == [NEW, NEW, SAME]
    assert surveys.add(study, [one, changed, some_answer(rng)]) == [SAME, DIFFERENT, NEW]
    assert surveys.count(study) == 3
    assert surveys.add(study, []) == []


def run_answers(desk: SurveyDesk, number: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)

    async def run() -> list[str]:
        bodies = [message(some_bits(rng), label=int(rng.integers(2)), version=desk.head.version) for _ in range(number)]
        outcomes = await asyncio.gather(*(desk.take(body) for body in bodies))
        await desk.close()
        return [outcome for _, outcome in outcomes]

    return asyncio.run(run())


def test_guidance_follows_from_exactly_the_counted_answers(store: Store, study: str) -> None:
    surveys, survey = store.surveys, example_survey()
    desk = SurveyDesk(surveys, study, survey)
    assert run_answers(desk, 105, seed=2) == [NEW] * 105
    desk.close_batches()
    log = [entry for entry, _ in surveys.log(study)]
    assert check_chain(log, survey.hash) == desk.head.hash
    assert log[-1].answers == 100
    assert surveys.count(study, waiting=True) == 5
    everything = [pair for version in range(1, len(log) + 1) for pair in surveys.answers(study, version)]
    assert len(everything) == 105
    counted = SurveyCounts.from_json(surveys.version(study).inputs)  # type: ignore[union-attr]
    left = surveys.waiting(study)
    bits = unpack([bits for _, bits in everything], survey.width)
    total = SurveyCounts.of(bits, [label for label, _ in everything])
    rest = SurveyCounts.of(unpack([a.bits for a in left], survey.width), [a.label for a in left])
    assert counted + rest == total
    for entry in log:
        told = json.loads(asyncio.run(SurveyDesk(surveys, study, survey).ready(entry.version)) or b"")
        assert told["sha256"] == entry.sha256
        stored = surveys.version(study, entry.version)
        assert stored is not None
        verify_guidance(survey, stored.inputs, decode_matrix(told["v"], survey.width, told["k"]), entry.k)


def test_several_processes_append_every_version_once(store: Store, study: str) -> None:
    surveys, survey = store.surveys, example_survey()
    desks = [SurveyDesk(surveys, study, survey) for _ in range(3)]
    assert {desk.head.hash for desk in desks} == {desks[0].head.hash}
    for number, desk in enumerate(desks):  # none of them sees a full batch of its own
        assert run_answers(desk, 15, seed=number) == [NEW] * 15
    assert [desk.close_batches() for desk in desks] == [1, 0, 0]
    fresh = SurveyDesk(surveys, study, survey)
    assert fresh.head.version == 2
    assert fresh.head.answers == 40
    assert surveys.count(study, waiting=True) == 5


def test_only_one_of_two_that_close_the_same_batch_wins(store: Store, study: str) -> None:
    surveys, survey, rng = store.surveys, example_survey(), np.random.default_rng(4)
    desk = SurveyDesk(surveys, study, survey)
    surveys.add(study, [some_answer(rng) for _ in range(20)])
    latest, waiting = surveys.version(study), surveys.waiting(study)
    assert latest is not None
    version, names = desk._next(latest, waiting), [answer.id for answer in waiting]
    assert surveys.add_version(study, version, names)
    late = some_answer(rng)
    surveys.add(study, [late])
    assert not surveys.add_version(study, version, [late.id])
    assert surveys.count(study, waiting=True) == 1  # the loser marked nothing


def test_answers_that_somebody_counts_meanwhile_are_not_counted_twice(
    store: Store, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    surveys, survey, rng = store.surveys, example_survey(), np.random.default_rng(5)
    one, other = SurveyDesk(surveys, study, survey), SurveyDesk(SurveyStore(store.database, store.log), study, survey)
    answers = [some_answer(rng) for _ in range(20)]
    surveys.add(study, answers)

    def stale(study: str) -> list[Answer]:
        found = surveys.waiting(study)
        one.close_batches()  # between the two looks of the other process
        return found

    monkeypatch.setattr(other.store, "waiting", stale)
    assert other.close_batches() == 0
    assert [entry.answers for entry, _ in surveys.log(study)] == [0, 20]
    latest = surveys.version(study)
    assert latest is not None
    third = other._next(latest, answers)  # the next number, and answers that have a version already
    assert not surveys.add_version(study, third, [answer.id for answer in answers])
    assert surveys.latest(study) == 2


def test_only_the_newest_guidance_stays_in_memory(store: Store, study: str) -> None:
    surveys, survey, rng = store.surveys, example_survey(batch=1), np.random.default_rng(7)
    desk = SurveyDesk(surveys, study, survey)
    for _ in range(REMEMBERED + 3):
        surveys.add(study, [some_answer(rng)])
        desk.close_batches()
    assert len(desk._ready) == REMEMBERED
    assert desk.head.version in desk._ready
    assert asyncio.run(desk.ready(1)) is not None  # an old one is read again


def test_answers_that_other_processes_keep_meanwhile_are_the_same_answers(
    store: Store, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    surveys, rng = store.surveys, np.random.default_rng(8)
    answers = sorted((some_answer(rng) for _ in range(10)), key=lambda answer: answer.id)
    writing, left = store.database.writing, list(answers)

    def late() -> AbstractContextManager[object]:
        """Before every transaction another process keeps one more of them."""
        with monkeypatch.context() as others:
            others.setattr(store.database, "writing", writing)
            assert surveys.add(study, [left.pop()]) == [NEW]
        return writing()

    monkeypatch.setattr(store.database, "writing", late)
    assert surveys.add(study, answers) == [NEW] * len(left) + [SAME] * (len(answers) - len(left))
    assert 0 < len(left) < len(answers)
    assert surveys.count(study) == len(answers)


def test_another_process_learns_of_a_version_when_an_answer_names_it(store: Store, study: str) -> None:
    surveys, survey, rng = store.surveys, example_survey(), np.random.default_rng(6)
    one, other = SurveyDesk(surveys, study, survey), SurveyDesk(surveys, study, survey)
    surveys.add(study, [some_answer(rng) for _ in range(20)])
    one.close_batches()

    async def run() -> str:
        outcome = (await other.take(message([1, 2], version=2)))[1]
        await other.close()
        return outcome

    assert asyncio.run(run()) == NEW
    assert other.head.version == 2


def test_rows_lie_in_no_order_of_arrival(store: Store, study: str) -> None:
    """Names are random and rows lie in the order of names: the database does not tell who came first."""
    surveys, rng = store.surveys, np.random.default_rng(7)
    sent = [some_answer(rng) for _ in range(30)]
    for answer in sent:
        surveys.add(study, [answer])
    stored = [answer.id for answer in surveys.waiting(study)]
    assert stored == sorted(answer.id for answer in sent)
    assert stored != [answer.id for answer in sent]
