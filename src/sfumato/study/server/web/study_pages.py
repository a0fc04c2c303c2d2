"""The pages of a study: of kind `pool` for its owner and its sites, of kind `survey` for its owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from fastapi.responses import HTMLResponse
from markupsafe import Markup

from sfumato.core.errors import CardError
from sfumato.core.wording import counted
from sfumato.learn.classifiers.factory import CLASSIFIERS, choose_classifier
from sfumato.reconstruction.density import Density, from_plain
from sfumato.reconstruction.picture import SMALL, plain
from sfumato.study.protocol.messages import DONE, FAILED, QUEUED, RUNNING, DensityInfo, StudyInfo
from sfumato.study.protocol.pool_study import PoolStudy, trains
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.server.context import Context, seen_by
from sfumato.study.server.problems import forbidden
from sfumato.study.server.store.sql_tables import CLOSED
from sfumato.study.server.survey.received import survey_progress
from sfumato.study.server.web.charts import MOST_BARS, bars, steps
from sfumato.study.server.web.model_pages import asked, guarantee, overview, shown_site
from sfumato.study.server.web.rendering import Visit

MOST_SHOWN = 30
STATES = {QUEUED: "waiting", RUNNING: "being reconstructed"}


def densities_shown(context: Context, study: str) -> dict[str, list[SimpleNamespace]]:
    """On the owner's page: what waits, and of every column the newest that is done, as a picture with its band; what
    failed since is said, too."""
    jobs = [DensityInfo.of(job) for job in reversed(context.store.models.all(study, density=True))]
    newest: dict[str, DensityInfo] = {}
    failed: dict[str, DensityInfo] = {}
    for job in jobs:
        if job.state == DONE:
            newest.setdefault(job.column, job)
        elif job.state == FAILED and job.column not in newest:
            failed.setdefault(job.column, job)
    return {
        "busy": [_shown(job) for job in reversed(jobs) if job.state in STATES],
        "newest": [_shown(job) for job in list(newest.values())[:MOST_SHOWN]],
        "failed": [_shown(job) for job in failed.values()],
    }


def _shown(job: DensityInfo) -> SimpleNamespace:
    """One density; `picture` is SVG whose every text is escaped."""
    shown = SimpleNamespace(info=job, state=STATES.get(job.state, job.state), picture=None, words="")
    if job.state != DONE or job.found is None:
        return shown
    try:
        found = from_plain(job.found)
    except CardError as error:
        shown.words = str(error)
        return shown
    words = [f"From {counted(found.rows, 'released row')} of {counted(len(job.sites), 'site')}."]
    if isinstance(found, Density):
        low, middle, high = (plain(float(value)) for value in found.quantiles([0.25, 0.5, 0.75]))
        words.append(f"Median {middle}; half of the people lie between {low} and {high}.")
        for atom in found.about.get("atoms", ()):
            words.append(
                f"About {float(atom['share']):.0%} of the people share the value {plain(float(atom['value']))}."
            )
        if found.missing > 0:
            words.append(f"Estimated missing: {found.missing:.0%}.")
    shown.picture, shown.words = Markup(found.plot(SMALL)), " ".join(words)
    return shown


MOST_MODELS = 50
"""The newest ones; a page with the models of years would be slow."""
MOST_PAIRS = 20


@dataclass(frozen=True)
class Flash:
    """A line about what was just done, or why it failed."""

    kind: str
    words: str


AFTERWARDS = {
    "training": Flash("good", "The model is queued. This page shows its progress."),
    "reconstructing": Flash("good", "The column is queued. This page shows its distribution once it is found."),
    "closed": Flash("good", "The survey is closed. No more answers are accepted; what was received stays."),
    "revoked": Flash("good", "The site's token is revoked. Its releases remain."),
    "withdrawn": Flash("good", "The release is withdrawn and its file is deleted. Models that used it are marked."),
}
"""What a page says after it was sent back to itself; only these words, whatever the address holds."""


def pool_page(visit: Visit, flash: Flash | None, status: int) -> HTMLResponse:
    context, study = visit.context, visit.study
    values: dict[str, Any] = {
        "flash": flash,
        "models": models_shown(visit),
        "asked": asked(study.definition),
        "address": visit.address,
        "trains": trains(study.definition),
    }
    if visit.owns:
        return visit.page("owner", status, **values, **_for_owner(context, study))
    releases = context.store.releases.all(study.id, visit.caller.site)
    shown = [(one, guarantee(one.epsilon, one.earlier, one.total_epsilon, one.presence)) for one in reversed(releases)]
    standing = [one for one in releases if not one.withdrawn]
    totals = {
        "rows": f"{sum(one.rows for one in standing if one.purpose == 'train'):,}",
        "releases": len(standing),
        "last_push": max((one.received for one in standing), default="never"),
    }
    return visit.page("site", status, **values, releases=shown, totals=totals)


def _for_owner(context: Context, study: StudyInfo) -> dict[str, Any]:
    sites, shared = context.store.sites.all(study.id), context.store.shared_rows.pairs(study.id)
    wanted = list(study.definition.get("classifiers") or ())
    others = [name for name in CLASSIFIERS if name not in wanted and not CLASSIFIERS[name].on_bits]
    return {
        "sites": [shown_site(site, context.store.database.today()) for site in sites],
        "totals": {
            "sites": len(sites),
            "pushing": sum(site.releases > 0 for site in sites),
            "rows": f"{sum(site.rows for site in sites):,}",
            "releases": sum(site.releases for site in sites),
            "last_push": max((site.last_push for site in sites if site.last_push), default="never"),
        },
        "shared": shared[:MOST_PAIRS],
        "more_shared": max(0, len(shared) - MOST_PAIRS),
        "classifiers": [*wanted, *others],
        "keeps_rows": {name for name in [*wanted, *CLASSIFIERS] if choose_classifier(name).keeps_rows},
        "test_table": context.store.releases.test_table(study.id),
        "densities": densities_shown(context, study.id),
        "columns": PoolStudy.from_dict(study.definition).reconstructible(),
    }


def models_shown(visit: Visit) -> dict[str, Any]:
    found = reversed(visit.context.store.models.all(visit.caller.study))
    models = [seen_by(visit.caller, model) for model in found]
    return overview(models[:MOST_MODELS], owner=visit.owns)


def survey_page(visit: Visit, flash: Flash | None, status: int) -> HTMLResponse:
    """Answers by hour, the level and what the guidance allows to learn, codes, export."""
    if not visit.owns:
        raise forbidden("the owner of the survey")
    study = visit.study
    survey = SurveyStudy.from_dict(study.definition)
    progress = survey_progress(visit.context.store.surveys, study.id, survey)
    versions: Sequence[Mapping[str, Any]] = progress["versions"]
    hours = [(entry["hour"].replace("T", ", ") + " h", entry["answers"]) for entry in progress["by_hour"]]
    bounded = [(entry["answers"], entry["epsilon"]) for entry in versions if entry["epsilon"] is not None]
    return visit.page(
        "survey",
        status,
        flash=flash,
        asked=_agreed(survey, study.state),
        progress=progress,
        newest=versions[-1] if versions else None,
        hours=bars("Answers by hour", hours),
        span=(hours[-MOST_BARS:][0][0], hours[-1][0]) if hours else None,
        levels=steps("Level k* by answers counted", [(e["answers"], e["k"]) for e in versions], progress["counted"]),
        disclosed=steps("Epsilon of an answer, by answers counted", bounded, progress["counted"]),
        models=models_shown(visit),
        classifiers=[*(name for name, one in CLASSIFIERS.items() if one.on_bits), "forest", "boosting", "mlp"],
        link=f"{visit.address}/survey/#survey={study.id}&hash={study.hash.removeprefix('sha256:')}",
    )


def _agreed(survey: SurveyStudy, state: str) -> list[tuple[str, str]]:
    if survey.closed(datetime.now(UTC).date()):
        closes = f"{survey.closes} (closed: no more answers are accepted)"
    else:
        closes = "closed by hand: no more answers are accepted" if state == CLOSED else survey.closes or "never"
    level = f"mu = {survey.mu:g}" if survey.k is None else f"always at level {survey.k}"
    level += "" if survey.balance else ", classes weighed by their size"
    return [
        ("By", survey.by),
        ("Questions", f"{len(survey.questions)} and the label {survey.label.name}"),
        ("Floor", f"each value of a bit has a probability of at least {survey.floor:g}, whatever the answer"),
        ("Guidance", f"changes after every {survey.batch} answers, {level}"),
        ("Closes", closes),
        ("Invitations", "each answer needs a code" if survey.invitations else "anybody may answer"),
    ]


def study_page(visit: Visit, flash: Flash | None = None, status: int = 200) -> HTMLResponse:
    """The page of the study's kind."""
    return (survey_page if visit.study.kind == SurveyStudy.kind else pool_page)(visit, flash, status)
