"""A training under way: the child process, what it says, and its end, however it comes."""

from __future__ import annotations

import contextlib
import json
import os
import select
from typing import Any

from sfumato.server.child import end_child, start_child, tell
from sfumato.server.worker.job import Job

DIED = (
    "The training was ended by the system, most likely for want of memory. "
    "Train another classifier, or give the server more memory."
)


class Training:
    """Started at once; `messages` is asked again and again until one says `done` or `failed`."""

    def __init__(self, job: Job) -> None:
        threads = str(max(1, (os.cpu_count() or 2) // 2))  # the rest is left to the server
        quiet = {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        self._process = start_child("sfumato.server.worker.child", quiet)
        self._heard = b""
        with contextlib.suppress(OSError):  # a child that is gone already is found out by its silence
            tell(self._process, job.to_dict())

    @property
    def pid(self) -> int:
        return self._process.pid

    def messages(self, seconds: float) -> list[dict[str, Any]]:
        """What it has said meanwhile; waits for up to `seconds`. A child that died has failed."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        if not ready:
            return []
        part = os.read(self._process.stdout.fileno(), 1 << 20)
        if not part:
            return [{"failed": DIED}]
        *lines, self._heard = (self._heard + part).split(b"\n")
        try:
            return [json.loads(line) for line in lines]
        except ValueError:
            return [{"failed": DIED}]

    def close(self) -> None:
        """End it, whatever it is doing."""
        end_child(self._process)
