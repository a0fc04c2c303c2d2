"""Blocks of work on a few threads, each with one BLAS thread.

Two threads that each multiply their own block beat one product on two BLAS threads: the element-wise steps
between the products run in parallel as well, and no thread waits for another inside a product.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext

from threadpoolctl import ThreadpoolController

MOST_WORKERS = 8
SMALL = 1 << 22
"""Multiplications below which threads cost more than they save."""


class _OneBlasThread:
    """Limits BLAS to one thread while anybody is inside, and restores it when the last one leaves.

    The limit is a property of the process, not of a thread, so overlapping users must share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: AbstractContextManager[object] = nullcontext()
        self._controller: ThreadpoolController | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._inside == 0:
                self._controller = self._controller or ThreadpoolController()
                self._limit = self._controller.limit(limits=1, user_api="blas")
                self._limit.__enter__()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._limit.__exit__(None, None, None)


one_blas_thread = _OneBlasThread()


def worker_count(workers: int | None, multiplications: float) -> int:
    """How many threads to use: as asked, else one for small work and the machine's cores (at most 8) otherwise."""
    if workers is not None:
        if workers < 1:
            raise ValueError(f"The 'workers' parameter must be at least 1. Got {workers} instead.")
        return workers
    return 1 if multiplications < SMALL else min(os.cpu_count() or 1, MOST_WORKERS)


@contextmanager
def crew(workers: int) -> Iterator[Callable[[Callable[[slice], None], list[slice]], None]]:
    """Yields `run(work, blocks)`, which calls `work` once for every block and returns when all are done."""
    if workers == 1:
        yield _one_after_another
        return
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:

        def run(work: Callable[[slice], None], blocks: list[slice]) -> None:
            for done in [pool.submit(work, block) for block in blocks]:
                done.result()

        yield run


def _one_after_another(work: Callable[[slice], None], blocks: list[slice]) -> None:
    for block in blocks:
        work(block)


def slices(count: int, size: int) -> list[slice]:
    """0 .. count cut into consecutive blocks of at most `size`."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
