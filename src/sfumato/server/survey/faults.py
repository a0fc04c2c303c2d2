"""Faults of respondents' requests, told once a minute and all together: no line of the log says when somebody asked."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from sfumato.server.logs import fault, log
from sfumato.server.problems import ApiError, unavailable

TELL_SECONDS = 60.0


@dataclass
class _Noted:
    times: int
    fields: dict[str, Any]


class Faults:
    """Noted by requests, told by the task that keeps watch. Used by one event loop alone."""

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
        return unavailable() if away else ApiError(500, "fault", "The server made a mistake. Nothing was counted.")

    def tell(self, *, now: bool = False) -> None:
        """Log what was noted, if that was not done in the last minute."""
        if not now and time.monotonic() - self._told < self.patience:
            return
        self._told = time.monotonic()
        noted, self._noted = self._noted, {}
        for one in noted.values():
            fields = dict(one.fields)
            log(fields.pop("event"), 40, times=one.times, **fields)
