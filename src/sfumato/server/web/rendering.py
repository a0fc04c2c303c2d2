"""Templates to pages, and pages as answers: everything is escaped, and nothing is loaded from another server.

Where a browser asked, a refusal is a page too.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse

from sfumato.guarantee.rounding import epsilon_at_most
from sfumato.report.markup import templates
from sfumato.server.problems import ApiError
from sfumato.server.web.error_charts import percent

STATIC = {
    "page.css": "text/css; charset=utf-8",
    "fresh.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""All files that pages load, with their types."""
HEADERS = {"Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
"""Browsers name no origin for forms of pages that have `no-referrer`."""
TITLES = {
    400: "Bad request",
    401: "Signed out",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Not possible now",
    413: "Too large",
    421: "Wrong host name",
    422: "Not accepted",
    429: "Too many requests",
    500: "The server failed",
    503: "The database does not respond",
    507: "The disk is full",
}
ROOT: ContextVar[str] = ContextVar("root", default="")
"""Where a foreign app has mounted this one, for example /study: every address on a page begins with it."""


def render(template: str, **values: Any) -> str:
    return environment().get_template(f"{template}.html.j2").render(**values)


@cache
def environment() -> jinja2.Environment:
    made = templates(
        "sfumato.server.web",
        thousands="{:,}".format,
        short_hash=short_hash,
        share=percent,
        epsilon_at_most=epsilon_at_most,
    )
    made.globals["root"] = ROOT.get
    return made


@cache
def static_file(name: str) -> bytes:
    return files("sfumato.server.web").joinpath("static", name).read_bytes()


def short_hash(text: str) -> str:
    """Enough of a content hash to tell releases apart by eye."""
    return text.removeprefix("sha256:")[:12]


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
