"""Blocks through a few threads, in order, with bounded memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import threadpool_limits

In = TypeVar("In")
Out = TypeVar("Out")


def each_block(blocks: Iterable[In], work: Callable[[In], Out], threads: int | None = None) -> Iterator[tuple[In, Out]]:
    """Yield every block with what `work` made of it, in the order of the blocks.

    Several threads with one BLAS thread each beat one thread with many: blocks are small, and NumPy lets go of the
    interpreter while it computes. At most two blocks a thread are in flight.
    """
    threads = threads or min(4, os.cpu_count() or 1)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        waiting: deque[tuple[In, Future[Out]]] = deque()
        try:
            for block in blocks:
                waiting.append((block, pool.submit(work, block)))
                if len(waiting) > threads:
                    done, future = waiting.popleft()
                    yield done, future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, future.result()
        finally:
            for _, future in waiting:
                future.cancel()
