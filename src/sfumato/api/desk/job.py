"""A long job of the desk: a child process that tells how far it is, and can be stopped.

A process of its own, so that every screen stays quick while it runs, and so that stopping it stops all of it. What it
is asked and what it answers travels through pipes: never in arguments, which other accounts of the computer can read.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO, Any

from sfumato.api.desk.heard import sentence_of, unpacked
from sfumato.core.errors import SfumatoError

RUNNING, DONE, STOPPED, FAILED = "running", "done", "stopped", "failed"
PATIENCE = 10.0
"""Seconds that a child has to tidy up once it is told to stop."""
NOT_SAID = "It ended without saying why, perhaps for want of memory. Nothing was released."
_CHILD = "sfumato.api.desk.child"
# A child in a new group is not reached by a Ctrl-C that ends the desk, which stops it in its own way.
_APART: dict[str, Any] = (
    {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    if os.name == "nt"
    else {"start_new_session": True}
)


class Job:
    """One call of a function by its name, in a child. `then` is told the answer as soon as it is there."""

    def __init__(self, name: str, asked: Mapping[str, Any], then: Callable[[Any], None]) -> None:
        self.name, self.state = name, RUNNING
        self.step, self.done, self.total = "", 0, 0
        self.error = ""
        self._then, self._began = then, time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            **_APART,
        )
        self._reader = threading.Thread(target=self._read, args=(json.dumps({"job": name, **asked}),), daemon=True)
        self._reader.start()

    @property
    def running(self) -> bool:
        return self.state == RUNNING

    @property
    def share(self) -> float | None:
        """How much of the present step is done; None while that is unknown."""
        return min(1.0, self.done / self.total) if self.total else None

    @property
    def seconds_left(self) -> float | None:
        """Of the present step, if it goes on as it went."""
        share, passed = self.share, time.monotonic() - self._began
        return passed * (1 - share) / share if share and passed > 1 else None

    def wait(self, seconds: float | None = None) -> None:
        """Until it ended, and its answer was passed on."""
        self._reader.join(seconds)

    def stop(self) -> None:
        """End it and wait until it is gone."""
        if self.running:
            self.state = STOPPED
        self._let_go()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if threading.current_thread() is not self._reader:
            self._reader.join(PATIENCE)

    def _let_go(self) -> None:
        """The child ends when this end of its pipe is closed, by us or because we died: on Windows too, where no signal
        would let it tidy up."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.close()

    def _read(self, asked: str) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with contextlib.suppress(OSError, ValueError):  # it died at once, or was stopped
            stdin.write(asked.encode() + b"\n")
            stdin.flush()
        answer = self._listen(stdout)
        self._let_go()
        stdout.close()
        self._process.wait()
        if self.state != RUNNING:
            return
        if answer is None or "error" in answer:
            self.state, self.error = FAILED, NOT_SAID if answer is None else answer["error"]
            return
        try:
            self._then(answer["result"])
            self.state = DONE
        except SfumatoError as error:  # the answer could not be kept
            self.state, self.error = FAILED, sentence_of(error)

    def _listen(self, stdout: IO[bytes]) -> dict[str, Any] | None:
        """Take in what it says until it ends; the last word is its answer."""
        answer = None
        for line in stdout:
            said: dict[str, Any] = json.loads(line, object_hook=unpacked)
            if "step" not in said:
                answer = said
                continue
            if said["step"] != self.step:
                self._began = time.monotonic()
            self.step, self.done, self.total = said["step"], said["done"], said["total"] or 0
        return answer
