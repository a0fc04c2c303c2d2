"""Densities: the owner asks for the distribution of a column behind the noise of all releases, and looks at it."""

from __future__ import annotations

import io
from typing import Annotated

from fastapi import APIRouter, Path
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from sfumato.reconstruction import METHODS
from sfumato.reconstruction.density import from_plain
from sfumato.study.protocol.messages import DONE, DensityInfo
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.study.protocol.study_file import study_from_dict
from sfumato.study.server.access import Ctx, Owner
from sfumato.study.server.context import Context
from sfumato.study.server.problems import USUAL, ApiError, declared, not_found
from sfumato.study.server.routes.models import check_queue
from sfumato.study.server.store import Caller
from sfumato.table.writers import write_lines

router = APIRouter(prefix="/api/v1/studies/{study_id}/densities", tags=["densities"], responses=USUAL)
DensityId = Annotated[str, Path(max_length=64, description="Id of a density.")]


class Wish(BaseModel):
    """Which column to reconstruct, and how."""

    model_config = ConfigDict(extra="forbid", strict=True)

    column: Annotated[str, Field(max_length=200)]
    method: Annotated[str, Field(max_length=60, json_schema_extra={"enum": list(METHODS)})] = "parzen-program"


NO_NOISE_TO_TAKE_AWAY = (
    "Released rows of this study are drawn from noisy models, and are spread as the tables were: there is no noise on "
    "them to take away. Look at the rows themselves."
)


@router.post("", status_code=202, responses=declared(400, 403, 413))
def reconstruct(wish: Wish, caller: Owner, context: Ctx) -> DensityInfo:
    """Ask for the density of a column; a worker reconstructs it in the background, from all that sites pushed."""
    return queue_density(wish.column, caller, context, wish.method)


def queue_density(column: str, caller: Caller, context: Context, method: str = "parzen-program") -> DensityInfo:
    """The same for pages."""
    if method not in METHODS:
        raise ApiError(422, "invalid", f"There is no such method. Choose one of: {', '.join(METHODS)}.")
    study = pool_of(context, caller.study)
    if study.draws:
        raise ApiError(409, "invalid", NO_NOISE_TO_TAKE_AWAY)
    if (names := study.reconstructible()) is not None and column not in names:
        raise ApiError(422, "invalid", f"There is no such column. The study's are: {', '.join(names)}.")
    check_queue(context, caller.study)
    queued = context.store.models.queue(caller.study, method, contains_rows=False, column=column)
    if context.worker is not None:
        context.worker.wake()
    return DensityInfo.of(queued)


def pool_of(context: Context, study: str) -> PoolStudy:
    info = context.store.studies.find(study)
    found = None if info is None else study_from_dict(info.definition)
    if not isinstance(found, PoolStudy):
        raise ApiError(409, "invalid", "Only a study to which sites push releases has columns to reconstruct.")
    return found


@router.get("")
def list_densities(caller: Owner, context: Ctx) -> list[DensityInfo]:
    """All densities of the study, the oldest first."""
    return [DensityInfo.of(job) for job in context.store.models.all(caller.study, density=True)]


@router.get("/{density_id}")
def read_density(density_id: DensityId, caller: Owner, context: Ctx) -> DensityInfo:
    """One density: state, progress, and what was found."""
    found = context.store.models.find(caller.study, density_id, density=True)
    if found is None:
        raise not_found("density")
    return DensityInfo.of(found)


def density_table(density_id: str, caller: Caller, context: Context) -> Response:
    """The cells of one as a CSV file, for pages."""
    density = read_density(density_id, caller, context)
    if density.state != DONE or density.found is None:
        raise ApiError(409, "not-ready", "This density is not reconstructed yet, or reconstructing it failed.")
    name = f"density-{density.id}.csv"
    text = io.BytesIO()
    write_lines(from_plain(density.found).table(), text, header=True, separator=",")
    return Response(
        text.getvalue(), media_type="text/csv", headers={"Content-Disposition": f'attachment; filename="{name}"'}
    )
