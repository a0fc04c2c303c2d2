"""Logs: one JSON object a line. No addresses, tokens, bodies, values; routes as templates, never as they were asked."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from functools import partial
from typing import IO, Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sfumato.study.server.child_process import FILES, NETWORK

LOGGER = logging.getLogger("sfumato.study.server")


class JsonLines(logging.Formatter):
    """time, level, event, and whatever the caller gave by name."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage() if record.name == LOGGER.name else record.name,
        }
        line |= getattr(record, "fields", {})
        return json.dumps(line, ensure_ascii=True, default=str)


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """One line; fields that are None are left out."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, event, extra={"fields": {name: value for name, value in fields.items() if value is not None}})


def configure_logs(stream: IO[str] | None = None, level: int = logging.INFO) -> None:
    """Send our lines, and warnings of the parts we stand on, to standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for logger in (LOGGER, logging.getLogger("uvicorn")):
        logger.handlers, logger.propagate = [handler], False
    LOGGER.setLevel(level)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(logging.NOTSET)  # whoever served before in this process may have set it


def fault(error: BaseException) -> dict[str, Any]:
    """Where an unexpected error came from. Its message is left out: it may quote what it stumbled over."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    return {
        "fault": type(error).__name__,
        "where": [f"{frame.filename.rsplit('/site-packages/')[-1]}:{frame.lineno}" for frame in frames],
    }


_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """Prometheus metrics: how many, how long, how large; nothing about anybody. Every app has a registry of its own, so
    that two apps in one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._told = False
        self._answered: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        labels = ("method", "route", "status")
        self.requests = Counter("sfumato_requests", "Requests answered.", labels, registry=self.registry)
        timed = partial(Histogram, buckets=_SECONDS, registry=self.registry)
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        self.seconds = timed("sfumato_request_seconds", "Time to answer.", ("method", "route"))
        self.pushes = counter("sfumato_pushes", "Pushes by outcome.", ("outcome",))
        self.push_bytes = counter("sfumato_push_bytes", "Bytes of release bodies received.")
        self.pushing = gauge("sfumato_pushes_in_progress", "Pushes being received or checked.")
        self.validation = timed("sfumato_validation_seconds", "Time to check a pushed file, including the wait.")
        over = "Pushes refused because a site exceeds its quota: concurrent uploads, bytes, rows or releases."
        self.quota_refusals = counter("sfumato_quota_refusals", over, ("quota",))
        self.checks = gauge("sfumato_checks", "Files being checked and files waiting.", ("state",))
        given_up = "1 if the process that checks files has given up files or network, 0 if the system cannot do that."
        self.confined = gauge("sfumato_checks_confined", given_up, ("what",))
        self.models = gauge("sfumato_models_waiting", "Models that wait or are being trained.")

    def note_confinement(self, held: list[str]) -> None:
        """A child that checks files has started; said once where something is missing."""
        missing = [what for what in (FILES, NETWORK) if what not in held]
        if missing and not self._told:
            self._told = True
            log("unconfined", 30, missing=missing)
        for what in (FILES, NETWORK):
            self.confined.labels(what).set(what in held)

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        key = (method, route, status)
        if key not in self._answered:  # to look labels up takes longer than to count
            self._answered[key] = self.requests.labels(method, route, str(status)), self.seconds.labels(method, route)
        requests, times = self._answered[key]
        requests.inc()
        times.observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)
