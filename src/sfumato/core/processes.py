"""Work through processes: this one, and others beside it that are ended with it.

The others are plain interpreters that read what to do from a pipe. They never import the program that asked, so that a
script needs no `if __name__ == "__main__"`, and nothing is written to disk.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from sfumato.core.errors import SfumatoError

In = TypeVar("In")
BEGIN = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); from sfumato.core.processes import serve; serve()"
)
LOST = "A process was ended from outside, perhaps because memory ran out. Run it again with fewer --workers."


def in_processes(
    items: Iterable[In], work: Callable[..., Any], given: Sequence[Any], workers: int
) -> Generator[tuple[In, Any], None, None]:
    """Yield every item with `work(item, *given)`, in the order in which they are finished.

    `work` must be a function of a module; what it is given and returns must be fit for pickle. Items are taken one by
    one when a process is free, so that an iterable may stop early. With one worker all is done here.
    """
    source, lock = iter(items), threading.Lock()
    done: queue.SimpleQueue[tuple[In, Any]] = queue.SimpleQueue()
    lost: list[Exception] = []

    def taken() -> Iterator[In]:
        while True:
            with lock:
                try:
                    item = next(source)
                except StopIteration:
                    return
            yield item

    def feed(other: _Other) -> None:
        try:
            for item in taken():
                done.put((item, other.ask(item)))
        except Exception as error:
            lost.append(error)

    others = [_Other(work, given) for _ in range(workers - 1)]
    threads = [threading.Thread(target=feed, args=(other,), daemon=True) for other in others]
    try:
        for thread in threads:
            thread.start()
        for item in taken():
            yield item, work(item, *given)
            yield from _ready(done)
        for thread in threads:
            while thread.is_alive():
                thread.join(0.05)
                yield from _ready(done)
        yield from _ready(done)
    finally:
        for other in others:
            other.end()
    if lost:
        raise lost[0]


def _ready(done: queue.SimpleQueue[Any]) -> Iterator[Any]:
    with contextlib.suppress(queue.Empty):
        while True:
            yield done.get_nowait()


class _Other:
    """A process beside this one that does one kind of work."""

    def __init__(self, work: Callable[..., Any], given: Sequence[Any]) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", BEGIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.common: tuple[Any, ...] | None = (work, tuple(given))

    def ask(self, item: Any) -> Any:
        """What it makes of an item; the common part is sent before the first."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            if self.common is not None:
                pickle.dump(sys.path, self.process.stdin)
                pickle.dump(self.common, self.process.stdin)
                self.common = None
            pickle.dump(item, self.process.stdin)
            self.process.stdin.flush()
            worked, found = pickle.load(self.process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            raise SfumatoError(LOST) from None
        if not worked:
            raise SfumatoError(f"A process failed ({found}). Run it again with --workers 1 to see where.")
        return found

    def end(self) -> None:
        """At once: whatever is unfinished is not wanted."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def serve() -> None:
    """In the other process: work until the pipe is closed. What is printed meanwhile goes to standard error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that asked is interrupted, and ends this one
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    work, given = pickle.load(sys.stdin.buffer)
    while True:
        try:
            item = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            found = True, work(item, *given)
        except Exception as error:
            found = False, type(error).__name__  # its text might quote a cell of the table
        try:
            pickle.dump(found, answers)
            answers.flush()
        except BrokenPipeError:  # who asked is gone
            os._exit(1)
