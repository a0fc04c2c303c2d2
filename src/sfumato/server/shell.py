"""What surrounds every request: an id, limits on the body, security headers, a log line, metrics."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response

from sfumato.server.logs import fault, log
from sfumato.server.metrics import Metrics
from sfumato.server.problems import ApiError, too_large, too_slow
from sfumato.server.settings import Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Faulty = Callable[[Request, Exception], Awaitable[Response]]
"""What is answered when something breaks that nobody thought of."""

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY = {
    "Content-Security-Policy": CSP,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
SLOWEST = 1 << 10
"""Bytes a second that a body must bring on average: who sends a byte a minute only keeps a place occupied."""
RESPONDENTS = ("/api/v1/surveys/", "/survey/")
_LARGE = re.compile(r"/api/v1/studies/[^/]+/(releases/[^/]+|test)")


class Shell:
    """An ASGI app around the app. It never reads a body itself, so that large ones can stream through."""

    def __init__(self, app: App, settings: Settings, metrics: Metrics, faulty: Faulty) -> None:
        self._app, self._settings, self._metrics, self._faulty = app, settings, metrics, faulty

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status: int | None = None  # until the answer begins
        scope.setdefault("state", {})["request_id"] = request = secrets.token_hex(8)
        headers = Headers(scope=scope)
        # When somebody answered a survey is nobody's business: counted, never written down.
        noted = not scope["path"].removeprefix(scope.get("root_path", "")).startswith(RESPONDENTS)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                self._dress(MutableHeaders(scope=message), scope, request)
            await send(message)

        try:
            if (refusal := scope["state"].get("refusal")) is not None:  # at the door
                raise refusal
            await self._app(scope, self._limited(scope, headers, receive), answer)
        except Exception as error:
            if not isinstance(error, ApiError):
                log("fault", 40, request=request, **fault(error))
            if status is None:
                await (await self._faulty(Request(scope), error))(scope, receive, answer)
        finally:
            self._note(scope, status or 500, time.perf_counter() - started, request if noted else None)

    def _limited(self, scope: Scope, headers: Headers, receive: Receive) -> Receive:
        """Count what comes in: at most what the route takes, no pause longer than the settings allow, no trickle."""
        large = scope["method"] == "PUT" and _LARGE.fullmatch(scope["path"])
        most = self._settings.max_json_bytes
        if large:
            most = self._settings.max_push_bytes if large[1] != "test" else self._settings.max_test_bytes
        announced = headers.get("content-length", "")
        received, complete, began = 0, False, time.monotonic()

        async def limited() -> Message:
            nonlocal received, complete
            if complete:
                return await receive()
            if announced.isdigit() and int(announced) > most:
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

    def _dress(self, out: MutableHeaders, scope: Scope, request: str) -> None:
        for name, value in SECURITY.items():
            out.setdefault(name, value)
        out["X-Request-ID"] = request
        if not scope["path"].startswith("/static/"):
            out.setdefault("Cache-Control", "no-store")
        if self._settings.trust_proxy and scope["scheme"] == "https":
            out.setdefault("Strict-Transport-Security", "max-age=31536000")

    def _note(self, scope: Scope, status: int, seconds: float, request: str | None) -> None:
        route = getattr(scope.get("route"), "path", None) or "(none)"
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "PUT", "DELETE") else "OTHER"
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
