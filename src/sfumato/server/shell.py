"""What surrounds every request: who asks, an id, limits on the body, headers, a log line, metrics."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sfumato.server.door import Door, path_of
from sfumato.server.logs import fault, log
from sfumato.server.metrics import Metrics
from sfumato.server.problems import ApiError, too_large, too_slow
from sfumato.server.settings import Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Refuse = Callable[[Request, Exception], Awaitable[Response]]
"""What is answered where an application raised instead of answering."""
RawHeader = tuple[bytes, bytes]

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
DEFAULTS: list[RawHeader] = [
    (b"cache-control", b"no-store"),
    (b"content-security-policy", CSP.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
]
"""Headers of every answer that does not set them itself."""
_FOR_PAGES = (b"cross-origin-opener-policy", b"permissions-policy", b"referrer-policy", b"x-frame-options")
NEVER_A_PAGE = [header for header in DEFAULTS if header[0] not in _FOR_PAGES]
"""The same for an application whose answers no browser shows as a page. It says so with `never_a_page` in the state."""
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
        scope.setdefault("state", {})["request_id"] = request = secrets.token_hex(8)
        # When somebody answered a survey is nobody's business: counted, never written down.
        noted = not path_of(scope).startswith(RESPONDENTS)
        self._door.enter(scope)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = self._dressed(message.get("headers", ()), scope, request)
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
        received, complete, began = 0, False, time.monotonic()

        async def limited() -> Message:
            nonlocal received, complete
            if complete:
                return await receive()
            if not received and _announced(scope) > most:
                raise too_large(most)
            idle = self._settings.idle_seconds
            left = idle + received / SLOWEST - (time.monotonic() - began)
            try:
                async with asyncio.timeout(min(idle, left)):
                    message = await receive()
            except TimeoutError:
                raise too_slow() from None
            received += len(message.get("body", b""))
            complete = not message.get("more_body", False)
            if received > most:
                raise too_large(most)
            return message

        return limited

    def _dressed(self, given: Iterable[RawHeader], scope: Scope, request: str) -> list[RawHeader]:
        """The headers of an answer, with those that every answer has. They are bytes: thousands a second pass here."""
        headers = list(given)
        named = {name for name, _ in headers}
        defaults = NEVER_A_PAGE if scope["state"].get("never_a_page") else DEFAULTS
        headers += [header for header in defaults if header[0] not in named]
        if self._settings.trust_proxy and scope["scheme"] == "https" and KEEP_HTTPS[0] not in named:
            headers.append(KEEP_HTTPS)
        headers.append((b"x-request-id", request.encode()))
        return headers

    def _note(self, scope: Scope, status: int, seconds: float, request: str | None) -> None:
        route = getattr(scope.get("route"), "path", None) or "(none)"
        method = scope["method"] if scope["method"] in METHODS else "OTHER"
        self._metrics.note(method, route, status, seconds)
        if request is None:
            return
        caller = scope["state"].get("caller")
        log(
            "request",
            method=method,
            route=route,
            status=status,
            ms=round(seconds * 1000, 1),
            request=request,
            study=getattr(caller, "study", None),
            site=getattr(caller, "site", None),
        )


def _announced(scope: Scope) -> int:
    """The length of the body that the client announces; 0 if it does not."""
    found = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(found) if found.isdigit() else 0
