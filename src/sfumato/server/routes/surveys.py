"""What anybody may ask of a survey: what it is, its public log, the newest entry; see docs/survey-protocol.md.

Any page may call these routes: they know no cookie and no token. The requests of every respondent are answered in
`sfumato.server.survey.quick`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.protocol.canonical import canonical_json
from sfumato.server.problems import ApiError, busy, not_found
from sfumato.server.survey.desk import SurveyDesk
from sfumato.server.survey.desks import SurveyDesks
from sfumato.server.survey.quick import HANDLERS, OPEN_TO_ALL

PREFIX = "/api/v1/surveys/{survey_id}"
PAGE = 1000  # entries of the log in one answer
Handler = Callable[[Request, SurveyDesk], Awaitable[Response]]


class Template(NamedTuple):
    """A route as it is written down, without the survey's id."""

    path: str


def _json(content: bytes, status: int = 200) -> Response:
    return Response(content, status, OPEN_TO_ALL, "application/json")


def _at_desk(template: Template, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    """Find the survey, limit the client, and word the refusals."""

    async def route(request: Request) -> Response:
        request.scope["route"] = template  # what the metrics count it by
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=OPEN_TO_ALL)
        desks: SurveyDesks = request.app.state.surveys
        try:
            seconds = desks.too_many(request.client.host if request.client else "")
            if seconds:
                raise busy(seconds)
            desk = await desks.find(request.path_params["survey_id"][:64])
            if desk is None:
                raise not_found("survey")
            return await handler(request, desk)
        except Exception as error:
            refusal = error if isinstance(error, ApiError) else desks.faults.note(error)
            refusal.headers = {**OPEN_TO_ALL, **(refusal.headers or {})}
            raise refusal from None

    return route


async def describe(request: Request, desk: SurveyDesk) -> Response:  # noqa: ARG001
    found = {
        "id": desk.study,
        "hash": desk.survey.hash,
        "state": "open" if desk.is_open() else "closed",
        "closes": desk.survey.closes,
        "survey": desk.survey.to_dict(),
        "file": canonical_json(desk.survey.to_dict()),
    }
    return _json(msgspec.json.encode(found))


async def log(request: Request, desk: SurveyDesk) -> Response:
    text = request.query_params.get("after", "0")
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ApiError(422, "malformed", "`after` must be the number of a version, 0 for the beginning.")
    entries = await desk.in_thread(desk.store.log, desk.study, int(text), PAGE)
    return _json(msgspec.json.encode({"entries": [entry.to_dict() for entry, _ in entries]}))


async def inputs(request: Request, desk: SurveyDesk) -> Response:
    version = request.path_params["version"]
    found = await desk.in_thread(desk.store.version, desk.study, version) if version <= desk.version else None
    if found is None:
        raise ApiError(404, "unknown-version", "There is no such version of the guidance.")
    return _json(found.inputs.encode("ascii"))


async def head(request: Request, desk: SurveyDesk) -> Response:  # noqa: ARG001
    found = {"survey": desk.survey.hash, "version": desk.head.version, "hash": desk.head.hash}
    return _json(msgspec.json.encode(found))


def _route(path: str, handler: Handler, *methods: str) -> Route:
    template = Template(PREFIX + path)
    return Route(template.path, _at_desk(template, handler), methods=[*methods, "OPTIONS"], name=handler.__name__)


ROUTES = [
    *(_route(f"/{name}", describe) for _, name in HANDLERS),  # for the browser's question whether it may ask
    _route("", describe, "GET"),
    _route("/log", log, "GET"),
    _route("/log/{version:int}/inputs", inputs, "GET"),
    _route("/head", head, "GET"),
]


def described() -> dict[str, Any]:
    """The same routes for the API's description."""
    survey = {
        "name": "survey_id",
        "in": "path",
        "required": True,
        "schema": {"type": "string", "maxLength": 64},
        "description": "Id of a survey.",
    }
    version = {"name": "version", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 0}}
    after = {"name": "after", "in": "query", "schema": {"type": "integer", "minimum": 0, "maximum": 999_999_999}}
    integer = {"type": "integer"}
    body_answer = {
        "type": "object",
        "additionalProperties": False,
        "required": ["id", "version", "label", "bits"],
        "properties": {
            "id": {"type": "string", "minLength": 22, "maxLength": 22, "pattern": "^[A-Za-z0-9_-]{22}$"},
            "version": integer,
            "label": integer,
            "bits": {"type": "array", "items": integer, "description": "Numbers of the bits that are 1, ascending."},
            "ticket": {"type": ["string", "null"]},
        },
    }
    number = {"type": "string", "minLength": 342, "maxLength": 342, "pattern": "^[A-Za-z0-9_-]{342}$"}
    body_ticket = {
        "type": "object",
        "additionalProperties": False,
        "required": ["code", "blinded"],
        "properties": {"code": {"type": "string", "minLength": 1, "maxLength": 64}, "blinded": number},
    }
    body_ready = {
        "type": "object",
        "additionalProperties": False,
        "required": ["version"],
        "properties": {"version": integer},
    }

    def operation(summary: str, statuses: dict[int, str], body: Any = None, more: tuple[Any, ...] = ()) -> Any:
        found: dict[str, Any] = {"summary": summary, "tags": ["surveys"], "parameters": [survey, *more]}
        error = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorMessage"}}}
        good = {"application/json": {"schema": {"type": "object"}}}
        statuses = {
            **statuses,
            404: "There is no such survey or version.",
            429: "Too many requests.",
            503: "Try later.",
        }
        found["responses"] = {
            str(code): {"description": words, "content": good if code < 300 else error}
            for code, words in statuses.items()
        }
        if body is not None:
            found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
        return found

    bad = {413: "The body is too large.", 422: "Not as described.", 408: "Nothing came for too long."}
    taken = {
        201: "Counted.",
        200: "Counted before.",
        403: "The ticket is not good.",
        409: "Another answer has this id.",
    }
    return {
        PREFIX: {"get": operation("What is asked, by whom, until when", {200: "The survey."})},
        f"{PREFIX}/inquiry": {"get": operation("Round 1: the level k* at present", {200: "Version, k, head."})},
        f"{PREFIX}/ready": {"post": operation("Round 2: guidance of a version", {200: "V.", **bad}, body_ready)},
        f"{PREFIX}/tickets": {
            "post": operation(
                "Exchange an invitation for the signature of a blinded name",
                {200: "The signature.", 403: "The code is not good.", 410: "The survey is closed.", **bad},
                body_ticket,
            )
        },
        f"{PREFIX}/answers": {
            "post": operation("Count one perturbed answer", {**taken, 410: "The survey is closed.", **bad}, body_answer)
        },
        f"{PREFIX}/log": {
            "get": operation("The log of guidance", {200: "Entries.", 422: "Not as described."}, more=(after,))
        },
        f"{PREFIX}/log/{{version}}/inputs": {
            "get": operation("Counts behind a version", {200: "Counts."}, more=(version,))
        },
        f"{PREFIX}/head": {"get": operation("The newest entry, for witnesses", {200: "Survey, version, hash."})},
    }
