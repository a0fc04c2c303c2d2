"""What surrounds every request: who asks, an id, limits on the body, headers, a log line, metrics."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Container, Iterable, MutableMapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sfumato.core.web import HEADERS
from sfumato.study.server.logs import Metrics, fault, log
from sfumato.study.server.problems import ApiError, not_found, too_large, too_slow
from sfumato.study.server.settings import Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Refuse = Callable[[Request, Exception], Awaitable[Response]]
"""What is answered where an application raised instead of answering."""
RawHeader = tuple[bytes, bytes]

# At the door, before any route: who asks, under which name we are addressed, and whether the address is one at all.
#
# Proxies write the caller's address at the end of X-Forwarded-For; what stands before was sent by the caller, who can
# invent it. So of the addresses there, the one is believed that the outermost of our own proxies wrote.

_HOST = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Names that lead to this machine only, and so are always ours: for health checks and metrics beside a proxy."""


class Door:
    """What every request passes. `enter` notes who asks; `refusal` says why the request goes no further."""

    def __init__(self, settings: Settings) -> None:
        self._hops = settings.proxy_hops if settings.trust_proxy else 0
        names = {name.lower() for name in settings.host_names()}
        self._hosts = frozenset(names | set(LOOPBACK)) if names else frozenset()

    def enter(self, scope: Scope) -> None:
        """Take caller and scheme from what our own proxies wrote; without them the connection tells."""
        if self._hops == 0:
            return
        if (caller := self._written(scope, b"x-forwarded-for")) is not None:
            # Some proxies write the port too, which changes with every connection.
            if caller.startswith("["):
                caller = caller[1:].partition("]")[0]
            elif caller.count(":") == 1:
                caller = caller.partition(":")[0]
            scope["client"] = (caller, 0)
        if (scheme := self._written(scope, b"x-forwarded-proto")) in ("http", "https"):
            scope["scheme"] = scheme

    def _written(self, scope: Scope, header: bytes) -> str | None:
        """What the outermost of our proxies wrote; where only the innermost writes at all, what that one did."""
        said = [part.strip() for part in ",".join(_all(scope["headers"], header)).split(",") if part.strip()]
        return None if not said else said[max(0, len(said) - self._hops)]

    def refusal(self, scope: Scope) -> ApiError | None:
        """An address that cannot be one, or a name that is not ours."""
        if _CONTROL.search(scope["path"]):
            return not_found()  # under names that no database and no file system has, there is nothing
        names = _all(scope["headers"], b"host")
        host = _HOST.fullmatch(names[0]) if len(names) == 1 else None
        if host is None:
            return None if not names else ApiError(400, "bad-host", "The Host header is not a host name.")
        if self._hosts and host[1].lower() not in self._hosts:
            return ApiError(421, "other-host", "This server does not use that host name. Check the address.")
        return None


def path_of(scope: Scope) -> str:
    """The path inside this server, wherever a foreign application has mounted it."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _all(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in headers if name == wanted]


DEFAULTS: list[RawHeader] = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
"""Headers of every answer that does not set them itself."""
FOR_PAGES = (b"cross-origin-opener-policy", b"permissions-policy", b"referrer-policy", b"x-frame-options")
"""Those of them that mean something only where a browser shows the answer as a page."""
DRESSED = "sfumato.dressed"
"""In the message that begins an answer: its headers went through `dressed` already."""
KEEP_HTTPS: RawHeader = (b"strict-transport-security", b"max-age=31536000")
SLOWEST = 1 << 10
"""Bytes a second that a body must bring on average: a client that sends a byte a minute only occupies a place."""
RESPONDENTS = ("/api/v1/surveys/", "/survey/")
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"))
_LARGE = re.compile(r"/api/v1/studies/[^/]+/(releases/[^/]+|test)")


class Shell:
    """An ASGI application around others. It never reads a body itself, so that large ones can stream through."""

    def __init__(self, app: App, settings: Settings, metrics: Metrics, refuse: Refuse) -> None:
        self._app, self._settings, self._metrics, self._refuse = app, settings, metrics, refuse
        self._door = Door(settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status: int | None = None  # until the answer begins
        scope.setdefault("state", {})["request_id"] = request = os.urandom(8).hex()
        # When a respondent answered stays with the respondent: requests are counted, never written down.
        noted = not path_of(scope).startswith(RESPONDENTS)
        self._door.enter(scope)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message.get("headers", [])
                # An application whose answers all have the same headers dresses them once.
                headers = headers if message.pop(DRESSED, False) else dressed(headers)
                message["headers"] = headers = [*headers, (b"x-request-id", request.encode())]
                if self._settings.trust_proxy and scope["scheme"] == "https":
                    headers.append(KEEP_HTTPS)
            await send(message)

        try:
            if (refusal := self._door.refusal(scope)) is not None:
                raise refusal
            await self._app(scope, self._limited(scope, receive), answer)
        except Exception as error:
            if not isinstance(error, ApiError):
                log("fault", 40, request=request, **fault(error))
            if status is None:
                await (await self._refuse(Request(scope), error))(scope, receive, answer)
        finally:
            self._note(scope, status or 500, time.perf_counter() - started, request if noted else None)

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        """Count what comes in: at most what the route takes, no pause longer than the settings allow, no trickle."""
        most = self._settings.max_json_bytes
        if scope["method"] == "PUT" and (large := _LARGE.fullmatch(path_of(scope))):
            most = self._settings.max_push_bytes if large[1] != "test" else self._settings.max_test_bytes
        idle = self._settings.idle_seconds
        received, complete, began = 0, False, 0.0

        async def limited() -> Message:
            nonlocal received, complete, began
            if complete:
                return await receive()
            left = idle
            if not began:
                began = time.monotonic()
                if announced(scope) > most:
                    raise too_large(most)
            else:
                left += min(0.0, received / SLOWEST - (time.monotonic() - began))
            if getattr(getattr(receive, "__self__", None), "more_body", None) is False:
                message = await receive()  # uvicorn has the whole body: no clock is set to wait for it
            else:
                try:
                    async with asyncio.timeout(left):
                        message = await receive()
                except TimeoutError:
                    raise too_slow() from None
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if received > most:
                raise too_large(most)
            return message

        return limited

    def _note(self, scope: Scope, status: int, seconds: float, request: str | None) -> None:
        route = getattr(scope.get("route"), "path", None) or "(none)"
        method = scope["method"] if scope["method"] in METHODS else "OTHER"
        self._metrics.note(method, route, status, seconds)
        if request is not None:
            told: dict[str, Any] = {"method": method, "route": route, "status": status, "ms": round(seconds * 1000, 1)}
            caller = scope["state"].get("caller")
            told |= {"study": getattr(caller, "study", None), "site": getattr(caller, "site", None)}
            log("request", **told, request=request)


def dressed(headers: Iterable[RawHeader], without: Container[bytes] = ()) -> list[RawHeader]:
    """The headers of an answer, with the defaults that it does not set itself."""
    found = list(headers)
    named = {name for name, _ in found}
    return found + [header for header in DEFAULTS if header[0] not in named and header[0] not in without]


def announced(scope: Scope) -> int:
    """The length of the body that the client announces; 0 if it does not."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0
