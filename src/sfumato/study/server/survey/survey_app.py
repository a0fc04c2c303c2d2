"""What respondents and auditors ask of a survey, as an ASGI application of its own; see docs/survey-protocol.md. A
framework between the shell and this would cost more than the answer itself (decision 0029): inquiry and guidance are
ready-made bytes, and an answer is decoded in one step and waits for nothing but its transaction. Any page may call
these routes: they know no cookie and no token."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sfumato.study.protocol.agreed import Head, canonical_json
from sfumato.study.server import shell
from sfumato.study.server.shell import ApiError, dressed, path_of, there
from sfumato.study.server.store.sql_tables import CLOSED, OPEN
from sfumato.study.server.store.survey_store import BAD_TICKET, DIFFERENT, NEW, AnswerError, SentAnswer, spelled
from sfumato.study.server.survey.desk import SurveyDesk, SurveyDesks, TicketAsked

PREFIX = "/api/v1/surveys/"
PAGE = 1000  # entries of the log in one answer
OPEN_TO_ALL = {"Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"}
PREFLIGHT = OPEN_TO_ALL | {
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "content-type",
    "Access-Control-Max-Age": "86400",
}
_SAID = OPEN_TO_ALL | {"Content-Type": "application/json"}
_JSON = dressed(((name.lower().encode(), value.encode()) for name, value in _SAID.items()), without=shell.FOR_PAGES)


class Asked(NamedTuple):
    """One request: what follows the survey in its address, and its body."""

    scope: Scope
    receive: Receive
    rest: str

    async def body(self) -> bytes:
        """The whole body; the shell limits its size and its pauses."""
        body, more = b"", True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise shell.too_slow()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        return body


class ReadyMessage(msgspec.Struct, forbid_unknown_fields=True):
    """Round 2 names the version of round 1; it says nothing else."""

    version: int


IN_PATH = {"in": "path", "required": True}
SURVEY = IN_PATH | {
    "name": "survey_id",
    "schema": {"type": "string", "maxLength": 64},
    "description": "Id of a survey.",
}
VERSION = IN_PATH | {"name": "version", "schema": {"type": "integer", "minimum": 0}}
AFTER = {"name": "after", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": 999_999_999}}
UNLIKE = {422: "The request does not match this description."}
BAD = {413: "The body is too large.", **UNLIKE, 408: "The client sent nothing for too long."}
OVER = {410: "The survey is closed."}
ANYWHERE = {404: "There is no such survey or version.", 429: "Too many requests.", 503: "Try again later."}
TAKEN = {201: "Counted.", 200: "Already counted.", 403: "The ticket is not valid.", 409: "Another answer has this id."}
SIGNED = {200: "The signature.", 403: "The code is not valid."}

Taken = TypeVar("Taken")
Handler = Callable[[SurveyDesk, Asked], Awaitable[tuple[int, bytes]]]


class Route(NamedTuple):
    """What is answered at an address below that of a survey; `path` is what metrics count requests by."""

    path: str
    method: str
    handler: Handler
    operation: dict[str, Any]


ROUTES: dict[str, Route] = {}  # by what follows the survey in the address


def _answers(
    method: str,
    rest: str,
    answers: dict[int, str],
    body: type[msgspec.Struct] | None = None,
    parameter: dict[str, Any] | None = None,
) -> Callable[[Handler], Handler]:
    """Put a handler among the routes, described for the API by its docstring: no framework reads that off the code."""
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorMessage"}}}
    good = {"application/json": {"schema": {"type": "object"}}}

    def add(handler: Handler) -> Handler:
        operation: dict[str, Any] = {
            "summary": (handler.__doc__ or "").rstrip("."),
            "tags": ["surveys"],
            "parameters": [SURVEY, *([] if parameter is None else [parameter])],
            "responses": {
                str(code): {"description": words, "content": good if code < 300 else error}
                for code, words in {**answers, **ANYWHERE}.items()
            },
        }
        if body is not None:
            (schema,) = msgspec.json.schema_components([body])[1].values()
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
        ROUTES[rest] = Route(f"{PREFIX}{{survey_id}}/{rest}".rstrip("/"), method, handler, operation)
        return handler

    return add


def described() -> dict[str, Any]:
    return {route.path: {route.method.lower(): route.operation} for route in ROUTES.values()}


@_answers("GET", "inquiry", {200: "Version, k, head."})
async def inquiry(desk: SurveyDesk, _: Asked) -> tuple[int, bytes]:
    """Round 1: the present level k*."""
    return 200, desk.inquiry


@_answers("POST", "ready", {200: "V.", **BAD}, ReadyMessage)
async def ready(desk: SurveyDesk, asked: Asked) -> tuple[int, bytes]:
    """Round 2: guidance of a version."""
    try:
        version = msgspec.json.decode(await asked.body(), type=ReadyMessage).version
    except msgspec.MsgspecError:
        raise ApiError(422, "malformed", 'Send {"version": n}, the version that the inquiry named.') from None
    found = await desk.ready(version)
    if found is None:
        raise ApiError(404, "unknown-version", "There is no such version of the guidance. Send an inquiry again.")
    return 200, found


async def _taken(desk: SurveyDesk, take: Callable[[bytes], Awaitable[Taken]], asked: Asked) -> Taken:
    if not desk.is_open():
        raise ApiError(410, "closed", "The survey is closed and accepts no more answers.")
    try:
        return await take(await asked.body())
    except AnswerError as error:
        raise ApiError(403 if error.code == BAD_TICKET else 422, error.code, str(error)) from None


@_answers("POST", "answers", {**TAKEN, **OVER, **BAD}, SentAnswer)
async def answer(desk: SurveyDesk, asked: Asked) -> tuple[int, bytes]:
    """Count one perturbed answer."""
    kept, outcome = await _taken(desk, desk.take, asked)
    if outcome == DIFFERENT:
        raise ApiError(409, "other-answer", "Another answer has this id. Every answer needs its own 128 random bits.")
    return 201 if outcome == NEW else 200, b'{"id":"%s"}' % spelled(kept.id).encode()


@_answers("POST", "tickets", {**SIGNED, **OVER, **BAD}, TicketAsked)
async def ticket(desk: SurveyDesk, asked: Asked) -> tuple[int, bytes]:
    """Exchange an invitation for the signature of a blinded name."""
    if desk.tickets is None:
        raise ApiError(404, "no-invitations", "This survey needs no invitation. Answer it without a ticket.")
    signed = await _taken(desk, desk.tickets.exchange, asked)
    if signed is None:
        raise ApiError(403, "bad-code", "The code of this invitation is unknown or already used.")
    return 200, signed


@_answers("GET", "", {200: "The survey."})
async def describe(desk: SurveyDesk, _: Asked) -> tuple[int, bytes]:
    """What is asked, by whom, until when."""
    survey, asked = desk.survey, desk.survey.to_dict()
    found = {"id": desk.study, "hash": survey.hash, "state": OPEN if desk.is_open() else CLOSED}
    return 200, msgspec.json.encode(found | {"closes": survey.closes, "survey": asked, "file": canonical_json(asked)})


@_answers("GET", "log", {200: "Entries.", **UNLIKE}, parameter=AFTER)
async def log(desk: SurveyDesk, asked: Asked) -> tuple[int, bytes]:
    """The log of guidance."""
    text = parse_qs(asked.scope["query_string"].decode("latin-1")).get("after", ["0"])[-1]
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ApiError(422, "malformed", "`after` must be the number of a version, 0 for the beginning.")
    entries = await desk.in_thread(desk.store.log, desk.study, int(text), PAGE)
    return 200, msgspec.json.encode({"entries": [entry.to_dict() for entry, _ in entries]})


@_answers("GET", "log/{version}/inputs", {200: "Counts."}, parameter=VERSION)
async def inputs(desk: SurveyDesk, asked: Asked) -> tuple[int, bytes]:
    """Counts behind a version."""
    version = int(asked.rest.split("/")[1])
    found = await desk.in_thread(desk.store.version, desk.study, version) if version <= desk.head.version else None
    if found is None:
        raise ApiError(404, "unknown-version", "There is no such version of the guidance.")
    return 200, found.inputs.encode("ascii")


@_answers("GET", "head", {200: "Survey, version, hash."})
async def head(desk: SurveyDesk, _: Asked) -> tuple[int, bytes]:
    """The newest entry, for witnesses."""
    return 200, msgspec.json.encode(Head(desk.survey.hash, desk.head.version, desk.head.hash).to_dict())


_INPUTS = re.compile(r"log/[0-9]{1,18}/inputs")


async def survey_app(desks: SurveyDesks, scope: Scope, receive: Receive, send: Send) -> None:
    """Finds the survey, limits the client, and answers; what it cannot answer it raises, for the shell to word."""
    try:
        survey, _, rest = path_of(scope)[len(PREFIX) :].partition("/")
        shape = "log/{version}/inputs" if _INPUTS.fullmatch(rest) else rest
        scope["route"] = route = there(ROUTES.get(shape), "page")
        allowed = ("GET", "HEAD", "OPTIONS") if route.method == "GET" else (route.method, "OPTIONS")
        if scope["method"] not in allowed:
            raise shell.wrong_method(allowed)
        if scope["method"] == "OPTIONS":
            await Response(status_code=204, headers=PREFLIGHT)(scope, receive, send)
            return
        client = scope.get("client")
        if seconds := desks.too_many(client[0] if client else ""):
            raise shell.busy(seconds)
        desk = there(await desks.find(survey[:64]), "survey")
        status, body = await route.handler(desk, Asked(scope, receive, rest))
    except Exception as error:
        refusal = error if isinstance(error, ApiError) else desks.note(error)
        refusal.headers = {**OPEN_TO_ALL, **(refusal.headers or {})}
        raise refusal from None
    headers = [*_JSON, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers, shell.DRESSED: True})
    await send({"type": "http.response.body", "body": body})
