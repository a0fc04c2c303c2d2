"""Group commit: answers that arrive together become durable together, in one transaction.

A transaction costs one wait for the disk however many rows it holds. While one group is being written the next one
gathers, so a single answer waits for at most two transactions and a thousand a second cost hardly more than ten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

LARGEST_GROUP = 2000  # rows of one transaction: larger ones make everybody wait without being cheaper
LONGEST_QUEUE = 20_000  # answers in memory: beyond this the server is told to be busy instead of growing


class OverloadError(Exception):
    """More answers are waiting than can be written; the client should try again later."""


class GroupCommit(Generic[Item, Outcome]):
    """`put(item)` returns the item's outcome once the transaction that holds it is durable.

    `write` runs in a thread of its own, gets a group and returns one outcome per item, in order; if it raises, every
    item of the group gets that error and nothing of it was committed.
    """

    def __init__(self, write: Callable[[Sequence[Item]], Sequence[Outcome]], *, largest: int = LARGEST_GROUP):
        self._write, self._largest = write, largest
        self._waiting: list[tuple[Item, asyncio.Future[Outcome]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="group-commit")

    async def put(self, item: Item) -> Outcome:
        """Wait until the item is durable."""
        if len(self._waiting) >= LONGEST_QUEUE:
            raise OverloadError
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._drain())
        # A client that goes away cancels its own wait, never the transaction that others wait for.
        return await future

    async def _drain(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            group, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
            try:
                outcomes = await loop.run_in_executor(self._thread, self._write, [item for item, _ in group])
            except Exception as error:
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), outcome in zip(group, outcomes, strict=True):
                if not future.done():
                    future.set_result(outcome)

    async def close(self) -> None:
        """Finish what waits; nothing may be put afterwards."""
        if self._writing is not None:
            await self._writing
        self._thread.shutdown(wait=True)
