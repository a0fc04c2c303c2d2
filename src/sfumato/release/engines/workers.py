"""Work through a few threads: in order with bounded memory, or all that there is."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextvars import copy_context
from typing import TypeVar

from threadpoolctl import threadpool_limits

In = TypeVar("In")
Out = TypeVar("Out")


def in_order(items: Iterable[In], work: Callable[[In], Out], threads: int | None = None) -> Iterator[Out]:
    """Yield what `work` makes of every item, in the order of the items.

    Several threads with one BLAS thread each beat one thread with many: blocks are small, and NumPy, Arrow and
    hashlib let go of the interpreter while they compute. The calling thread reads ahead by one item more than there
    are threads, so that nobody waits for it. What the caller chose for its context (a device) holds in the threads too.
    """
    threads = threads or min(4, os.cpu_count() or 1)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Out]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(copy_context().run, work, item))
                del item  # what was read is let go of as soon as it is worked through
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def all_of(items: Iterable[In], work: Callable[[In], Out], threads: int, told: Callable[[int], None]) -> list[Out]:
    """What `work` makes of every item, in their order. None waits for a slow one. `told`: how many are done."""
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(copy_context().run, work, item) for item in items]
        try:
            told(0)
            for number, _ in enumerate(as_completed(waiting), start=1):
                told(number)
            return [future.result() for future in waiting]
        finally:
            for future in waiting:
                future.cancel()
