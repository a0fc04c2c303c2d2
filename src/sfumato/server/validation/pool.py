"""A few children that check files, started when first needed, used again, and replaced when one dies."""

from __future__ import annotations

import json
import os
import select
import threading
import time
from pathlib import Path
from typing import Any

from sfumato.server.child import end_child, start_child, tell
from sfumato.server.validation.limits import Limits
from sfumato.server.validation.verdict import Verdict

DIED = "The file could not be read within the limits of memory and time that a release needs. It was refused."
_QUIET = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}
STARTING_SECONDS = 120
WALL = 4
"""Seconds by the clock for each of processor time: a busy machine refuses nobody."""
LONGEST_ANSWER = 64 << 20


class Child:
    """One process; a job at a time."""

    def __init__(self) -> None:
        self._process = start_child("sfumato.server.validation.child", _QUIET)
        self._answer(STARTING_SECONDS)

    def check(self, job: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """The answer, or None for a child that died or took too long; it is then gone."""
        try:
            tell(self._process, job)
            return self._answer(seconds)
        except (OSError, ValueError, TimeoutError):
            self.close()
            return None

    def _answer(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        descriptor, end = self._process.stdout.fileno(), time.monotonic() + seconds
        parts: list[bytes] = []
        size = 0
        while not parts or not parts[-1].endswith(b"\n"):
            waited, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
            if not waited:
                raise TimeoutError
            part = os.read(descriptor, 1 << 16)
            size += len(part)
            if not part or size > LONGEST_ANSWER:
                raise OSError("The child is gone.")
            parts.append(part)
        answer: dict[str, Any] = json.loads(b"".join(parts))
        return answer

    def close(self) -> None:
        end_child(self._process)


class ValidationPool:
    """At most `size` files are checked at a time; others wait for a turn."""

    def __init__(self, size: int, limits: Limits) -> None:
        self.size, self.limits = size, limits
        self._turns = threading.Semaphore(size)
        self._idle: list[Child] = []
        self._lock = threading.Lock()

    def check(self, what: str, path: Path, study: dict[str, Any]) -> Verdict:
        """Check one file; a child that dies over it has given its verdict."""
        job = {"check": what, "path": str(path), "study": study, "limits": self.limits.to_dict()}
        with self._turns:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            # A child that was used before may have died of something else than this file: a new one decides.
            for child in (idle, None):
                child = child or Child()
                answer = child.check(job, WALL * self.limits.seconds + STARTING_SECONDS)
                if answer is not None:
                    with self._lock:
                        self._idle.append(child)
                    return Verdict(**answer)
                if idle is None:
                    break
        return Verdict.refused(DIED)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.close()
