"""A training under way: the child process, what it says, and its end, however it comes."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from typing import Any

from sfumato.server.worker.job import Job

DIED = (
    "The training was ended by the system, most likely for want of memory. "
    "Train another classifier, or give the server more memory."
)
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR")


class Training:
    """Started at once; `messages` is asked again and again until one says `done` or `failed`."""

    def __init__(self, job: Job) -> None:
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}  # no secrets of the server
        threads = str(max(1, (os.cpu_count() or 2) // 2))  # the rest is left to the server
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sfumato.server.worker.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
            start_new_session=True,
        )
        self._heard = b""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # a child that is gone already is found out by its silence
            self._process.stdin.write(json.dumps(job.to_dict()).encode() + b"\n")
            self._process.stdin.flush()

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
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._process.wait()
