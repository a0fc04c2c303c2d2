"""Pages for people: sign in, look at a study and its models, download."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse, Response

from sfumato.core.errors import SfumatoError
from sfumato.reconstruction.density import from_plain
from sfumato.study.protocol.messages import ALL_SITES, DONE
from sfumato.study.server.context import Context, Ctx, authenticate
from sfumato.study.server.routes import studies
from sfumato.study.server.routes.studies import DensityId, ModelId
from sfumato.study.server.settings import Certificate
from sfumato.study.server.shell import ApiError, not_found
from sfumato.study.server.store import Caller
from sfumato.study.server.web import rendering, study_pages
from sfumato.study.server.web.rendering import HEADERS, ROOT, AnyVisit, Form, OwnersVisit, Visit, page
from sfumato.study.server.web.study_pages import Flash, study_page
from sfumato.table.writers import write_lines

router = APIRouter(include_in_schema=False)


@router.get("/")
def front(request: Request, context: Ctx) -> Response:
    """The form to sign in, or on to the study."""
    caller = rendering.signed_in(request, context)
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
        return _sign_in_form(context, rendering.signed_out().detail, 401)
    response = RedirectResponse(f"{ROOT.get()}/studies/{caller.study}", 303, HEADERS)
    rendering.set_session(response, request, session, context.settings.session_hours * 3600)
    return response


@router.post("/sign-out")
def sign_out(request: Request, context: Ctx, _: Form) -> Response:
    context.store.tokens.close_session(request.cookies.get(rendering.COOKIE, ""))
    response = RedirectResponse(f"{ROOT.get()}/", 303, HEADERS)
    rendering.set_session(response, request, "", 0)
    return response


@router.get("/studies/{study_id}")
def show_study(visit: AnyVisit, done: Annotated[str, Query(max_length=20)] = "") -> HTMLResponse:
    return study_page(visit, study_pages.AFTERWARDS.get(done))


@router.get("/studies/{study_id}/models-part")
def show_models(visit: AnyVisit) -> HTMLResponse:
    """The part of the page that is fetched again while something is trained."""
    return page("models", study=visit.study, models=study_pages.models_shown(visit))


@router.get("/studies/{study_id}/models/{model_id}")
def show_model(model_id: ModelId, visit: AnyVisit) -> HTMLResponse:
    return study_pages.model_page(visit, studies.read_model(model_id, visit.caller, visit.context))


@router.get("/studies/{study_id}/models/{model_id}/file")
def save_model(model_id: ModelId, visit: AnyVisit) -> FileResponse:
    return studies.download_model(model_id, visit.caller, visit.context)


@router.get("/studies/{study_id}/densities-part")
def show_densities(visit: OwnersVisit) -> HTMLResponse:
    """The part of the page that is fetched again while something is reconstructed."""
    return page(
        "densities", study=visit.study, densities=study_pages.densities_shown(visit.context, visit.caller.study)
    )


@router.get("/studies/{study_id}/densities/{density_id}/file")
def save_density(density_id: DensityId, visit: OwnersVisit) -> Response:
    """The cells of one as a CSV file."""
    density = studies.read_density(density_id, visit.caller, visit.context)
    if density.state != DONE or density.found is None:
        raise ApiError(409, "not-ready", "This density is not reconstructed yet, or reconstructing it failed.")
    text = io.BytesIO()
    write_lines(from_plain(density.found).table(), text, header=True, separator=",")
    saved = {"Content-Disposition": f'attachment; filename="density-{density.id}.csv"'}
    return Response(text.getvalue(), media_type="text/csv", headers=saved)


@router.get("/static/{name}")
def show_static(name: str) -> Response:
    if name not in rendering.STATIC:
        raise not_found("file")
    file = rendering.FOLDER.joinpath("static", name).read_bytes()
    return Response(file, media_type=rendering.STATIC[name], headers={"Cache-Control": "no-cache"})


Wished = TypeVar("Wished")


def _carried_out(
    visit: Visit, carry_out: Callable[[Wished, Caller, Context], object], wished: Wished, done: str, part: str
) -> Response:
    """Do what a form wishes, and send the browser back to the page, which may be loaded again; where it is refused, the
    page says why."""
    try:
        carry_out(wished, visit.caller, visit.context)
    except ApiError as error:
        return study_page(visit, Flash("bad", str(error.detail)), error.status_code)
    return _back(visit, done, part)


def _back(visit: Visit, done: str, part: str) -> Response:
    return RedirectResponse(f"{ROOT.get()}/studies/{visit.caller.study}?done={done}#{part}", 303, HEADERS)


@router.post("/studies/{study_id}/train")
def train(visit: OwnersVisit, sent: Form) -> Response:
    wished = studies.Training.model_construct(classifier=sent.get("classifier", ""), sites=sent.get("sites", ALL_SITES))
    return _carried_out(visit, studies.train_model, wished, "training", "models")


@router.post("/studies/{study_id}/reconstruct")
def reconstruct_column(visit: OwnersVisit, sent: Form) -> Response:
    wished = studies.Wish.model_construct(column=sent.get("column", ""))
    return _carried_out(visit, studies.reconstruct, wished, "reconstructing", "densities")


@router.post("/studies/{study_id}/revoke")
def revoke(visit: OwnersVisit, sent: Form) -> Response:
    return _carried_out(visit, studies.revoke_site, sent.get("site", ""), "revoked", "sites")


@router.post("/studies/{study_id}/withdraw")
def withdraw(visit: AnyVisit, sent: Form) -> Response:
    return _carried_out(visit, studies.withdraw_release, sent.get("sha256", ""), "withdrawn", "releases")


@router.post("/studies/{study_id}/invite")
def invite(visit: OwnersVisit, sent: Form) -> Response:
    """The token is in this answer and nowhere else: there is no page to come back to it."""
    name, days = sent.get("name", "").strip(), sent.get("days", "")
    try:
        invited = visit.context.store.sites.invite(visit.caller.study, name, int(days) if days.isdigit() else 365)
    except SfumatoError as error:
        return study_page(visit, Flash("bad", str(error)), 422)
    certificate = Certificate.of(visit.context.settings)
    pin = certificate.pin if certificate else ""
    return visit.page("invited", invited=invited, address=str(visit.request.base_url).rstrip("/") + pin)


@router.post("/studies/{study_id}/codes")
def make_codes(visit: OwnersVisit, sent: Form) -> Response:
    """The codes are in this answer and nowhere else."""
    studies.survey_of(visit.context, visit.caller.study)
    number = sent.get("number", "")
    if not number.isdecimal() or not 1 <= int(number[:9]) <= studies.MOST_CODES:
        return study_page(visit, Flash("bad", f"Ask for 1 to {studies.MOST_CODES:,} codes."), 422)
    return visit.page("codes", codes=visit.context.store.surveys.codes.add(visit.caller.study, int(number)))


@router.post("/studies/{study_id}/close")
def close_survey(visit: OwnersVisit, sent: Form) -> Response:  # noqa: ARG001 - read for its token
    studies.close(visit.caller, visit.context)
    return _back(visit, "closed", "answers")


@router.get("/studies/{study_id}/export")
def save_bits(visit: OwnersVisit) -> Response:
    return studies.export(visit.caller, visit.context)
