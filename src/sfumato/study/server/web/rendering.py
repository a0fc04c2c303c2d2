"""Templates to pages, and pages as answers: everything is escaped, and nothing is loaded from another server."""

from __future__ import annotations

import hashlib
import json
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qsl

import jinja2
from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from sfumato.auditing.report.markup import templates
from sfumato.core.web import is_own_origin
from sfumato.guarantee.rounding import epsilon_at_most
from sfumato.study.protocol.messages import StudyInfo
from sfumato.study.server.context import Context, Ctx, StudyId
from sfumato.study.server.shell import STATUSES, ApiError, busy, forbidden, not_found, there
from sfumato.study.server.store import Caller
from sfumato.study.server.store.token_store import OWNER
from sfumato.study.server.web.charts import percent

FOLDER = files("sfumato.study.server.web")
COOKIE = "sfumato-session"  # a random id in it stands for a token
MOST_FIELDS = 10


def signed_out() -> ApiError:
    """There is no session, or it has ended."""
    return ApiError(401, "signed-out", "You are not signed in, or your session has ended. Sign in again.")


def signed_in(request: Request, context: Context) -> Caller | None:
    """The caller of a session that still lasts, within the rates of her token."""
    found = context.store.tokens.session(request.cookies.get(COOKIE, ""))
    if found is None:
        return None
    if seconds := context.token_rates.wait(found.token) or context.study_rates.wait(found.study):
        raise busy(seconds)
    request.state.caller = found
    return found


@dataclass(frozen=True)
class Visit:
    """A signed-in owner or site at a page of its study."""

    request: Request
    context: Context
    caller: Caller

    @property
    def owns(self) -> bool:
        return self.caller.role == OWNER

    @cached_property
    def study(self) -> StudyInfo:
        return there(self.context.store.studies.find(self.caller.study), "study")

    @property
    def address(self) -> str:
        """Where people reach this server, mounted or not, without a slash at the end."""
        return str(self.request.url.replace(path=ROOT.get(), query="", fragment="")).rstrip("/")

    def page(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        return page(template, status, caller=self.caller, study=self.study, **values)


def visit(request: Request, context: Ctx, study_id: StudyId) -> Visit:
    """A page of a study is asked for: 401 without a session, 404 for what belongs to another study."""
    found = signed_in(request, context)
    if found is None:
        raise signed_out()
    if found.study != study_id:
        raise not_found("study")
    return Visit(request, context, found)


def owners_visit(found: Annotated[Visit, Depends(visit)]) -> Visit:
    if not found.owns:
        raise forbidden("the owner of the study")
    return found


async def form(request: Request) -> dict[str, str]:
    """The fields of a form that one of our own pages sent; anything else is refused unread. Browsers say from which
    page a form comes. A form of another site is refused, whatever cookie comes with it."""
    origin = request.headers.get("origin")
    own = origin is None and request.headers.get("sec-fetch-site") == "same-origin"
    if not own and (origin is None or not is_own_origin(origin, request.headers.get("host"))):
        raise ApiError(403, "foreign-form", "This form was not sent by a page of this server. Open the page again.")
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
        raise ApiError(415, "not-a-form", "This address accepts only forms from these pages.")
    try:
        body = (await request.body()).decode("ascii")
        return dict(parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"))
    except ValueError:
        raise ApiError(400, "bad-form", "The form cannot be read.") from None


def set_session(response: Response, request: Request, session: str, seconds: float) -> None:
    """Begin a session at the browser, or with no seconds end it."""
    safe = request.url.scheme == "https"
    response.set_cookie(COOKIE, session, int(seconds), path="/", httponly=True, samesite="strict", secure=safe)


AnyVisit = Annotated[Visit, Depends(visit)]
OwnersVisit = Annotated[Visit, Depends(owners_visit)]
Form = Annotated[dict[str, str], Depends(form)]


STATIC = {
    "page.css": "text/css; charset=utf-8",
    "fresh.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""All files that pages load, with their types."""
HEADERS = {"Referrer-Policy": "same-origin", "Cache-Control": "no-store"}
"""Browsers name no origin for forms of pages that have `no-referrer`."""
ROOT: ContextVar[str] = ContextVar("root", default="")
"""Where a foreign app has mounted this one, for example /study: every address on a page begins with it."""


@cache
def environment() -> jinja2.Environment:
    made = templates(
        "sfumato.study.server.web",
        thousands="{:,}".format,
        short_hash=lambda text: text.removeprefix("sha256:")[:12],  # enough of a content hash to tell them apart by eye
        share=percent,
        epsilon_at_most=epsilon_at_most,
    )
    made.globals["root"] = ROOT.get
    return made


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(environment().get_template(f"{template}.html.j2").render(**values), status, HEADERS)


def error_page(request: Request, error: ApiError) -> HTMLResponse | None:
    """The refusal as a page, where a browser asked for one; None where a program did."""
    wanted = "text/html" in request.headers.get("accept", "")
    if not wanted or request.scope["path"].removeprefix(ROOT.get()).startswith(("/api/", "/survey/")):
        return None
    response = page(
        "error",
        error.status_code,
        caller=None,
        code=error.status_code,
        title=STATUSES.get(error.status_code, ("That did not work", ""))[0],
        message=str(error.detail),
        request_id=request.state.request_id if error.status_code >= 500 else "",
        back=f"{ROOT.get()}/",
        back_words="Sign in" if error.status_code == 401 else "Back to the start",
    )
    response.headers.update(error.headers or {})
    return response


# The respondent's page: files that the server sends, with the policy that a browser holds it to.

HASHES = "page_hashes.json"


def page_files() -> dict[str, bytes]:
    """Name -> content, in the order of names."""
    folder = FOLDER.joinpath("survey")
    return {item.name: item.read_bytes() for item in sorted(folder.iterdir(), key=lambda item: item.name)}


def page_hash(found: dict[str, bytes]) -> str:
    """By which anybody recognises the published one: `LC_ALL=C sha256sum * | sha256sum` says it in the folder."""
    lines = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(found.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def published_hashes() -> dict[str, Any]:
    """`released`: version -> hash of its page; `current`: of the files that this package was built from."""
    read: dict[str, Any] = json.loads(FOLDER.joinpath(HASHES).read_text(encoding="utf-8"))
    return read


def write_page(folder: Path) -> None:
    """Copy the page into an existing folder: plain files, to be served by anybody from anywhere."""
    for name, content in page_files().items():
        (folder / name).write_bytes(content)


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' https:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""Witnesses are asked over https; nothing else leaves."""


class RespondentFiles(StaticFiles):
    """The static folder that a respondent's browser runs."""

    def __init__(self) -> None:
        super().__init__(directory=str(FOLDER.joinpath("survey")), html=True)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["Cache-Control"] = "no-cache"  # asked for again, so that a mended page reaches everybody
        return response
