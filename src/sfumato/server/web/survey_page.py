"""The owner's page of a survey: answers by hour, the level and what the guidance allows to learn, codes, export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse

from sfumato.classifiers.factory import CLASSIFIERS
from sfumato.protocol.messages import StudyInfo
from sfumato.protocol.study_file import study_from_dict
from sfumato.protocol.survey_file import SurveyStudy
from sfumato.server.context import Context
from sfumato.server.problems import forbidden
from sfumato.server.store import Caller
from sfumato.server.store.token_store import OWNER
from sfumato.server.survey.progress import survey_progress
from sfumato.server.web.answers import address_of, page
from sfumato.server.web.pool_page import Flash, models_shown
from sfumato.server.web.timeline import MOST_BARS, bars, steps


def survey_page(
    request: Request, context: Context, caller: Caller, study: StudyInfo, flash: Flash | None = None, status: int = 200
) -> HTMLResponse:
    if caller.role != OWNER:
        raise forbidden("the owner of the survey")
    survey = study_from_dict(study.definition)
    assert isinstance(survey, SurveyStudy)
    progress = survey_progress(context.store.surveys, study.id, survey)
    versions: Sequence[Mapping[str, Any]] = progress["versions"]
    hours = [(entry["hour"].replace("T", ", ") + " h", entry["answers"]) for entry in progress["by_hour"]]
    bounded = [(entry["answers"], entry["epsilon"]) for entry in versions if entry["epsilon"] is not None]
    return page(
        "survey",
        status,
        caller=caller,
        study=study,
        flash=flash,
        asked=_agreed(survey),
        progress=progress,
        newest=versions[-1] if versions else None,
        hours=bars("Answers by hour", hours),
        span=(hours[-MOST_BARS:][0][0], hours[-1][0]) if hours else None,
        levels=steps("Level k* by answers counted", [(e["answers"], e["k"]) for e in versions], progress["counted"]),
        disclosed=steps("Epsilon of an answer, by answers counted", bounded, progress["counted"]),
        models=models_shown(context, caller),
        classifiers=[*(name for name, one in CLASSIFIERS.items() if one.on_bits), "forest", "boosting", "mlp"],
        link=f"{address_of(request)}/survey/#survey={study.id}&hash={study.hash.removeprefix('sha256:')}",
    )


def _agreed(survey: SurveyStudy) -> list[tuple[str, str]]:
    over = survey.closed(datetime.now(UTC).date())
    return [
        ("By", survey.by),
        ("Questions", f"{len(survey.questions)} and the label {survey.label.name}"),
        ("Floor", f"every bit is 0 or 1 with a probability of at least {survey.floor:g}, whatever the answer"),
        ("Guidance", f"changes after every {survey.batch} answers, mu = {survey.mu:g}"),
        ("Closes", f"{survey.closes} (over: no more answers are taken)" if over else survey.closes or "never"),
        ("Invitations", "each answer needs a code" if survey.invitations else "anybody may answer"),
    ]
