"""What the owner of a survey asks: how it goes, codes of invitation, its end, and the received bits."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from pydantic import Field

from sfumato.study.protocol.study_file import study_from_dict
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.server.context import Context, Ctx, Owner, Sent
from sfumato.study.server.problems import declared, not_found
from sfumato.study.server.store.sql_tables import CLOSED
from sfumato.study.server.survey.received import survey_progress, write_parts

router = APIRouter(prefix="/api/v1/studies/{study_id}/survey", tags=["surveys"])
PIECE = 1 << 18
MOST_CODES = 10_000


class CodesWanted(Sent):
    """How many single-use codes."""

    number: Annotated[int, Field(ge=1, le=MOST_CODES)]


def survey_of(context: Context, study: str) -> SurveyStudy:
    """The survey of a study, or 404 where it is of another kind."""
    info = context.store.studies.find(study)
    survey = study_from_dict(info.definition) if info is not None else None
    if not isinstance(survey, SurveyStudy):
        raise not_found("survey")
    return survey


@router.get("", responses=declared(401, 403, 404, 429, 503))
def progress(caller: Owner, context: Ctx) -> dict[str, Any]:
    """Answers, levels and what the guidance allows, version by version; hours are the finest times."""
    return survey_progress(context.store.surveys, caller.study, survey_of(context, caller.study))


@router.post("/codes", status_code=201, responses=declared(400, 401, 403, 404, 408, 413, 422, 429, 503))
def new_codes(wanted: CodesWanted, caller: Owner, context: Ctx) -> dict[str, list[str]]:
    """New codes of invitation, shown this once; nothing that is kept tells which answer came by which code."""
    survey_of(context, caller.study)
    return {"codes": context.store.surveys.codes.add(caller.study, wanted.number)}


@router.post("/close", responses=declared(401, 403, 404, 429, 503))
def close(caller: Owner, context: Ctx) -> dict[str, str]:
    """Accept no more answers, from within a second on, for good; log, bits and models stay."""
    survey_of(context, caller.study)
    context.store.studies.close(caller.study)
    return {"state": CLOSED}


@router.get(
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

    def pieces() -> Iterator[bytes]:
        with packed:
            while piece := packed.read(PIECE):
                yield piece

    return StreamingResponse(pieces(), media_type="application/zip")
