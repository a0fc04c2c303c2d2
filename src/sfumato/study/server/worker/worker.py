"""The background worker: claims a waiting model, trains it in a child, keeps its lease alive, and files the result."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from sfumato.core.errors import SfumatoError
from sfumato.study.protocol.messages import ModelInfo
from sfumato.study.server.child_process import Child
from sfumato.study.server.settings import DataFolder, Settings
from sfumato.study.server.shell import log
from sfumato.study.server.store import Store
from sfumato.study.server.store.store import LEASE_SECONDS
from sfumato.study.server.worker.job import Job

IDLE_SECONDS = 2.0
TOLD_SECONDS = 0.5  # progress is written at most so often
LONGEST_SECONDS = 6 * 3600.0
NOTHING = "There is nothing to train on yet: no site has pushed a release, or nobody has answered."
TOO_LONG = "Training took longer than the server allows. Choose another classifier."
GONE_WRONG = "The server could not write the model: its disk is full, or the file was lost. Train it again."
DIED = (
    "The system ended the training, most likely because memory ran out. "
    "Choose another classifier, or give the server more memory."
)

Log = Callable[..., None]


class Worker:
    """One thread that trains one model at a time. `wake` spares it the wait for its next look."""

    niceness = 10  # of its children, which give way to the server's own work

    def __init__(
        self, store: Store, folder: DataFolder, settings: Settings, log: Log = log, *, lease: float = LEASE_SECONDS
    ) -> None:
        self._store, self._folder, self._settings, self._log, self._lease = store, folder, settings, log, lease
        self._name = f"{os.getpid()}-{secrets.token_hex(8)}"
        self._stopping, self._something = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="sfumato-worker", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        self._something.set()

    def stop(self, seconds: float = 30.0) -> None:
        """End the training under way, put its model back into the queue, and wait for the thread."""
        self._stopping.set()
        self._something.set()
        if self._thread.is_alive():
            self._thread.join(seconds)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                claimed = self._store.models.claim(self._name, self._lease)
                if claimed is not None:
                    self._train(*claimed)
                    continue
            except Exception as error:  # the database is away, the disk is full: try again later
                self._log("worker-trouble", error=type(error).__name__)
            self._something.wait(IDLE_SECONDS)
            self._something.clear()

    def _train(self, study: str, model: ModelInfo) -> None:
        self._log("training-started", study=study, model=model.id, classifier=model.classifier)
        limits = {"memory": self._settings.training_memory, "niceness": self.niceness}
        job = Job.of(self._store, self._folder, study, model.text, **limits, sites=model.sites, column=model.column)
        if not job.train:
            job.clean()
            self._store.models.fail(model.id, self._name, NOTHING)
            return
        training, began = Training(job), time.monotonic()
        try:
            outcome = self._watched(training, model.id)
            if outcome is None:
                return
            if "done" in outcome:
                outcome = self._filed(study, model.id, job, outcome["done"])
            if "failed" in outcome:
                self._store.models.fail(model.id, self._name, str(outcome["failed"]))
            seconds = round(time.monotonic() - began, 1)
            self._log("training-ended", study=study, model=model.id, outcome=next(iter(outcome)), seconds=seconds)
        finally:
            training.close()
            job.clean()

    def _watched(self, training: Training, model: str) -> dict[str, Any] | None:
        """Pass on what the child says until it ends; None where the model is no longer ours to train."""
        heard: dict[str, Any] = {"progress": 0.0, "step": "starting"}
        told = renewed = began = time.monotonic()
        while not self._stopping.is_set():
            new = False
            for message in training.messages(min(1.0, self._lease / 10)):
                if "done" in message or "failed" in message:
                    return message
                heard, new = message, True
            now = time.monotonic()
            if now - began > LONGEST_SECONDS:
                return {"failed": TOO_LONG}
            if now - told > (TOLD_SECONDS if new else self._lease / 10):
                told, held = now, None  # while the database does not answer
                try:
                    held = self._store.models.update(model, self._name, heard["progress"], heard["step"], self._lease)
                except SQLAlchemyError as error:
                    self._log("worker-trouble", error=type(error).__name__)
                renewed = now if held else renewed
                if held is False or now - renewed > self._lease:
                    self._log("training-lost", model=model)
                    return None
        self._store.models.give_back(model, self._name)
        return None

    def _filed(self, study: str, model: str, job: Job, done: dict[str, Any]) -> dict[str, Any]:
        """The file first, then the row. The lease is renewed before, so that no other worker files the same model."""
        if not self._store.models.update(model, self._name, 1.0, "writing", max(self._lease, LEASE_SECONDS)):
            return {"lost": True}
        try:
            if job.column is None:  # a density is small, and lies in its row
                self._folder.settle(Path(job.out), self._folder.model(study, model))
        except (OSError, SfumatoError):
            return {"failed": GONE_WRONG}
        results, card, rows = done["results"], done["card"], bool(done["card"]["contains_rows"])
        used = job.used(card)
        self._store.models.finish(model, self._name, results=results, card=card, used=used, contains_rows=rows)
        return {"done": True}


class Training(Child):
    """A training under way, started at once. `messages` is asked again and again until one says `done` or `failed`."""

    def __init__(self, job: Job) -> None:
        threads = str(max(1, (os.cpu_count() or 2) // 2))  # the rest is left to the server
        super().__init__("train", {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads})
        with contextlib.suppress(OSError):  # a child that is gone already is found out by its silence
            self.tell(job.to_dict())

    def messages(self, seconds: float) -> list[dict[str, Any]]:
        """What it has said meanwhile; a child that died has failed."""
        try:
            return self.hear(seconds)
        except (OSError, ValueError):
            return [{"failed": DIED}]
