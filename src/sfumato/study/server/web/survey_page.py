"""The owner's page of a survey: answers by hour, the level and what the guidance allows to learn, codes, export."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from sfumato.auditing.report.markup import tag, trimmed
from sfumato.learn.classifiers.factory import CLASSIFIERS
from sfumato.study.protocol.messages import StudyInfo
from sfumato.study.protocol.study_file import study_from_dict
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.server.context import Context
from sfumato.study.server.problems import forbidden
from sfumato.study.server.store import Caller
from sfumato.study.server.store.sql_tables import CLOSED
from sfumato.study.server.store.token_store import OWNER
from sfumato.study.server.survey.desks import survey_progress
from sfumato.study.server.web.pool_page import Flash, models_shown
from sfumato.study.server.web.rendering import address_of, page

HEIGHT = 140
MOST_BARS = 72
"""Hours shown: three days; what lies before is in the sum."""


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
        asked=_agreed(survey, study.state),
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


def _agreed(survey: SurveyStudy, state: str) -> list[tuple[str, str]]:
    if survey.closed(datetime.now(UTC).date()):
        closes = f"{survey.closes} (closed: no more answers are accepted)"
    else:
        closes = "closed by hand: no more answers are accepted" if state == CLOSED else survey.closes or "never"
    return [
        ("By", survey.by),
        ("Questions", f"{len(survey.questions)} and the label {survey.label.name}"),
        ("Floor", f"each value of a bit has a probability of at least {survey.floor:g}, whatever the answer"),
        ("Guidance", f"changes after every {survey.batch} answers, {_level(survey)}"),
        ("Closes", closes),
        ("Invitations", "each answer needs a code" if survey.invitations else "anybody may answer"),
    ]


def _level(survey: SurveyStudy) -> str:
    level = f"mu = {survey.mu:g}" if survey.k is None else f"always at level {survey.k}"
    return level if survey.balance else f"{level}, classes weighed by their size"


# Small pictures: counts as bars, and a figure that changes from version to version as steps


def round_top(largest: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... at or above.

    >>> [round_top(value) for value in (0, 1, 3, 70, 101)]
    [1.0, 1.0, 5.0, 100.0, 200.0]
    """
    if largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest) + 1e-9)
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if largest <= step * power * (1 + 1e-9))


def bars(words: str, values: Sequence[tuple[str, float]]) -> Markup | None:
    """One bar for each of the last values, named by its tooltip."""
    values = values[-MOST_BARS:]
    if not values:
        return None
    top = round_top(max(value for _, value in values))
    width = 100 / max(len(values), 12)
    shapes = _frame(top)
    for number, (name, value) in enumerate(values):
        height = HEIGHT * value / top
        shapes.append(
            tag(
                "rect",
                tag("title", f"{name}: {value:g}"),
                x=f"{trimmed(width * (number + 0.1))}%",
                y=HEIGHT - height,
                width=f"{trimmed(0.8 * width)}%",
                height=height,
                class_="count",
            )
        )
    return _drawn(words, shapes)


def steps(words: str, points: Sequence[tuple[float, float]], last: float) -> Markup | None:
    """A figure that holds from one place to the next, up to `last`; places are drawn in proportion."""
    if not points:
        return None
    top, most = round_top(max(value for _, value in points)), max(last, points[-1][0], 1.0)
    shapes = _frame(top)
    ends = [place for place, _ in points[1:]] + [most]
    before = None
    for (place, value), end in zip(points, ends, strict=True):
        first, second = (f"{trimmed(100 * at / most)}%" for at in (place, end))
        y = HEIGHT * (1 - value / top)
        shapes.append(tag("line", x1=first, x2=second, y1=y, y2=y, class_="step"))
        if before is not None and before != y:
            shapes.append(tag("line", x1=first, x2=first, y1=before, y2=y, class_="step"))
        before = y
    return _drawn(words, shapes)


def _frame(top: float) -> list[Markup]:
    drawn = []
    for share in (0.0, 0.5, 1.0):
        y = HEIGHT * (1 - share)
        drawn.append(tag("line", x1=0, x2="100%", y1=y, y2=y, class_="grid"))
        if share * top == round(share * top) or top <= 5:
            drawn.append(tag("text", f"{share * top:,g}", x=-8, y=y + 4, class_="tick side"))
    return drawn


def _drawn(words: str, shapes: Sequence[Markup]) -> Markup:
    return tag("svg", tag("title", words), *shapes, class_="curve s0", role="img", width="100%", height=HEIGHT)
