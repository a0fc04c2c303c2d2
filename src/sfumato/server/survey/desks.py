"""The surveys of one process, opened when somebody first asks for one.

Nothing here waits for the app's start: an app that is mounted inside a foreign one is never told that it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from sfumato.protocol.study_file import study_from_dict
from sfumato.protocol.survey_file import SurveyStudy
from sfumato.server.fair_use import Buckets
from sfumato.server.logs import fault, log
from sfumato.server.problems import ApiError, unavailable
from sfumato.server.settings import Rate
from sfumato.server.store import Store
from sfumato.server.survey.desk import LOOK_SECONDS, SurveyDesk

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
