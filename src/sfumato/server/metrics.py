"""Prometheus metrics of one process: how many, how long, how large; nothing about anybody."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from sfumato.server.confinement import FILES, NETWORK
from sfumato.server.fair_use import FairTurns
from sfumato.server.logs import log

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """A registry of its own for every app, so that two apps in one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._told = False
        self._answered: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        labels = ("method", "route", "status")
        self.requests = Counter("sfumato_requests", "Requests answered.", labels, registry=self.registry)
        self.seconds = Histogram(
            "sfumato_request_seconds",
            "Time to answer.",
            ("method", "route"),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.pushes = Counter("sfumato_pushes", "Pushes by outcome.", ("outcome",), registry=self.registry)
        self.push_bytes = Counter("sfumato_push_bytes", "Bytes of release bodies received.", registry=self.registry)
        self.pushing = Gauge("sfumato_pushes_in_progress", "Pushes being received or checked.", registry=self.registry)
        self.validation = Histogram(
            "sfumato_validation_seconds",
            "Time to check a pushed file, including the wait.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.quota_refusals = Counter(
            "sfumato_quota_refusals",
            "Pushes refused because a site exceeds its quota: concurrent uploads, bytes, rows or releases.",
            ("quota",),
            registry=self.registry,
        )
        self.checks = Gauge(
            "sfumato_checks", "Files being checked and files waiting.", ("state",), registry=self.registry
        )
        self.confined = Gauge(
            "sfumato_checks_confined",
            "1 if the process that checks files has given up files or network, 0 if the system cannot do that.",
            ("what",),
            registry=self.registry,
        )
        self.models = Gauge("sfumato_models_waiting", "Models that wait or are being trained.", registry=self.registry)

    def watch_checks(self, turns: FairTurns) -> None:
        """Show how many files are checked and how many wait."""
        self.checks.labels("running").set_function(lambda: turns.running)
        self.checks.labels("waiting").set_function(lambda: turns.waiting)

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
