"""The routes of `survey_app` as the API describes them; no framework reads them off the code."""

from __future__ import annotations

from typing import Any

PREFIX = "/api/v1/surveys/{survey_id}"


def described() -> dict[str, Any]:
    """Paths of the API's description."""
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
            "bits": {
                "type": "array",
                "items": integer,
                "description": "Numbers of the bits that are 1, in ascending order.",
            },
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
            503: "Try again later.",
        }
        found["responses"] = {
            str(code): {"description": words, "content": good if code < 300 else error}
            for code, words in statuses.items()
        }
        if body is not None:
            found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
        return found

    bad = {
        413: "The body is too large.",
        422: "The request does not match this description.",
        408: "The client sent nothing for too long.",
    }
    taken = {
        201: "Counted.",
        200: "Already counted.",
        403: "The ticket is not valid.",
        409: "Another answer has this id.",
    }
    return {
        PREFIX: {"get": operation("What is asked, by whom, until when", {200: "The survey."})},
        f"{PREFIX}/inquiry": {"get": operation("Round 1: the present level k*", {200: "Version, k, head."})},
        f"{PREFIX}/ready": {"post": operation("Round 2: guidance of a version", {200: "V.", **bad}, body_ready)},
        f"{PREFIX}/tickets": {
            "post": operation(
                "Exchange an invitation for the signature of a blinded name",
                {200: "The signature.", 403: "The code is not valid.", 410: "The survey is closed.", **bad},
                body_ticket,
            )
        },
        f"{PREFIX}/answers": {
            "post": operation("Count one perturbed answer", {**taken, 410: "The survey is closed.", **bad}, body_answer)
        },
        f"{PREFIX}/log": {
            "get": operation(
                "The log of guidance",
                {200: "Entries.", 422: "The request does not match this description."},
                more=(after,),
            )
        },
        f"{PREFIX}/log/{{version}}/inputs": {
            "get": operation("Counts behind a version", {200: "Counts."}, more=(version,))
        },
        f"{PREFIX}/head": {"get": operation("The newest entry, for witnesses", {200: "Survey, version, hash."})},
    }
