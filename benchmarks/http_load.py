"""A load generator for HTTP on the loopback: many connections, each waits for its answer before it asks again.

It writes ready-made bytes and reads only the status and length of an answer: a client library would cost more than the
server that is measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np


@dataclass
class Load:
    """What came back: statuses, and seconds of every request in the order they ended."""

    seconds: float = 0.0
    statuses: dict[int, int] = field(default_factory=dict)
    times: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds

    def percentile(self, share: float) -> float:
        return float(np.percentile(self.times, 100 * share))

    def line(self, name: str) -> str:
        counted = ", ".join(f"{count:,} x {status}" for status, count in sorted(self.statuses.items()))
        return (
            f"  {name:<44} {self.rate:8,.0f} a second   p50 {1e3 * self.percentile(0.5):6.1f} ms   "
            f"p99 {1e3 * self.percentile(0.99):6.1f} ms   ({counted})"
        )


class _Exchange(asyncio.Protocol):
    """One connection; `received` resolves with the status once a whole answer is there."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.received: asyncio.Future[int] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self.buffer[:end]).lower()
        mark = head.find(b"content-length:")
        length = int(head[mark + 15 :].split(b"\r\n", 1)[0]) if mark >= 0 else 0
        if len(self.buffer) >= end + 4 + length and self.received is not None:
            status = int(self.buffer[9:12])
            del self.buffer[: end + 4 + length]
            waiting, self.received = self.received, None
            waiting.set_result(status)

    def connection_lost(self, error: Exception | None) -> None:
        if self.received is not None and not self.received.done():
            self.received.set_exception(error or ConnectionResetError())

    async def ask(self, request: bytes) -> int:
        self.received = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.received


def request(method: str, url: str, body: bytes = b"") -> bytes:
    """A ready-made HTTP/1.1 request."""
    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    head = f"{method} {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


async def run_load(address: str, requests: Iterator[bytes], *, connections: int, seconds: float) -> Load:
    """Ask on all connections for so long; `requests` gives the next one to whoever is free."""
    parts = urlsplit(address)
    load, loop = Load(), asyncio.get_running_loop()
    end = time.perf_counter() + seconds

    async def ask_on_and_on() -> None:
        _, exchange = await loop.create_connection(_Exchange, parts.hostname, parts.port)
        for asked in requests:
            began = time.perf_counter()
            if began >= end:
                break
            status = await exchange.ask(asked)
            load.times.append(time.perf_counter() - began)
            load.statuses[status] = load.statuses.get(status, 0) + 1
        exchange.transport.close()

    began = time.perf_counter()
    await asyncio.gather(*(ask_on_and_on() for _ in range(connections)))
    load.seconds = time.perf_counter() - began
    return load


def load_of(
    address: str, requests: Callable[[], Iterator[bytes]], *, connections: int = 64, seconds: float = 5.0
) -> Load:
    """`run_load` on uvloop, the quickest loop there is."""
    import uvloop

    return uvloop.run(run_load(address, requests(), connections=connections, seconds=seconds))
