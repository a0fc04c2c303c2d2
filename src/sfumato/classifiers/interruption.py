"""An interrupt that a library swallows is raised again when the library is done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def heeding_interrupts() -> Iterator[None]:
    """Whatever a signal's handler raised inside of the block, and somebody caught, is raised at its end.

    scikit-learn's network ends its training at Ctrl-C and returns as if it were done: a half-trained model would be
    written. Signals reach the main thread only, so there is nothing to heed in others.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    raised: list[BaseException] = []

    def heed(number: int, frame: FrameType | None) -> None:
        handler = handlers[signal.Signals(number)]
        assert callable(handler)
        try:
            handler(number, frame)
        except BaseException as error:
            raised.append(error)
            raise

    ours = [number for number, handler in handlers.items() if callable(handler)]
    for number in ours:
        signal.signal(number, heed)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, handlers[number])
    if raised:
        raise raised[0]
