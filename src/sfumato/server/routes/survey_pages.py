"""What the owner does on the page of a survey: make codes, and save the received bits."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from sfumato.server.access import Ctx
from sfumato.server.routes.pages import study_of, study_page
from sfumato.server.routes.survey_owner import MOST_CODES, export, survey_of
from sfumato.server.web.answers import page
from sfumato.server.web.pool_page import Flash
from sfumato.server.web.session import Form, OwningVisitor

router = APIRouter(prefix="/studies/{study_id}", include_in_schema=False)


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


@router.get("/export")
def save_bits(context: Ctx, caller: OwningVisitor) -> Response:
    return export(caller, context)
