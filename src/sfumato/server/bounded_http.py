"""The head of a request, bounded: its parser would keep an endless one, and wait for one that never ends."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_BYTES = 64 << 10
HEAD_SECONDS = 30.0


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, which gives up a head (address and headers) that is too long or too slow."""

    _head: Any = None
    """The scope of the request whose head is being read."""
    _bytes = 0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._done()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head, self._bytes = self.scope, 0
        self._wait()

    def on_headers_complete(self) -> None:
        self._done()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        before = self._head
        super().data_received(data)
        if before is not None and before is self._head:  # all of it was head: what comes before or after is not counted
            self._bytes += len(data)
            if self._bytes > MOST_BYTES and not self.transport.is_closing():
                self.send_400_response("The head of the request is too long.")

    def _wait(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _done(self) -> None:
        self._head = None
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        if self.transport is not None:
            self.transport.close()
