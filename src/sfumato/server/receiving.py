"""A body goes to the disk in constant memory, is hashed on the way, and is durable when complete."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, TypeVarTuple, Unpack

from anyio import to_thread
from starlette.requests import ClientDisconnect, Request

from sfumato.files import PRIVATE
from sfumato.server.context import Context
from sfumato.server.problems import ApiError, busy, disk_full

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

CHUNK = 1 << 20
"""Bytes that are written and hashed at a time, in a thread."""


@dataclass(frozen=True)
class Received:
    path: Path
    sha256: str
    size: int


@contextlib.asynccontextmanager
async def received_body(request: Request, context: Context, who: str) -> AsyncIterator[Received]:
    """The body as a file that vanishes when the block ends, unless it was moved away.

    Uploads are counted for every site (`who`): one that lets many of its own stall keeps nobody else out.
    """
    if context.uploads[who] >= context.settings.max_site_pushes:
        context.metrics.quota_refusals.labels("uploads").inc()
        raise busy(5, "uploads of this site")
    if context.uploads.total() >= context.settings.max_pushes:
        raise busy(5, "uploads")
    context.uploads[who] += 1
    context.metrics.pushing.inc()
    path = context.folder.incoming()
    try:
        announced = request.headers.get("content-length", "0")
        # what is larger than any release is refused for that, when it is read, and not for want of room
        wanted = min(int(announced) if announced.isdigit() else 0, context.settings.max_push_bytes)
        needed = context.settings.spare_disk_bytes + wanted
        with full_disk_explained():
            if await _in_thread(context, context.folder.free_bytes) < needed:
                raise disk_full()
            yield await _receive(request, context, path)
    finally:
        context.uploads[who] -= 1
        context.uploads += Counter()  # forgets those at zero
        context.metrics.pushing.dec()
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


async def _receive(request: Request, context: Context, path: Path) -> Received:
    file = await _in_thread(context, _Hashed, path)
    waiting = bytearray()
    try:
        async for part in request.stream():
            waiting += part
            if len(waiting) >= CHUNK:
                await _in_thread(context, file.write, waiting)
                context.metrics.push_bytes.inc(len(waiting))
                waiting = bytearray()
        await _in_thread(context, file.finish, waiting)
        context.metrics.push_bytes.inc(len(waiting))
    except ClientDisconnect:
        raise ApiError(400, "cut-short", "The connection closed before the body was complete.") from None
    finally:
        file.close()
    return Received(path, file.hash.hexdigest(), file.size)


async def _in_thread(context: Context, call: Callable[[Unpack[Arguments]], Result], *arguments: *Arguments) -> Result:
    return await to_thread.run_sync(call, *arguments, limiter=context.disk)


class _Hashed:
    """A new private file that hashes what is written to it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        self.hash, self.size = hashlib.sha256(), 0

    def write(self, data: bytes | bytearray) -> None:
        self.hash.update(data)
        self.size += len(data)
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]

    def finish(self, data: bytes | bytearray) -> None:
        """The last bytes, and everything flushed to the disk."""
        self.write(data)
        os.fsync(self._descriptor)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


@contextlib.contextmanager
def full_disk_explained() -> Iterator[None]:
    """A full disk is the server's problem, and the client is told so: 507."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full() from None
        raise
