"""The requests that every respondent makes, answered before anything else is asked about them.

Inquiry and guidance are ready-made bytes; an answer is decoded in one step and waits for nothing but its transaction.
All other requests go on to the app. What the app does for every request (limits, headers, metrics) is done here too,
only from constants that were computed once.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from sfumato.protocol.messages import ErrorMessage
from sfumato.server.metrics import Metrics
from sfumato.server.problems import ApiError, busy, not_found, too_large, too_slow, unavailable
from sfumato.server.settings import Settings
from sfumato.server.shell import Receive, Scope, Send
from sfumato.server.store.survey_store import DIFFERENT, NEW
from sfumato.server.survey.desk import SurveyDesk
from sfumato.server.survey.desks import SurveyDesks
from sfumato.server.survey.group_commit import OverloadError
from sfumato.server.survey.received_answer import BAD_TICKET, AnswerError, spelled

PREFIX = "/api/v1/surveys/"
OPEN_TO_ALL = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "content-type",
    "Access-Control-Max-Age": "86400",
    "Cross-Origin-Resource-Policy": "cross-origin",
}
# JSON is never shown as a page: of all security headers those count that forbid to take it for one.
_HEADERS = [
    (b"access-control-allow-origin", b"*"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"content-type", b"application/json"),
    (b"cross-origin-resource-policy", b"cross-origin"),
    (b"x-content-type-options", b"nosniff"),
]
Handler = Callable[[SurveyDesk, bytes], Awaitable[tuple[int, bytes]]]


class ReadyMessage(msgspec.Struct, forbid_unknown_fields=True):
    """Round 2 names the version of round 1; it says nothing else."""

    version: int


_ready = msgspec.json.Decoder(ReadyMessage)


async def inquiry(desk: SurveyDesk, _: bytes) -> tuple[int, bytes]:
    """Round 1: k* at present."""
    return 200, desk.inquiry()


async def ready(desk: SurveyDesk, body: bytes) -> tuple[int, bytes]:
    """Round 2: guidance of a version."""
    try:
        version = _ready.decode(body).version
    except msgspec.MsgspecError:
        raise ApiError(422, "malformed", 'Send {"version": n}, the version that the inquiry named.') from None
    found = await desk.ready(version)
    if found is None:
        raise ApiError(404, "unknown-version", "There is no such version of the guidance. Inquire again.")
    return 200, found


async def answer(desk: SurveyDesk, body: bytes) -> tuple[int, bytes]:
    """Count one answer: 201, or 200 if it was counted before."""
    _must_be_open(desk)
    try:
        kept, outcome = await desk.take(body)
    except AnswerError as error:
        raise ApiError(403 if error.code == BAD_TICKET else 422, error.code, str(error)) from None
    except OverloadError:
        raise unavailable("disk") from None
    if outcome == DIFFERENT:
        raise ApiError(409, "other-answer", "Another answer has this id. Every answer needs its own 128 random bits.")
    return 201 if outcome == NEW else 200, b'{"id":"%s"}' % spelled(kept.id).encode()


async def ticket(desk: SurveyDesk, body: bytes) -> tuple[int, bytes]:
    """Exchange an invitation for the signature of a blinded name: once, and the same one however often it is asked."""
    _must_be_open(desk)
    if desk.tickets is None:
        raise ApiError(404, "no-invitations", "This survey needs no invitation. Answer it without a ticket.")
    try:
        signed = await desk.tickets.exchange(body)
    except AnswerError as error:
        raise ApiError(422, error.code, str(error)) from None
    except OverloadError:
        raise unavailable("disk") from None
    if signed is None:
        raise ApiError(403, "bad-code", "The code of this invitation is unknown, or was used already.")
    return 200, signed


def _must_be_open(desk: SurveyDesk) -> None:
    if not desk.is_open():
        raise ApiError(410, "closed", "The survey is closed: no more answers are counted.")


HANDLERS: dict[tuple[str, str], Handler] = {
    ("POST", "answers"): answer,
    ("GET", "inquiry"): inquiry,
    ("POST", "ready"): ready,
    ("POST", "tickets"): ticket,
}


class QuickPath:
    """Asked before the app; whatever it does not answer is the app's."""

    def __init__(self, desks: SurveyDesks, metrics: Metrics, settings: Settings):
        self._desks, self._metrics, self._settings = desks, metrics, settings

    async def answered(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer, if it is one of these requests."""
        if scope["type"] != "http":
            return False
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if not path.startswith(PREFIX):
            return False
        survey, _, rest = path[len(PREFIX) :].partition("/")
        handler = HANDLERS.get((scope["method"], rest))
        if handler is None:
            return False
        await self._answer(scope, receive, send, survey, rest, handler)
        return True

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, survey: str, rest: str, handler: Handler
    ) -> None:
        began = time.perf_counter()
        more: list[tuple[bytes, bytes]] = []
        try:
            status, body = await self._handled(scope, receive, survey, handler)
        except ApiError as error:
            status, body, more = _refusal(error)
        except Exception as error:
            status, body, more = _refusal(self._desks.faults.note(error))
        headers = [*_HEADERS, (b"content-length", b"%d" % len(body)), *more]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        self._metrics.note(scope["method"], f"{PREFIX}{{survey_id}}/{rest}", status, time.perf_counter() - began)

    async def _handled(self, scope: Scope, receive: Receive, survey: str, handler: Handler) -> tuple[int, bytes]:
        client = scope.get("client")
        seconds = self._desks.too_many(client[0] if client else "")
        if seconds:
            raise busy(seconds)
        desk = await self._desks.find(survey[:64])
        if desk is None:
            raise not_found("survey")
        return await handler(desk, await self._body(receive))

    async def _body(self, receive: Receive) -> bytes:
        """The whole body: small, and without long pauses, so that half-open connections end."""
        most, body, more = self._settings.max_json_bytes, b"", True
        try:
            async with asyncio.timeout(self._settings.idle_seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise too_slow()
                    body += message.get("body", b"")
                    more = message.get("more_body", False)
                    if len(body) > most:
                        raise too_large(most)
        except TimeoutError:
            raise too_slow() from None
        return body


def _refusal(error: ApiError) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    message: dict[str, Any] = ErrorMessage(error.code, str(error.detail), secrets.token_hex(8), []).to_dict()
    headers = [(name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()]
    return error.status_code, msgspec.json.encode(message), headers
