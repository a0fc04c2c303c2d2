"""What surrounds every request: who asks, an id, limits on the body, headers, refusals, a log line, metrics. Logs are
one JSON object a line: no addresses, tokens, bodies, values; routes as templates, never as they were asked."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import IO, Any, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.core.web import HEADERS
from sfumato.study.protocol.messages import ErrorMessage
from sfumato.study.server.child_process import FILES, NETWORK
from sfumato.study.server.settings import Settings

# Every refusal of the server: a status, a short code for programs, and words that say what to do.

Found = TypeVar("Found")
Headers = dict[str, str] | None


class ApiError(HTTPException):
    """A refusal; `objections` lists every reason where there are several."""

    def __init__(
        self, status: int, code: str, message: str, *, objections: Sequence[str] = (), headers: Headers = None
    ) -> None:
        super().__init__(status, message, headers)
        self.code, self.objections = code, list(objections)


CLOSE = {"Connection": "close"}


def not_found(what: str = "page") -> ApiError:
    return ApiError(404, "not-found", f"There is no such {what} here.")


def there(found: Found | None, what: str) -> Found:
    """What was found, or 404."""
    if found is None:
        raise not_found(what)
    return found


def wrong_method(allowed: Iterable[str]) -> ApiError:
    words = "This address does not support that method."
    return ApiError(405, "wrong-method", words, headers={"Allow": ", ".join(allowed)})


def forbidden(needs: str) -> ApiError:
    return ApiError(403, "forbidden", f"Only {needs} may do this.")


def too_large(most: int) -> ApiError:
    words = f"The body is larger than {most} bytes, the most that this server accepts."
    return ApiError(413, "too-large", words, headers=CLOSE)


def too_slow() -> ApiError:
    return ApiError(408, "too-slow", "The client sent nothing for too long. Try again.", headers=CLOSE)


def busy(seconds: float, what: str = "requests") -> ApiError:
    wait = max(1, round(seconds + 0.5))
    words = f"Too many {what} in a short time. Try again in {wait} s."
    return ApiError(429, "too-many", words, headers={"Retry-After": str(wait)})


def disk_full() -> ApiError:
    return ApiError(507, "disk-full", "The server's disk is full. Nothing was kept. Try again when there is space.")


def unavailable(what: str = "database") -> ApiError:
    words = f"The server's {what} does not respond. Try again in a moment."
    return ApiError(503, "unavailable", words, headers={"Retry-After": "5"})


STATUSES = {
    400: ("Bad request", "The request cannot be understood."),
    401: ("Signed out", "The token is missing or not valid."),
    403: ("Not allowed", "The token is for another role."),
    404: ("Not found", "There is nothing with this name, or it belongs to another study."),
    405: ("Method not allowed", ""),
    408: ("Too slow", "The client sent nothing for too long."),
    409: (
        "Not possible now",
        "The same rows were pushed before: by another site, in another file, for another purpose.",
    ),
    410: ("Withdrawn", "The content was withdrawn earlier."),
    413: ("Too large", "The body is too large, or exceeds the site's quota."),
    421: ("Wrong host name", ""),
    422: ("Not accepted", "The content is refused; `objections` says why."),
    429: ("Too many requests", "Too many requests; Retry-After says when to try again."),
    500: ("The server failed", "The server failed."),
    503: ("The database does not respond", "The database does not respond; try again later."),
    507: ("The disk is full", "The disk is full."),
}
"""The title of a page that says it, and what the API's description says of a route that may answer it."""


def declared(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route may return besides success, for the API's description."""
    return {status: {"model": ErrorMessage, "description": STATUSES[status][1]} for status in statuses}


USUAL = declared(401, 404, 422, 429, 503)  # what any route of a study may answer


# Logs and metrics.

LOGGER = logging.getLogger("sfumato.study.server")


class JsonLines(logging.Formatter):
    """time, level, event, and whatever the caller gave by name."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage() if record.name == LOGGER.name else record.name,
        }
        line |= getattr(record, "fields", {})
        return json.dumps(line, ensure_ascii=True, default=str)


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """One line; fields that are None are left out."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, event, extra={"fields": {name: value for name, value in fields.items() if value is not None}})


def configure_logs(stream: IO[str] | None = None, level: int = logging.INFO) -> None:
    """Send our lines, and warnings of the parts we stand on, to standard error."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    for logger in (LOGGER, logging.getLogger("uvicorn")):
        logger.handlers, logger.propagate = [handler], False
    LOGGER.setLevel(level)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(logging.NOTSET)  # whoever served before in this process may have set it


def fault(error: BaseException) -> dict[str, Any]:
    """Where an unexpected error came from. Its message is left out: it may quote what it stumbled over."""
    frames = traceback.extract_tb(error.__traceback__)[-6:]
    return {
        "fault": type(error).__name__,
        "where": [f"{frame.filename.rsplit('/site-packages/')[-1]}:{frame.lineno}" for frame in frames],
    }


_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """Prometheus metrics: how many, how long, how large; nothing about anybody. Every app has a registry of its own, so
    that two apps in one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._told = False
        self._answered: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        labels = ("method", "route", "status")
        self.requests = Counter("sfumato_requests", "Requests answered.", labels, registry=self.registry)
        timed = partial(Histogram, buckets=_SECONDS, registry=self.registry)
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        self.seconds = timed("sfumato_request_seconds", "Time to answer.", ("method", "route"))
        self.pushes = counter("sfumato_pushes", "Pushes by outcome.", ("outcome",))
        self.push_bytes = counter("sfumato_push_bytes", "Bytes of release bodies received.")
        self.pushing = gauge("sfumato_pushes_in_progress", "Pushes being received or checked.")
        self.validation = timed("sfumato_validation_seconds", "Time to check a pushed file, including the wait.")
        over = "Pushes refused because a site exceeds its quota: concurrent uploads, bytes, rows or releases."
        self.quota_refusals = counter("sfumato_quota_refusals", over, ("quota",))
        self.checks = gauge("sfumato_checks", "Files being checked and files waiting.", ("state",))
        given_up = "1 if the process that checks files has given up files or network, 0 if the system cannot do that."
        self.confined = gauge("sfumato_checks_confined", given_up, ("what",))
        self.models = gauge("sfumato_models_waiting", "Models that wait or are being trained.")

    def note_confinement(self, held: list[str]) -> None:
        """A child that checks files has started; said once where something is missing."""
        missing = [what for what in (FILES, NETWORK) if what not in held]
        if missing and not self._told:
            self._told = True
            log("unconfined", 30, missing=missing)
        for what in (FILES, NETWORK):
            self.confined.labels(what).set(what in held)

    def note(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        key = (method, route, status)
        if key not in self._answered:  # to look labels up takes longer than to count
            self._answered[key] = self.requests.labels(method, route, str(status)), self.seconds.labels(method, route)
        requests, times = self._answered[key]
        requests.inc()
        times.observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


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


def enter(scope: Scope, settings: Settings) -> None:
    """Take caller and scheme from what our own proxies wrote; without them the connection tells."""
    if not settings.trust_proxy or settings.proxy_hops == 0:
        return

    def written(header: bytes) -> str | None:
        """By the outermost of our proxies; where only the innermost writes at all, by that one."""
        said = [part.strip() for part in ",".join(_all(scope["headers"], header)).split(",") if part.strip()]
        return None if not said else said[max(0, len(said) - settings.proxy_hops)]

    if (caller := written(b"x-forwarded-for")) is not None:
        # Some proxies write the port too, which changes with every connection.
        if caller.startswith("["):
            caller = caller[1:].partition("]")[0]
        elif caller.count(":") == 1:
            caller = caller.partition(":")[0]
        scope["client"] = (caller, 0)
    if (scheme := written(b"x-forwarded-proto")) in ("http", "https"):
        scope["scheme"] = scheme


def wrong_address(scope: Scope, ours: Container[str] | None) -> ApiError | None:
    """An address that cannot be one, or a name that is none of `ours`, where those are known."""
    if _CONTROL.search(scope["path"]):
        return not_found()  # under names that no database and no file system has, there is nothing
    names = _all(scope["headers"], b"host")
    host = _HOST.fullmatch(names[0]) if len(names) == 1 else None
    if host is None:
        return None if not names else ApiError(400, "bad-host", "The Host header is not a host name.")
    if ours is not None and host[1].lower() not in ours:
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
DRESSED = "sfumato.dressed"  # in the message that begins an answer: its headers went through `dressed` already
KEEP_HTTPS: RawHeader = (b"strict-transport-security", b"max-age=31536000")
SLOWEST = 1 << 10
"""Bytes a second that a body must bring on average: a client that sends a byte a minute only occupies a place."""
RESPONDENTS = ("/api/v1/surveys/", "/survey/")
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"))
_LARGE = re.compile(r"/api/v1/studies/[^/]+/(releases/[^/]+|test)")


class Shell:
    """An ASGI application around others. It never reads a body itself, so that large ones can stream through."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics, refuse: Refuse) -> None:
        self._app, self._settings, self._metrics, self._refuse = app, settings, metrics, refuse
        names = {name.lower() for name in settings.host_names()}
        self._ours = {*names, *LOOPBACK} if names else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status: int | None = None  # until the answer begins
        scope.setdefault("state", {})["request_id"] = request = os.urandom(8).hex()
        # When a respondent answered stays with the respondent: requests are counted, never written down.
        noted = not path_of(scope).startswith(RESPONDENTS)
        enter(scope, self._settings)

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
            if (refusal := wrong_address(scope, self._ours)) is not None:
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
