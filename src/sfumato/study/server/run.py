"""Serve with uvicorn until told to stop; requests under way are finished first."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sfumato.core.errors import OutputError
from sfumato.study.server.app import create_app
from sfumato.study.server.logs import configure_logs
from sfumato.study.server.settings import Settings

# The head of a request, bounded: its parser would keep an endless one, and wait for one that never ends.


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


YOUNG_OBJECTS = 20_000
"""Allocations between two looks of Python's collector. Requests leave no cycles behind, and with the default of 700 it
looks at all requests under way every few of them: a sixth of an answer's time."""


class _Server(uvicorn.Server):
    """A server that tells when it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._ready()


def serve(
    settings: Settings, host: str = "127.0.0.1", port: int = 8000, ready: Callable[[str], None] = lambda _: None
) -> None:
    """Listen until SIGINT or SIGTERM. `ready` is called with the address; port 0 takes any free one."""
    configure_logs()
    gc.set_threshold(YOUNG_OBJECTS)
    listening = _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{listening.getsockname()[1]}"
    try:
        app = create_app(settings)
        config = uvicorn.Config(
            app,
            http=BoundedHttp,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # the app's own door reads them
            timeout_graceful_shutdown=settings.shutdown_seconds,
            timeout_keep_alive=30,
            lifespan="on",
        )
        threading.Thread(target=app.state.context.validators.warm, name="warm validators", daemon=True).start()
        with _told_to_stop():
            _Server(config, lambda: ready(address)).run(sockets=[listening])
    finally:
        listening.close()


@contextlib.contextmanager
def _told_to_stop() -> Iterator[None]:
    """uvicorn repeats the signal that ended it: to be told to stop, and to have stopped, is no failure."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda *_: None) for number in told}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(1024)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise OutputError(f"The server cannot listen on {host}, port {port}: {reason}. Choose another port.") from None
    return listening
