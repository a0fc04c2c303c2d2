"""Pages for people: sign in, look at a study and its models, download."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from sfumato.study.protocol.messages import StudyInfo
from sfumato.study.server.access import Ctx, authenticate, seen_by
from sfumato.study.server.context import Context
from sfumato.study.server.problems import ApiError, not_found
from sfumato.study.server.routes.densities import DensityId, density_table
from sfumato.study.server.routes.models import ModelId, model_file
from sfumato.study.server.store import Caller
from sfumato.study.server.store.token_store import OWNER
from sfumato.study.server.web.density_part import densities_shown
from sfumato.study.server.web.model_pages import model_page
from sfumato.study.server.web.pool_page import DONE, models_shown, pool_page
from sfumato.study.server.web.rendering import (
    COOKIE,
    HEADERS,
    ROOT,
    STATIC,
    Form,
    OwningVisitor,
    SignInError,
    Visitor,
    end_session,
    page,
    signed_in,
    start_session,
    static_file,
)
from sfumato.study.server.web.survey_page import survey_page

router = APIRouter(include_in_schema=False)

KINDS: dict[str, Callable[..., HTMLResponse]] = {"pool": pool_page, "survey": survey_page}
"""The page of each kind of study; called with request, context, caller, study and a flash."""


@router.get("/")
def front(request: Request, context: Ctx) -> Response:
    """The form to sign in, or on to the study."""
    caller = signed_in(request, context)
    if caller is not None:
        return RedirectResponse(f"{ROOT.get()}/studies/{caller.study}", 303, HEADERS)
    return _sign_in_form(context)


def _sign_in_form(context: Context, problem: str = "", status: int = 200) -> HTMLResponse:
    return page("sign_in", status, caller=None, problem=problem, hours=f"{context.settings.session_hours:g}")


@router.post("/sign-in")
def sign_in(request: Request, context: Ctx, sent: Form) -> Response:
    token = sent.get("token", "").strip()
    try:
        caller = authenticate(request, context, token)
    except ApiError as error:
        return _sign_in_form(context, str(error.detail), error.status_code)
    session = context.store.tokens.open_session(token, context.settings.session_hours)
    if session is None:  # it was revoked this moment
        return _sign_in_form(context, SignInError().detail, 401)
    response = RedirectResponse(f"{ROOT.get()}/studies/{caller.study}", 303, HEADERS)
    start_session(response, session, request, context.settings.session_hours)
    return response


@router.post("/sign-out")
def sign_out(request: Request, context: Ctx, _: Form) -> Response:
    context.store.tokens.close_session(request.cookies.get(COOKIE, ""))
    response = RedirectResponse(f"{ROOT.get()}/", 303, HEADERS)
    end_session(response, request)
    return response


@router.get("/studies/{study_id}")
def show_study(
    request: Request, context: Ctx, caller: Visitor, done: Annotated[str, Query(max_length=20)] = ""
) -> HTMLResponse:
    study = study_of(context, caller)
    return study_page(request, context, caller, study, flash=DONE.get(done))


def study_of(context: Context, caller: Caller) -> StudyInfo:
    found = context.store.studies.find(caller.study)
    if found is None:
        raise not_found("study")
    return found


def study_page(request: Request, context: Context, caller: Caller, study: StudyInfo, **more: object) -> HTMLResponse:
    """The page of the study's kind; what is agreed, for a kind that has none."""
    if study.kind in KINDS:
        return KINDS[study.kind](request, context, caller, study, **more)
    return page("plain", caller=caller, study=study, flash=None, asked=[])


@router.get("/studies/{study_id}/models-part")
def show_models(context: Ctx, caller: Visitor) -> HTMLResponse:
    """The part of the page that is fetched again while something is trained."""
    return page("models", study=study_of(context, caller), models=models_shown(context, caller))


@router.get("/studies/{study_id}/models/{model_id}")
def show_model(model_id: ModelId, context: Ctx, caller: Visitor) -> HTMLResponse:
    found = context.store.models.find(caller.study, model_id)
    if found is None:
        raise not_found("model")
    return model_page(caller, study_of(context, caller), seen_by(caller, found), owner=caller.role == OWNER)


@router.get("/studies/{study_id}/models/{model_id}/file")
def save_model(model_id: ModelId, context: Ctx, caller: Visitor) -> FileResponse:
    return model_file(model_id, caller, context)


@router.get("/studies/{study_id}/densities-part")
def show_densities(context: Ctx, caller: OwningVisitor) -> HTMLResponse:
    """The part of the page that is fetched again while something is reconstructed."""
    return page("densities", study=study_of(context, caller), densities=densities_shown(context, caller.study))


@router.get("/studies/{study_id}/densities/{density_id}/file")
def save_density(density_id: DensityId, context: Ctx, caller: OwningVisitor) -> Response:
    return density_table(density_id, caller, context)


@router.get("/static/{name}")
def show_static(name: str) -> Response:
    if name not in STATIC:
        raise not_found("file")
    return Response(static_file(name), media_type=STATIC[name], headers={"Cache-Control": "no-cache"})
