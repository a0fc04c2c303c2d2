"""Pages as answers: their headers, and refusals that a person reads in place of those for programs."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse

from sfumato.server.problems import ApiError
from sfumato.server.web.render import ROOT, render

HEADERS = {"Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
"""Browsers name no origin for forms of pages that have `no-referrer`."""
TITLES = {
    400: "That cannot be read",
    401: "Signed out",
    403: "Not allowed",
    404: "Nothing here",
    405: "Not that way",
    409: "Not now",
    413: "Too large",
    421: "Another name",
    422: "Not quite",
    429: "Too many at once",
    500: "The server made a mistake",
    503: "The database is away",
    507: "The disk is full",
}


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(render(template, **values), status, HEADERS)


def address_of(request: Request) -> str:
    """Where people reach this server, mounted or not, without a slash at the end."""
    return str(request.url.replace(path=ROOT.get(), query="", fragment="")).rstrip("/")


def error_page(request: Request, error: ApiError) -> HTMLResponse | None:
    """The refusal as a page, where a browser asked for one; None where a program did."""
    wanted = "text/html" in request.headers.get("accept", "")
    if not wanted or request.scope["path"].removeprefix(ROOT.get()).startswith(("/api/", "/survey/")):
        return None
    signed_out = error.status_code == 401
    response = page(
        "error",
        error.status_code,
        caller=None,
        code=error.status_code,
        title=TITLES.get(error.status_code, "That did not work"),
        message=str(error.detail),
        request_id=request.state.request_id if error.status_code >= 500 else "",
        back=f"{ROOT.get()}/",
        back_words="Sign in" if signed_out else "Back to the start",
    )
    for name, value in (error.headers or {}).items():
        response.headers[name] = value
    return response
