"""Everything that routes share, made once by `create_app` and found at `app.state.context`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anyio import CapacityLimiter

from sfumato.study.server.fair_use import Buckets, FairTurns
from sfumato.study.server.folder import DataFolder
from sfumato.study.server.logs import Metrics, log
from sfumato.study.server.settings import Settings
from sfumato.study.server.store import Store
from sfumato.study.server.validation.checker_pool import Limits, ValidationPool

if TYPE_CHECKING:  # only a process that trains needs it
    from sfumato.study.server.worker.worker import Worker

DISK_THREADS = 16


@dataclass
class Context:
    """Threads that write to the disk and that wait for a validator are counted apart from those that answer small
    requests, which therefore never wait for a large push."""

    settings: Settings
    store: Store
    folder: DataFolder
    metrics: Metrics
    validators: ValidationPool
    token_rates: Buckets
    study_rates: Buckets
    stranger_rates: Buckets
    disk: CapacityLimiter
    checks: FairTurns
    worker: Worker | None = None
    uploads: Counter[str] = field(default_factory=Counter)
    """Pushes under way, by site."""

    @classmethod
    def open(cls, settings: Settings) -> Context:
        """Open store and folder; nothing runs yet."""
        store = Store.open(settings)
        limits = Limits(rows=settings.max_rows, seconds=settings.validation_seconds, memory=settings.validation_memory)
        folder, metrics = DataFolder(settings.data), Metrics()
        checks = FairTurns(settings.validators, each=max(1, settings.validators // 2))
        metrics.watch_checks(checks)
        return cls(
            settings=settings,
            store=store,
            folder=folder,
            metrics=metrics,
            validators=ValidationPool(settings.validators, limits, folder.data / "incoming", metrics.note_confinement),
            token_rates=Buckets(settings.token_rate),
            study_rates=Buckets(settings.study_rate),
            stranger_rates=Buckets(settings.stranger_rate),
            disk=CapacityLimiter(DISK_THREADS),
            checks=checks,
        )

    def start(self) -> None:
        """Clean up after those who died, before anything new comes in."""
        self.folder.open()
        with self.folder.settling(exclusive=True):
            self.folder.sweep(self.store.releases.kept_files())
        if self.settings.worker:
            from sfumato.study.server.worker.worker import Worker

            self.worker = Worker(self.store, self.folder, self.settings, log)
            self.worker.start()

    def close(self) -> None:
        if self.worker is not None:
            self.worker.stop()
        self.validators.close()
        self.folder.close()
        self.store.close()
