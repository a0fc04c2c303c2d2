"""What programs ask of a study: the service, a study and its sites, releases, a survey for its owner, and what is made
of the pool: models, densities of columns, and the sum of noisy counts."""

from __future__ import annotations

import contextlib
import tempfile
import zipfile
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi import Path as Part
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import Field
from sqlalchemy.exc import SQLAlchemyError
from starlette.background import BackgroundTask

from sfumato.core.errors import SfumatoError, UsageError
from sfumato.learn.classifiers.factory import CLASSIFIERS, choose_classifier
from sfumato.mechanisms.central.scoring import NoisyScores, ScoringPlan
from sfumato.reconstruction.reconstruct import METHODS
from sfumato.study.pooling.gather import FIRST_ROUND, Pushed, add_counts
from sfumato.study.protocol import messages
from sfumato.study.protocol.messages import DONE, DensityInfo, Invited, ModelInfo, Receipt, ReleaseInfo, StudyInfo
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.server.accept_push import Push, keep_test_table
from sfumato.study.server.context import AnyCaller, Context, Ctx, Owner, Sent, Sha256, SiteCaller, check_signed, seen_by
from sfumato.study.server.shell import USUAL, ApiError, declared, not_found, there, unavailable
from sfumato.study.server.store import TestTable
from sfumato.study.server.store.sql_tables import CLOSED
from sfumato.study.server.store.store import LONGEST_DAYS
from sfumato.study.server.store.token_store import OWNER
from sfumato.study.server.survey.received import survey_progress, write_parts

service = APIRouter(tags=["service"])


@service.get("/healthz", responses=declared(503))
def healthz(context: Ctx) -> dict[str, str]:
    """200 while the database answers."""
    if not context.store.database.is_alive():
        raise unavailable()
    return {"status": "ok"}


@service.get(
    "/metrics", response_class=Response, responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
)
def metrics(context: Ctx) -> Response:
    """Counters of this process in Prometheus's text format."""
    with contextlib.suppress(SQLAlchemyError):
        context.metrics.models.set(context.store.models.waiting())
    return Response(context.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


router = APIRouter(prefix="/api/v1/studies/{study_id}", tags=["studies"], responses=USUAL)


class Invitation(Sent):
    """Who is invited, and for how long; inviting a site again ends its older token."""

    name: Annotated[str, Field(min_length=1, max_length=60, description="Letters, digits, spaces, dots, hyphens.")]
    days: Annotated[int, Field(ge=1, le=LONGEST_DAYS)] = 365


@router.get("")
def read_study(caller: AnyCaller, context: Ctx) -> StudyInfo:
    """What the study asks for; its `hash` is what sites compare with the owner by another way."""
    return there(context.store.studies.find(caller.study), "study")


@router.post("/sites", status_code=201, responses=declared(400, 403, 413))
def invite_site(invitation: Invitation, caller: Owner, context: Ctx) -> Invited:
    """Invite a site; its token is shown this once."""
    return context.store.sites.invite(caller.study, invitation.name, invitation.days)


@router.get("/sites", responses=declared(403))
def list_sites(caller: Owner, context: Ctx) -> list[messages.SiteInfo]:
    """Every site, with what it has pushed."""
    return context.store.sites.all(caller.study)


@router.delete("/sites/{name}", status_code=204, responses=declared(403))
def revoke_site(name: Annotated[str, Part(max_length=60)], caller: Owner, context: Ctx) -> None:
    """End a site's tokens. What it pushed stays, until it is withdrawn."""
    if not context.store.sites.revoke(caller.study, name):
        raise not_found("site")


# Releases: pushed, listed and withdrawn; never read back.

releases = APIRouter(prefix="/api/v1/studies/{study_id}", tags=["releases"], responses=USUAL)
MOST_RELEASES = 100  # of one page: each brings its card
PARQUET, CSV = "application/vnd.apache.parquet", "text/csv"
Signature = Annotated[
    str | None, Header(max_length=messages.LONGEST, description="Where a key is enrolled for the site: its signature.")
]
_PUSH = declared(400, 403, 408, 409, 410, 413, 507)
_PUSH[200] = {"model": Receipt, "description": "The release was pushed before; the receipt is the same."}


def _binary(*kinds: str) -> dict[str, Any]:
    body = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": dict.fromkeys(kinds, body)}}


@releases.put("/releases/{sha256}", status_code=201, responses=_PUSH, openapi_extra=_binary(PARQUET))
async def push_release(
    sha256: Sha256,
    caller: SiteCaller,
    context: Ctx,
    request: Request,
    response: Response,
    purpose: Annotated[Literal["train", "test"], Query()] = "train",
    sfumato_signed: Signature = None,
) -> Receipt:
    """Push release.parquet, its card inside. Repeating a push is safe; the receipt means that it is durable."""
    wish = messages.push_wish(caller.study, sha256, purpose)
    await to_thread.run_sync(check_signed, context, caller, wish, sfumato_signed)
    response.status_code, receipt = await Push(caller.study, caller.site or "", sha256, purpose).run(request, context)
    return receipt


@releases.get("/releases")
def list_releases(
    caller: AnyCaller,
    context: Ctx,
    limit: Annotated[int, Query(ge=1, le=MOST_RELEASES, description="How many at most.")] = MOST_RELEASES,
    after: Annotated[str | None, Query(pattern="^[0-9a-f]{64}$", description="SHA-256 of the last one seen.")] = None,
) -> list[ReleaseInfo]:
    """A site's own releases; for the owner all of them: counts and cards, never rows.

    They come page by page, the oldest first: ask for those `after` the last one, until an empty page comes.
    """
    return context.store.releases.all(caller.study, caller.site, after=after, most=limit)


@releases.get("/shared-rows", responses=declared(403))
def list_shared_rows(caller: Owner, context: Ctx) -> list[messages.SharedRows]:
    """Pairs of releases that share rows beyond what chance would give, the largest share first."""
    return context.store.releases.shared_rows(caller.study)


@releases.get("/releases/{sha256}")
def read_release(sha256: Sha256, caller: AnyCaller, context: Ctx) -> ReleaseInfo:
    """One release with its card."""
    return there(context.store.releases.find(caller.study, sha256, caller.site), "release")


@releases.delete("/releases/{sha256}", status_code=204, responses=declared(403))
def withdraw_release(sha256: Sha256, caller: AnyCaller, context: Ctx, sfumato_signed: Signature = None) -> None:
    """Withdraw a release: its rows are deleted, and models that used it are marked."""
    check_signed(context, caller, messages.withdraw_wish(caller.study, sha256), sfumato_signed)
    if not context.store.releases.withdraw(caller.study, sha256, caller.site):
        raise not_found("release")
    context.folder.release(caller.study, sha256).unlink(missing_ok=True)


@releases.put("/test", responses=declared(400, 403, 408, 413, 507), openapi_extra=_binary(PARQUET, CSV))
async def put_test_table(caller: Owner, context: Ctx, request: Request) -> TestTable:
    """A PUBLIC table of plain rows to test models on: anybody may see it. It replaces an earlier one."""
    return await keep_test_table(request, context, caller.study)


# What the owner of a survey asks: how it goes, codes of invitation, its end, and the received bits.

surveys = APIRouter(prefix="/api/v1/studies/{study_id}/survey", tags=["surveys"])
PIECE = 1 << 18
MOST_CODES = 10_000


class CodesWanted(Sent):
    """How many single-use codes."""

    number: Annotated[int, Field(ge=1, le=MOST_CODES)]


def survey_of(context: Context, study: str) -> SurveyStudy:
    """The survey of a study, or 404 where it is of another kind."""
    survey = context.store.studies.read(study)
    if not isinstance(survey, SurveyStudy):
        raise not_found("survey")
    return survey


@surveys.get("", responses=declared(401, 403, 404, 429, 503))
def progress(caller: Owner, context: Ctx) -> dict[str, Any]:
    """Answers, levels and what the guidance allows, version by version; hours are the finest times."""
    return survey_progress(context.store.surveys, caller.study, survey_of(context, caller.study))


@surveys.post("/codes", status_code=201, responses=declared(400, 401, 403, 404, 408, 413, 422, 429, 503))
def new_codes(wanted: CodesWanted, caller: Owner, context: Ctx) -> dict[str, list[str]]:
    """New codes of invitation, shown this once; nothing that is kept tells which answer came by which code."""
    survey_of(context, caller.study)
    return {"codes": context.store.surveys.codes.add(caller.study, wanted.number)}


@surveys.post("/close", responses=declared(401, 403, 404, 429, 503))
def close(caller: Owner, context: Ctx) -> dict[str, str]:
    """Accept no more answers, from within a second on, for good; log, bits and models stay."""
    survey_of(context, caller.study)
    context.store.studies.close(caller.study)
    return {"state": CLOSED}


@surveys.get(
    "/export",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/zip": {}}}, **declared(401, 403, 404, 429, 503)},
)
def export(caller: Owner, context: Ctx) -> StreamingResponse:
    """The received bits with their cards, one part for each version of the guidance, as a zip file."""
    survey = survey_of(context, caller.study)
    packed = tempfile.TemporaryFile()  # noqa: SIM115 - it lives until the last piece is sent
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for part in write_parts(context.store.surveys, caller.study, survey, Path(folder)):
            for file in sorted(part.iterdir()):
                archive.write(file, f"{part.name}/{file.name}")
    packed.seek(0)
    pieces = iter(partial(packed.read, PIECE), b"")
    return StreamingResponse(pieces, media_type="application/zip", background=BackgroundTask(packed.close))


# What is made of the pool.

models = APIRouter(prefix="/api/v1/studies/{study_id}/models", tags=["models"], responses=USUAL)
ModelId = Annotated[str, Part(max_length=64, description="Id of a model.")]
MOST_WAITING = 30  # models of one study: no owner fills the queue of the others
MOST_IN_ALL = 1000
_FILE = declared(403, 409)
_FILE[200] = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}


class Training(Sent):
    """Which classifier to train on the pool, and on which sites: all, or those that agree with most others."""

    classifier: Annotated[str, Field(max_length=60, json_schema_extra={"enum": list(CLASSIFIERS)})]
    sites: Literal["all", "agreeing"] = "all"
    parameters: Annotated[dict[str, str | int | float | bool | None], Field(max_length=20)] = {}


@models.post("", status_code=202, responses=declared(400, 403, 413))
def train_model(training: Training, caller: Owner, context: Ctx) -> ModelInfo:
    """Ask for a model; a worker trains it in the background."""
    classifier, sites, parameters = training.classifier, training.sites, training.parameters
    if sites not in messages.TRAINED_ON:  # a form of a page was not read as JSON is
        raise ApiError(422, "invalid", f"The training sites must be one of: {', '.join(messages.TRAINED_ON)}.")
    if (classifier.split() or [""])[0] not in CLASSIFIERS:
        names = ", ".join(CLASSIFIERS)
        raise ApiError(422, "unknown-classifier", f"There is no such classifier. Choose one of: {names}.")
    try:
        chosen = choose_classifier(classifier, parameters)
    except UsageError as error:
        raise ApiError(422, "invalid", str(error)) from None
    study = context.store.studies.read(caller.study)
    if isinstance(study, PoolStudy) and study.schema.label is None:
        words = "The study has no column to predict, so there is nothing to train. Reconstruct its columns."
        raise ApiError(409, "no-label", words)
    if isinstance(study, PoolStudy) and isinstance(study.plan, ScoringPlan):
        raise ApiError(409, "first-round", FIRST_ROUND)
    more = {"contains_rows": chosen.keeps_rows, "sites": sites, "parameters": chosen.parameters}
    return _queued(context, caller.study, chosen.name, **more)


def _queued(context: Context, study: str, method: str, **more: Any) -> ModelInfo:
    """A job in the queue that models and densities share: no owner fills it for the others."""
    words = None
    if context.store.models.waiting(study) >= MOST_WAITING:
        words = f"{MOST_WAITING} jobs of this study are already waiting. Try again when some are done."
    elif context.store.models.waiting() >= MOST_IN_ALL:
        words = "Too many jobs of other studies are waiting. Try again later."
    if words is not None:
        raise ApiError(429, "too-many", words, headers={"Retry-After": "60"})
    queued = context.store.models.queue(study, method, **more)
    if context.worker is not None:
        context.worker.wake()
    return queued


@models.get("")
def list_models(caller: AnyCaller, context: Ctx) -> list[ModelInfo]:
    """All models of the study, with state and results."""
    return [seen_by(caller, model) for model in context.store.models.all(caller.study)]


@models.get("/{model_id}")
def read_model(model_id: ModelId, caller: AnyCaller, context: Ctx) -> ModelInfo:
    """One model: state, progress, results, card."""
    return seen_by(caller, there(context.store.models.find(caller.study, model_id), "model"))


@models.get("/{model_id}/file", response_class=FileResponse, responses=_FILE)
def download_model(model_id: ModelId, caller: AnyCaller, context: Ctx) -> FileResponse:
    """The model as a skops file. One that contains released rows is for the owner alone."""
    found = read_model(model_id, caller, context)
    if found.contains_rows and caller.role != OWNER:
        raise ApiError(403, "forbidden", "This model contains released rows of all sites: only the owner may have it.")
    path = context.folder.model(caller.study, found.id)
    if found.state != DONE or not path.is_file():
        raise ApiError(409, "not-ready", "This model is not trained yet, or training it failed.")
    return FileResponse(path, media_type="application/octet-stream", filename=f"{found.classifier}-{found.id}.skops")


# Densities: the owner asks for the distribution of a column behind the noise of all releases, and looks at it.

densities = APIRouter(prefix="/api/v1/studies/{study_id}/densities", tags=["densities"], responses=USUAL)
DensityId = Annotated[str, Part(max_length=64, description="Id of a density.")]


class Wish(Sent):
    """Which column to reconstruct, and how."""

    column: Annotated[str, Field(max_length=200)]
    method: Annotated[str, Field(max_length=60, json_schema_extra={"enum": list(METHODS)})] = "parzen-program"


NO_NOISE_TO_TAKE_AWAY = (
    "Released rows of this study are drawn from noisy models, and are spread as the tables were: there is no noise on "
    "them to take away. Look at the rows themselves."
)


@densities.post("", status_code=202, responses=declared(400, 403, 413))
def reconstruct(wish: Wish, caller: Owner, context: Ctx) -> DensityInfo:
    """Ask for the density of a column; a worker reconstructs it in the background, from all that sites pushed."""
    column, method = wish.column, wish.method
    if method not in METHODS:
        raise ApiError(422, "invalid", f"There is no such method. Choose one of: {', '.join(METHODS)}.")
    study = pool_of(context, caller.study)
    if study.draws:
        raise ApiError(409, "invalid", NO_NOISE_TO_TAKE_AWAY)
    if (names := study.reconstructible()) is not None and column not in names:
        raise ApiError(422, "invalid", f"There is no such column. The study's are: {', '.join(names)}.")
    return DensityInfo.of(_queued(context, caller.study, method, contains_rows=False, column=column))


def pool_of(context: Context, study: str) -> PoolStudy:
    found = context.store.studies.read(study)
    if not isinstance(found, PoolStudy):
        raise ApiError(409, "invalid", "Only a study to which sites push releases has columns to reconstruct.")
    return found


@densities.get("")
def list_densities(caller: Owner, context: Ctx) -> list[DensityInfo]:
    """All densities of the study, the oldest first."""
    return [DensityInfo.of(job) for job in context.store.models.all(caller.study, density=True)]


@densities.get("/{density_id}")
def read_density(density_id: DensityId, caller: Owner, context: Ctx) -> DensityInfo:
    """One density: state, progress, and what was found."""
    return DensityInfo.of(there(context.store.models.find(caller.study, density_id, density=True), "density"))


# Noisy counts of all sites, added: a model of everybody that the owner draws rows from.

counts = APIRouter(prefix="/api/v1/studies/{study_id}/counts", tags=["counts"], responses=USUAL)
ROUTERS = (service, router, releases, surveys, models, densities, counts)


@counts.get("", responses=declared(403, 409))
def added_counts(caller: Owner, context: Ctx) -> messages.AddedCounts:
    """The sum of what all sites have pushed and not withdrawn, as a model to draw rows from; no site's own counts."""
    plan = pool_of(context, caller.study).plan
    if plan is None:
        raise ApiError(409, "invalid", "Sites of this study push rows, so there are no counts to add.")
    standing = context.store.releases.all(caller.study, withdrawn=False)
    pushed = [Pushed(context.folder.release(caller.study, one.sha256), one.site, one.sha256) for one in standing]
    try:
        added = add_counts(pushed, plan)
        release = added.release()
    except SfumatoError as error:
        raise ApiError(409, "invalid", str(error)) from None
    assert release.model is not None
    scores = added.counts.to_dict() if isinstance(added.counts, NoisyScores) else None
    return messages.AddedCounts(release.card.to_dict(), dict(release.model), added.sites, len(pushed), scores)
