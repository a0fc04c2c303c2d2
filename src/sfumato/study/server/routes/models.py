"""What is made of the pool: models, densities of columns, and the sum of noisy counts."""

from __future__ import annotations

import io
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from fastapi.responses import FileResponse, Response
from pydantic import Field

from sfumato.core.errors import SfumatoError, UsageError
from sfumato.learn.classifiers.factory import CLASSIFIERS, choose_classifier
from sfumato.mechanisms.central.scoring import NoisyScores, ScoringPlan
from sfumato.reconstruction.density import from_plain
from sfumato.reconstruction.reconstruct import METHODS
from sfumato.study.pooling.gather import FIRST_ROUND, Pushed, add_counts
from sfumato.study.protocol.messages import DONE, TRAINED_ON, AddedCounts, DensityInfo, ModelInfo
from sfumato.study.protocol.pool_study import PoolStudy, trains
from sfumato.study.server.context import AnyCaller, Context, Ctx, Owner, Sent, seen_by
from sfumato.study.server.problems import USUAL, ApiError, declared, there
from sfumato.study.server.store import Caller
from sfumato.study.server.store.token_store import OWNER
from sfumato.table.writers import write_lines

router = APIRouter(prefix="/api/v1/studies/{study_id}/models", tags=["models"], responses=USUAL)
ModelId = Annotated[str, Path(max_length=64, description="Id of a model.")]
MOST_WAITING = 30
"""Models of one study: no owner fills the queue of the others."""
MOST_IN_ALL = 1000
_FILE = declared(403, 409)
_FILE[200] = {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}


class Training(Sent):
    """Which classifier to train on the pool, and on which sites: all, or those that agree with most others."""

    classifier: Annotated[str, Field(max_length=60, json_schema_extra={"enum": list(CLASSIFIERS)})]
    sites: Literal["all", "agreeing"] = "all"
    parameters: Annotated[dict[str, str | int | float | bool | None], Field(max_length=20)] = {}


@router.post("", status_code=202, responses=declared(400, 403, 413))
def train_model(training: Training, caller: Owner, context: Ctx) -> ModelInfo:
    """Ask for a model; a worker trains it in the background."""
    classifier, sites, parameters = training.classifier, training.sites, training.parameters
    if sites not in TRAINED_ON:  # a form of a page was not read as JSON is
        raise ApiError(422, "invalid", f"The training sites must be one of: {', '.join(TRAINED_ON)}.")
    if (classifier.split() or [""])[0] not in CLASSIFIERS:
        names = ", ".join(CLASSIFIERS)
        raise ApiError(422, "unknown-classifier", f"There is no such classifier. Choose one of: {names}.")
    try:
        chosen = choose_classifier(classifier, parameters)
    except UsageError as error:
        raise ApiError(422, "invalid", str(error)) from None
    study = context.store.studies.find(caller.study)
    if study is not None and not trains(study.definition):
        words = "The study has no column to predict, so there is nothing to train. Reconstruct its columns."
        raise ApiError(409, "no-label", words)
    pooled = context.store.studies.read(caller.study)
    if isinstance(pooled, PoolStudy) and isinstance(pooled.plan, ScoringPlan):
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


@router.get("")
def list_models(caller: AnyCaller, context: Ctx) -> list[ModelInfo]:
    """All models of the study, with state and results."""
    return [seen_by(caller, model) for model in context.store.models.all(caller.study)]


@router.get("/{model_id}")
def read_model(model_id: ModelId, caller: AnyCaller, context: Ctx) -> ModelInfo:
    """One model: state, progress, results, card."""
    return seen_by(caller, there(context.store.models.find(caller.study, model_id), "model"))


@router.get("/{model_id}/file", response_class=FileResponse, responses=_FILE)
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
DensityId = Annotated[str, Path(max_length=64, description="Id of a density.")]


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


def density_table(density_id: str, caller: Caller, context: Context) -> Response:
    """The cells of one as a CSV file, for pages."""
    density = read_density(density_id, caller, context)
    if density.state != DONE or density.found is None:
        raise ApiError(409, "not-ready", "This density is not reconstructed yet, or reconstructing it failed.")
    text = io.BytesIO()
    write_lines(from_plain(density.found).table(), text, header=True, separator=",")
    saved = {"Content-Disposition": f'attachment; filename="density-{density.id}.csv"'}
    return Response(text.getvalue(), media_type="text/csv", headers=saved)


# Noisy counts of all sites, added: a model of everybody that the owner draws rows from.

counts = APIRouter(prefix="/api/v1/studies/{study_id}/counts", tags=["counts"], responses=USUAL)
ROUTERS = (router, densities, counts)


@counts.get("", responses=declared(403, 409))
def added_counts(caller: Owner, context: Ctx) -> AddedCounts:
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
    return AddedCounts(release.card.to_dict(), dict(release.model), added.sites, len(pushed), scores)
