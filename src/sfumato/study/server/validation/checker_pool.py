"""A few children that check files, started when first needed, used again, and replaced when one dies."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sfumato.core.records import Record
from sfumato.study.server.child_process import FOLDER, Child


@dataclass(frozen=True)
class Limits(Record):
    """Of one Parquet file. A page of noise hardly compresses: a file that grows a hundredfold is a bomb. Equal values
    in a row take no room at all, however many: so cells are counted, too. Two categories of which one is reported a
    thousand times as often as the other come to 700 cells a byte, and hide nothing any more."""

    rows: int = 50_000_000
    row_groups: int = 100_000
    row_group_bytes: int = 1 << 30
    expansion: float = 100.0
    cells_per_byte: float = 1000.0
    card_bytes: int = 8 << 20
    seconds: int = 600
    memory: int = 2 << 30


@dataclass(frozen=True)
class Verdict(Record):
    """`objections` is empty for a file that the study takes; `epsilon` is what was recomputed, None for none.
    `identity` and `sketch` say which rows it holds, in any order and file (see `row_identity`)."""

    rows: int = 0
    epsilon: float | None = None
    card: dict[str, Any] = field(default_factory=dict)
    objections: list[str] = field(default_factory=list)
    identity: str = ""
    sketch: str = ""

    @classmethod
    def refused(cls, *reasons: str) -> Verdict:
        return cls(objections=list(reasons))


DIED = "The file could not be read within the memory and time that any release needs. It was refused."
_ONE = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "PYTHONDONTWRITEBYTECODE")
_QUIET = {"ARROW_DEFAULT_MEMORY_POOL": "system", **dict.fromkeys(_ONE, "1")}
STARTING_SECONDS = 120
WALL = 4  # seconds by the clock for each of processor time: no file is refused because the machine is busy


class Checker(Child):
    """One process; a job at a time."""

    def __init__(self, folder: Path) -> None:
        super().__init__("check", _QUIET | {FOLDER: str(folder.resolve())})
        self.confined: list[str] = self._answer(STARTING_SECONDS)["confined"]

    def check(self, job: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """The answer, or None for a child that died or took too long; it is then gone."""
        try:
            self.tell(job)
            return self._answer(seconds)
        except (OSError, ValueError):
            self.close()
            return None

    def _answer(self, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while not (heard := self.hear(left := end - time.monotonic())):
            if left <= 0:
                raise TimeoutError
        return heard[0]


class ValidationPool:
    """At most `size` files are checked at a time; others wait for a turn. Files to check lie in `folder`, the only one
    that children see. `started` is told how each of them is confined."""

    def __init__(
        self, size: int, limits: Limits, folder: Path, started: Callable[[list[str]], None] = lambda _: None
    ) -> None:
        self.size, self.limits, self._folder, self._started = size, limits, folder, started
        self._turns = threading.Semaphore(size)
        self._idle: list[Checker] = []
        self._lock, self._closed, self._living = threading.Lock(), False, 0

    def check(self, what: str, path: Path, study: dict[str, Any], rows: int | None = None) -> Verdict:
        """Check one file, of at most so many rows; a child that dies over it has given its verdict."""
        limits = self.limits if rows is None else replace(self.limits, rows=max(0, min(rows, self.limits.rows)))
        job = {"check": what, "path": str(path.resolve()), "study": study, "limits": limits.to_dict()}
        with self._turns:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            # A child that was used before may have died of something else than this file: a new one decides.
            for child in (idle, None):
                child = child or self._new_child()
                answer = child.check(job, WALL * self.limits.seconds + STARTING_SECONDS)
                if answer is not None:
                    self._put_back(child)
                    return Verdict(**answer)
                with self._lock:
                    self._living -= 1
                if idle is None:
                    break
        return Verdict.refused(DIED)

    def warm(self) -> None:
        """Start children before they are needed, which takes seconds: no push waits for the child of another."""
        with contextlib.suppress(OSError, ValueError):  # then the first push finds out why
            while self._living < self.size and not self._closed:
                with self._turns:
                    self._put_back(self._new_child())

    def _new_child(self) -> Checker:
        child = Checker(self._folder)
        with self._lock:
            self._living += 1
        self._started(child.confined)
        return child

    def _put_back(self, child: Checker) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(child)
                return
        child.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for child in idle:
            child.close()
