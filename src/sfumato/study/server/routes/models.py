"""Models: requested, watched, and downloaded by those who may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field

from sfumato.core.errors import UsageError
from sfumato.learn.classifiers.factory import CLASSIFIERS, choose_classifier
from sfumato.study.protocol.messages import ALL_SITES, DONE, TRAINED_ON, ModelInfo
from sfumato.study.protocol.pool_study import trains
from sfumato.study.server.access import AnyCaller, Ctx, Owner, seen_by
from sfumato.study.server.context import Context
from sfumato.study.server.problems import USUAL, ApiError, declared, not_found
from sfumato.study.server.store import Caller
from sfumato.study.server.store.token_store import OWNER

router = APIRouter(prefix="/api/v1/studies/{study_id}/models", tags=["models"], responses=USUAL)
ModelId = Annotated[str, Path(max_length=64, description="Id of a model.")]
MOST_WAITING = 30
"""Models of one study: no owner fills the queue of the others."""
MOST_IN_ALL = 1000
_FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
}


class Training(BaseModel):
    """Which classifier to train on the pool, and on which sites: all, or those that agree with most others."""

    model_config = ConfigDict(extra="forbid", strict=True)

    classifier: Annotated[str, Field(max_length=60, json_schema_extra={"enum": list(CLASSIFIERS)})]
    sites: Literal["all", "agreeing"] = "all"
    parameters: Annotated[dict[str, str | int | float | bool | None], Field(max_length=20)] = {}


@router.post("", status_code=202, responses=declared(400, 403, 413))
def train_model(training: Training, caller: Owner, context: Ctx) -> ModelInfo:
    """Ask for a model; a worker trains it in the background."""
    return queue_training(training.classifier, caller, context, training.sites, training.parameters)


def queue_training(
    classifier: str,
    caller: Caller,
    context: Context,
    sites: str = ALL_SITES,
    parameters: Mapping[str, Any] | None = None,
) -> ModelInfo:
    """The same for pages."""
    if sites not in TRAINED_ON:
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
        raise ApiError(
            409,
            "no-label",
            "The study has no column to predict, so there is nothing to train. Reconstruct its columns.",
        )
    check_queue(context, caller.study)
    queued = context.store.models.queue(
        caller.study, chosen.name, contains_rows=chosen.keeps_rows, sites=sites, parameters=chosen.parameters
    )
    if context.worker is not None:
        context.worker.wake()
    return queued


def check_queue(context: Context, study: str) -> None:
    """Models and densities share a queue: no owner fills it for the others."""
    if context.store.models.waiting(study) >= MOST_WAITING:
        raise _queue_full(f"{MOST_WAITING} jobs of this study are already waiting. Try again when some are done.")
    if context.store.models.waiting() >= MOST_IN_ALL:
        raise _queue_full("Too many jobs of other studies are waiting. Try again later.")


def _queue_full(words: str) -> ApiError:
    return ApiError(429, "too-many", words, headers={"Retry-After": "60"})


@router.get("")
def list_models(caller: AnyCaller, context: Ctx) -> list[ModelInfo]:
    """All models of the study, with state and results."""
    return [seen_by(caller, model) for model in context.store.models.all(caller.study)]


@router.get("/{model_id}")
def read_model(model_id: ModelId, caller: AnyCaller, context: Ctx) -> ModelInfo:
    """One model: state, progress, results, card."""
    found = context.store.models.find(caller.study, model_id)
    if found is None:
        raise not_found("model")
    return seen_by(caller, found)


@router.get(
    "/{model_id}/file",
    response_class=FileResponse,
    responses=_FILE | declared(403, 409),
)
def download_model(model_id: ModelId, caller: AnyCaller, context: Ctx) -> FileResponse:
    """The model as a skops file. One that contains released rows is for the owner alone."""
    return model_file(model_id, caller, context)


def model_file(model_id: str, caller: Caller, context: Context) -> FileResponse:
    """The same for pages."""
    found = read_model(model_id, caller, context)
    if found.contains_rows and caller.role != OWNER:
        raise ApiError(403, "forbidden", "This model contains released rows of all sites: only the owner may have it.")
    path = context.folder.model(caller.study, found.id)
    if found.state != DONE or not path.is_file():
        raise ApiError(409, "not-ready", "This model is not trained yet, or training it failed.")
    return FileResponse(path, media_type="application/octet-stream", filename=f"{found.classifier}-{found.id}.skops")
