"""The server as one ASGI application, and serving it with uvicorn until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from sqlalchemy.exc import DataError, DBAPIError, SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sfumato import __version__
from sfumato.core.errors import OutputError, SfumatoError
from sfumato.study.protocol.messages import ErrorMessage
from sfumato.study.server import shell
from sfumato.study.server.context import Context
from sfumato.study.server.routes import log as public_log
from sfumato.study.server.routes import pages, studies
from sfumato.study.server.settings import Certificate, Settings
from sfumato.study.server.shell import ApiError, Shell, log, path_of
from sfumato.study.server.survey.desk import SurveyDesks
from sfumato.study.server.survey.survey_app import PREFIX, described, survey_app
from sfumato.study.server.web.rendering import ROOT, RespondentFiles, error_page


class Api(FastAPI):
    """What owners, sites and people at a browser ask; its description tells of surveys, too."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            super().openapi()["paths"] |= described()
        return super().openapi()


class Coordinator(Shell):
    """What uvicorn serves, and what a foreign application may mount. `api` answers owners, sites and people at a
    browser; respondents come by the thousand and have an application of their own beside it (decision 0029). `state`
    holds `context`, `store`, `settings` and `surveys`."""

    def __init__(self, api: FastAPI) -> None:
        self.api, self.state = api, api.state
        super().__init__(self._mounted, api.state.settings, api.state.context.metrics, _refused)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ROOT.set(scope.get("root_path", ""))  # where a foreign application has mounted this one, for the pages
        await super().__call__(scope, receive, send)

    async def _mounted(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and path_of(scope).startswith(PREFIX):
            await survey_app(self.state.surveys, scope, receive, send)
        else:
            await self.api(scope, receive, send)


def create_app(settings: Settings) -> Coordinator:
    """The application for one data folder and database, both opened here; `app.state.store` is the store."""
    context = Context(settings)
    surveys = SurveyDesks(context.store, settings.respondent_rate)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        context.start()
        log("started", version=__version__)
        try:
            yield
        finally:
            await surveys.close()
            context.close()
            log("stopped")

    api = Api(
        title="Sfumato coordinator",
        version=__version__,
        summary="Studies to which sites push sanitized releases, one way.",
        lifespan=lifespan,
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        separate_input_output_schemas=False,
    )
    api.state.context, api.state.store, api.state.settings = context, context.store, settings
    api.state.surveys = surveys
    for router in (*studies.ROUTERS, *public_log.ROUTERS, pages.router):
        api.include_router(router)
    api.mount("/survey", RespondentFiles())
    for kind in (HTTPException, RequestValidationError, SfumatoError, SQLAlchemyError, Exception):
        api.add_exception_handler(kind, _refused)
    return Coordinator(api)


async def _refused(request: Request, error: Exception) -> Response:
    """Every refusal has the same shape, whichever application raised it."""
    refusal = _worded(request, error)
    if (shown := error_page(request, refusal)) is not None:
        return shown
    message = ErrorMessage(refusal.code, str(refusal.detail), request.state.request_id, refusal.objections)
    return JSONResponse(message.to_dict(), refusal.status_code, refusal.headers)


def _worded(request: Request, error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, HTTPException):
        if error.status_code == 404:
            return shell.not_found()
        if error.status_code == 405:
            return shell.wrong_method((error.headers or {}).get("Allow", "").split(", "))
        return ApiError(error.status_code, "bad-request", "The request cannot be understood.")
    if isinstance(error, RequestValidationError):  # where and what was expected; never what was sent
        places = [f"{'.'.join(str(part)[:40] for part in item['loc'])}: {item['msg']}" for item in error.errors()[:10]]
        return ApiError(422, "invalid", "The request does not match the API's description.", objections=places)
    if isinstance(error, SfumatoError):
        return ApiError(422, "invalid", str(error))
    if isinstance(error, DataError):  # what was sent is no text or number that a database has: nothing of ours is away
        return ApiError(422, "invalid", "The request contains characters that cannot be stored.")
    if isinstance(error, SQLAlchemyError):
        log("database", 40, request=request.state.request_id, **shell.fault(error))
        full = isinstance(error, DBAPIError) and "full" in str(error.orig).lower()
        return shell.disk_full() if full else shell.unavailable()
    return ApiError(500, "fault", "The server failed. Its log has an entry with the id of this request.")


# Serving: requests under way are finished first. The head of a request is bounded: its parser would keep an endless
# one, and wait for one that never ends.

AT_ONCE, MOST_BYTES, HEAD_SECONDS = 16 << 10, 64 << 10, 30.0
YOUNG_OBJECTS = 20_000
"""Allocations between two looks of Python's collector. Requests leave no cycles behind, and with the default of 700 it
looks at all requests under way every few of them: a sixth of an answer's time."""


class Joined:
    """A transport that sends head and body of an answer together: what is written in one turn of the loop, up to
    `AT_ONCE` bytes, is one call of the system instead of two."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop, self._waiting = transport, loop, bytearray()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if len(self._waiting) + len(data) > AT_ONCE:  # nothing piles up here: the transport says when a client is slow
            self._send()
            self._transport.write(data)
            return
        if not self._waiting:
            self._loop.call_soon(self._send)
        self._waiting += data

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, bytearray()
        if waiting and not self._transport.is_closing():
            self._transport.write(waiting)

    def close(self) -> None:
        self._send()
        self._transport.close()


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's protocol, which gives up a head (address and headers) that is too long or too slow."""

    _head: Any = None
    """The scope of the request whose head is being read."""
    _bytes = 0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Joined(transport, self.loop))  # type: ignore[arg-type]
        self._late = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        self._done()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head, self._bytes = self.scope, 0

    def on_headers_complete(self) -> None:
        self._done()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        before = self._head
        super().data_received(data)
        if self._head is not None and self._late is None:  # it ends in a later piece, or never
            self._late = self.loop.call_later(HEAD_SECONDS, self._give_up)
        if before is not None and before is self._head:  # all of it was head: what comes before or after is not counted
            self._bytes += len(data)
            if self._bytes > MOST_BYTES and not self.transport.is_closing():
                self.send_400_response("The head of the request is too long.")

    def _done(self) -> None:
        self._head = None
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        if self.transport is not None:
            self.transport.close()


class _Server(uvicorn.Server):
    """A server that tells when it listens."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as signals are handled
        """uvicorn would note the signal, to repeat it in the end: to be told to stop, and to have stopped, is no
        failure."""
        self.force_exit = self.force_exit or (self.should_exit and sig == signal.SIGINT)
        self.should_exit = True


def serve(
    settings: Settings, host: str = "127.0.0.1", port: int = 8000, ready: Callable[[str], None] = lambda _: None
) -> None:
    """Listen until SIGINT or SIGTERM. `ready` is called with the address; port 0 takes any free one."""
    shell.configure_logs()
    gc.set_threshold(YOUNG_OBJECTS)
    certificate, listening = Certificate.of(settings), _listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    scheme, pin = ("https", certificate.pin) if certificate else ("http", "")
    address = f"{scheme}://{shown}:{listening.getsockname()[1]}{pin}"
    try:
        app = create_app(settings)
        config = uvicorn.Config(
            app,
            http=BoundedHttp,
            ssl_certfile=certificate.certificate if certificate else None,
            ssl_keyfile=certificate.key if certificate else None,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # the app's own door reads them
            timeout_graceful_shutdown=settings.shutdown_seconds,
            timeout_keep_alive=30,
            lifespan="on",
        )
        threading.Thread(target=app.state.context.validators.warm, name="warm validators", daemon=True).start()
        _Server(config, lambda: ready(address)).run(sockets=[listening])
    finally:
        listening.close()


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
