"""The surveys of one process, opened when somebody first asks for one.

Nothing here waits for the app's start: an app that is mounted inside a foreign one is never told that it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
import secrets
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np
from sqlalchemy.exc import SQLAlchemyError

from sfumato.channels.guidance import (
    AnswerSpace,
    Link,
    decode_matrix,
    disclosure,
    encode_matrix,
    most_bits,
    survey_epsilon,
)
from sfumato.core.array_types import Matrix
from sfumato.study.protocol.study_file import study_from_dict
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.protocol.survey_log import LogEntry
from sfumato.study.server.fair_use import Buckets
from sfumato.study.server.logs import fault, log
from sfumato.study.server.problems import ApiError, unavailable
from sfumato.study.server.settings import Rate
from sfumato.study.server.store import Store
from sfumato.study.server.store.sql_tables import CLOSED, OPEN
from sfumato.study.server.store.survey_store import SurveyStore
from sfumato.study.server.survey.desk import LOOK_SECONDS, SurveyDesk
from sfumato.study.server.survey.received_answer import unpack

# How a survey goes: answers by hour, and by version the level and what the guidance allows to learn.


MOST_ROWS = 5_000
MOST_POINTS = 200
"""Versions whose epsilon is computed: of more, evenly spread ones."""


def survey_progress(store: SurveyStore, study: str, survey: SurveyStudy) -> dict[str, Any]:
    """Everything that the owner's page and `sfumato survey status` show."""
    log = store.log(study, limit=1_000_000)
    hours: Counter[str] = Counter()
    before = 0
    for entry, hour in log:
        hours[hour] += entry.answers - before
        before = entry.answers
    spread = {round(place) for place in np.linspace(0, len(log) - 1, min(len(log), MOST_POINTS))} if log else set()
    codes, used = store.codes.counts(study)
    return {
        "state": CLOSED if store.closed(study) or survey.closed(datetime.now(UTC).date()) else OPEN,
        "answers": store.count(study),
        "counted": before,
        "by_hour": [{"hour": hour, "answers": number} for hour, number in sorted(hours.items()) if number],
        "versions": [
            {
                "version": entry.version,
                "answers": entry.answers,
                "k": entry.k,
                "epsilon": _epsilon(store, study, survey, entry.version, entry.k) if place in spread else None,
            }
            for place, (entry, _) in enumerate(log)
        ],
        "disclosure_at_even_choices": _disclosure(store, study, survey, log[-1][0]) if log else None,
        "most_bits": most_bits(AnswerSpace(survey.sizes), log[-1][0].k, survey.floor, survey.link) if log else None,
        "codes": {"given": codes, "used": used} if survey.invitations else None,
        "floor": survey.floor,
        "accuracy": _accuracy(store, study, survey, len(log)),
    }


def _accuracy(store: SurveyStore, study: str, survey: SurveyStudy, latest: int) -> dict[str, Any] | None:
    """How often naive Bayes, trained on other received rows, meets the class of a received row; newest rows first."""
    from sfumato.learn.classifiers.survey_bits import accuracy_on_received  # brings scikit-learn with it

    labels: list[int] = []
    bits: list[bytes] = []
    for version in range(latest, 0, -1):
        for label, row in store.answers(study, version):
            labels.append(label)
            bits.append(row)
        if len(labels) >= MOST_ROWS:
            break
    if not labels:
        return None
    share = accuracy_on_received(unpack(bits[:MOST_ROWS], survey.width), np.array(labels[:MOST_ROWS]))
    commonest = max(Counter(labels[:MOST_ROWS]).values()) / min(len(labels), MOST_ROWS)
    return None if share is None else {"share": share, "commonest": commonest, "rows": min(len(labels), MOST_ROWS)}


def _epsilon(store: SurveyStore, study: str, survey: SurveyStudy, number: int, k: int) -> float | None:
    V = _guidance(store, study, survey, number, k)
    return _cached_epsilon(encode_matrix(V), k, survey.sizes, survey.floor, survey.link)


def _disclosure(store: SurveyStore, study: str, survey: SurveyStudy, latest: LogEntry) -> dict[str, float]:
    V = _guidance(store, study, survey, latest.version, latest.k)
    return _cached_disclosure(encode_matrix(V), latest.k, survey.sizes, survey.floor, survey.link)


def _guidance(store: SurveyStore, study: str, survey: SurveyStudy, number: int, k: int) -> Matrix:
    version = store.version(study, number)
    assert version is not None
    return np.asarray(np.frombuffer(version.matrix, dtype="<f8").reshape(survey.width, k))


@lru_cache(maxsize=4 * MOST_POINTS)
def _cached_epsilon(matrix: str, k: int, sizes: tuple[int, ...], floor: float, link: Link) -> float | None:
    epsilon = survey_epsilon(decode_matrix(matrix, sum(sizes), k), AnswerSpace(sizes), floor, link).record
    return epsilon if math.isfinite(epsilon) else None


@lru_cache(maxsize=64)
def _cached_disclosure(matrix: str, k: int, sizes: tuple[int, ...], floor: float, link: Link) -> dict[str, float]:
    """Disclosure where every choice is as likely as another: the server does not know who answered what.

    `share` is of `of_bits`, the sum of the questions' log2 choices.
    """
    rng = np.random.default_rng(0)
    people = np.column_stack([rng.integers(0, size, 1000) for size in sizes])
    found = disclosure(people, AnswerSpace(sizes), decode_matrix(matrix, sum(sizes), k), floor, link, draws=1000)
    of_bits = sum(math.log2(size) for size in sizes)
    return {"share": found.bits / of_bits, "error": found.error / of_bits, "of_bits": of_bits}


TELL_SECONDS = 60.0


class SurveyDesks:
    """Desks by study, with a task that keeps each of them up to date."""

    def __init__(self, store: Store, rate: Rate):
        self._store = store
        self._desks: dict[str, SurveyDesk] = {}
        self._opening = asyncio.Lock()
        self._watch: asyncio.Task[None] | None = None
        self._rates, self._secret = Buckets(rate), secrets.token_bytes(32)
        self.faults = Faults()

    async def find(self, study: str) -> SurveyDesk | None:
        """The desk of a survey; None where there is no such survey."""
        found = self._desks.get(study)
        if found is not None:
            return found
        async with self._opening:
            if self._watch is None or self._watch.done():
                self._watch = asyncio.create_task(self._keep_watch())
            if study not in self._desks:
                desk = await asyncio.get_running_loop().run_in_executor(None, self._open, study)
                if desk is None:
                    return None
                self._desks[study] = desk
        return self._desks[study]

    def _open(self, study: str) -> SurveyDesk | None:
        info = self._store.studies.find(study)
        if info is None or info.kind != SurveyStudy.kind:
            return None
        survey = study_from_dict(info.definition)
        assert isinstance(survey, SurveyStudy)
        return SurveyDesk(self._store.surveys, study, survey)

    async def _keep_watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for desk in list(self._desks.values()):
                try:
                    await desk.look()
                except Exception as error:  # the database may come back; answers are refused meanwhile, none is lost
                    self.faults.note(error)
            self.faults.tell()

    def too_many(self, address: str) -> float:
        """Seconds that a client must wait, 0 if none: by a keyed hash of its address that only this process can make,
        in memory, and forgotten when it is not used."""
        return self._rates.wait(hashlib.blake2b(address.encode(), key=self._secret, digest_size=16).hexdigest())

    async def close(self) -> None:
        """Finish what is under way."""
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
        self.faults.tell(now=True)
        for desk in self._desks.values():
            await desk.close()
        self._desks.clear()


@dataclass
class _Noted:
    times: int
    fields: dict[str, Any]


class Faults:
    """Faults of respondents' requests, logged once a minute and all together: no line says when somebody asked.

    Requests note them, the task that keeps watch logs them. All calls come from one event loop.
    """

    def __init__(self) -> None:
        self.patience = TELL_SECONDS
        self._noted: dict[tuple[str, ...], _Noted] = {}
        self._told = time.monotonic()

    def note(self, error: Exception) -> ApiError:
        """Count an error by its type and place; returns what the client is told."""
        away = isinstance(error, SQLAlchemyError)  # the database went away: nothing was acknowledged
        event, fields = "database" if away else "fault", fault(error)
        noted = self._noted.setdefault(
            (event, fields["fault"], *fields["where"]), _Noted(0, {"event": event, **fields})
        )
        noted.times += 1
        return unavailable() if away else ApiError(500, "fault", "The server failed. Nothing was counted.")

    def tell(self, *, now: bool = False) -> None:
        """Log what was noted, if that was not done in the last minute."""
        if not now and time.monotonic() - self._told < self.patience:
            return
        self._told = time.monotonic()
        noted, self._noted = self._noted, {}
        for one in noted.values():
            fields = dict(one.fields)
            log(fields.pop("event"), 40, times=one.times, **fields)
