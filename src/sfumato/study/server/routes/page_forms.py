"""What the forms of the pages do: train, reconstruct, invite, revoke, withdraw, make codes, close a survey, save
the received bits.

Nearly all of them end on a page that may be loaded again; tokens and codes are shown once.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from sfumato.core.errors import SfumatoError
from sfumato.study.protocol.messages import ALL_SITES
from sfumato.study.server.access import Ctx
from sfumato.study.server.context import Context
from sfumato.study.server.problems import ApiError
from sfumato.study.server.routes.densities import queue_density
from sfumato.study.server.routes.models import queue_training
from sfumato.study.server.routes.pages import study_of, study_page
from sfumato.study.server.routes.releases import withdraw_release
from sfumato.study.server.routes.studies import revoke_site
from sfumato.study.server.routes.survey_owner import MOST_CODES, close, export, survey_of
from sfumato.study.server.store import Caller
from sfumato.study.server.web.pool_page import Flash
from sfumato.study.server.web.rendering import HEADERS, ROOT, Form, OwningVisitor, Visitor, page

router = APIRouter(prefix="/studies/{study_id}", include_in_schema=False)


def _back(caller: Caller, done: str, part: str) -> Response:
    return RedirectResponse(f"{ROOT.get()}/studies/{caller.study}?done={done}#{part}", 303, HEADERS)


def _again(request: Request, context: Context, caller: Caller, error: Exception) -> Response:
    """The page once more, with what was wrong."""
    words, status = (str(error.detail), error.status_code) if isinstance(error, ApiError) else (str(error), 422)
    return study_page(request, context, caller, study_of(context, caller), flash=Flash("bad", words), status=status)


@router.post("/train")
def train(request: Request, context: Ctx, caller: OwningVisitor, sent: Form) -> Response:
    try:
        queue_training(sent.get("classifier", ""), caller, context, sent.get("sites", ALL_SITES))
    except ApiError as error:
        return _again(request, context, caller, error)
    return _back(caller, "training", "models")


@router.post("/reconstruct")
def reconstruct(request: Request, context: Ctx, caller: OwningVisitor, sent: Form) -> Response:
    try:
        queue_density(sent.get("column", ""), caller, context)
    except ApiError as error:
        return _again(request, context, caller, error)
    return _back(caller, "reconstructing", "densities")


@router.post("/invite")
def invite(request: Request, context: Ctx, caller: OwningVisitor, sent: Form) -> Response:
    """The token is in this answer and nowhere else: there is no page to come back to it."""
    days = sent.get("days", "")
    try:
        invited = context.store.sites.invite(
            caller.study, sent.get("name", "").strip(), int(days) if days.isdigit() else 365
        )
    except SfumatoError as error:
        return _again(request, context, caller, error)
    address = str(request.base_url).rstrip("/")
    return page("invited", caller=caller, study=study_of(context, caller), invited=invited, address=address)


@router.post("/revoke")
def revoke(request: Request, context: Ctx, caller: OwningVisitor, sent: Form) -> Response:
    try:
        revoke_site(sent.get("site", ""), caller, context)
    except ApiError as error:
        return _again(request, context, caller, error)
    return _back(caller, "revoked", "sites")


@router.post("/withdraw")
def withdraw(request: Request, context: Ctx, caller: Visitor, sent: Form) -> Response:
    try:
        withdraw_release(sent.get("sha256", ""), caller, context)
    except ApiError as error:
        return _again(request, context, caller, error)
    return _back(caller, "withdrawn", "releases")


@router.post("/codes")
def make_codes(request: Request, context: Ctx, caller: OwningVisitor, sent: Form) -> Response:
    """The codes are in this answer and nowhere else."""
    survey_of(context, caller.study)
    study, number = study_of(context, caller), sent.get("number", "")
    if not number.isdecimal() or not 1 <= int(number[:9]) <= MOST_CODES:
        flash = Flash("bad", f"Ask for 1 to {MOST_CODES:,} codes.")
        return study_page(request, context, caller, study, flash=flash, status=422)
    codes = context.store.surveys.codes.add(caller.study, int(number))
    return page("codes", caller=caller, study=study, codes=codes)


@router.post("/close")
def close_survey(context: Ctx, caller: OwningVisitor, sent: Form) -> Response:  # noqa: ARG001 - read for its token
    close(caller, context)
    return _back(caller, "closed", "answers")


@router.get("/export")
def save_bits(context: Ctx, caller: OwningVisitor) -> Response:
    return export(caller, context)
