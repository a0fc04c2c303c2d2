"""The pages of a study, of kind `pool` for its owner and its sites, of kind `survey` for its owner, and what they show:
guarantees and what is asked for; models with their errors, sites and releases; densities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, NamedTuple

from fastapi.responses import HTMLResponse
from markupsafe import Markup

from sfumato.core.errors import CardError
from sfumato.core.wording import COMMONEST_WORDS, counted, than_commonest
from sfumato.guarantee import AllReleases
from sfumato.guarantee import Guarantee as Stated
from sfumato.guarantee.all_releases import hidden_presence, total_without_delta
from sfumato.guarantee.cost import Central, presence
from sfumato.guarantee.guarantee import LOCAL_DP, WEAK_CENTRAL, infinite
from sfumato.learn.classifiers.factory import CLASSIFIERS, choose_classifier
from sfumato.reconstruction.density import Density, from_plain
from sfumato.reconstruction.picture import SMALL, plain
from sfumato.study.protocol import messages
from sfumato.study.protocol.messages import DONE, FAILED, QUEUED, RUNNING, DensityInfo, ModelInfo, SiteInfo
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.server.context import Context, seen_by
from sfumato.study.server.shell import forbidden
from sfumato.study.server.store.release_store import guarantee_words
from sfumato.study.server.store.sql_tables import CLOSED
from sfumato.study.server.survey.received import survey_progress
from sfumato.study.server.web.charts import MOST_BARS, Scale, bars, curve, error_row, mark, percent, series, sign, steps
from sfumato.study.server.web.rendering import Visit

MOST_SITES = 30
MOST_LINES = 5  # more lines than these cannot be told apart; the best are drawn
STATES = {QUEUED: "waiting", RUNNING: "in training", DONE: "trained", FAILED: "failed"}
FOLDS = "cross-validation"
LABELS = " If the column to predict is released exactly, it reveals more on top."


class Guarantee(NamedTuple):
    """What a site asserts, in short and in full; `state` gives the colour."""

    short: str
    state: str
    words: str


def guarantee(
    epsilon: float | None, earlier: int = 0, total: float | None = None, hidden: dict[str, float] | None = None
) -> Guarantee:
    """What these figures let a reader of this release, and of all `earlier` ones of its rows, become sure of. `hidden`:
    epsilon and delta of a person's presence, of made-up rows."""
    if hidden is not None:
        central = Central(pure=hidden["epsilon"], delta=hidden["delta"])
        seeing = "sees all of its releases, " if earlier else ""
        state = "weak" if central.epsilon > WEAK_CENTRAL else "formal"
        return Guarantee(guarantee_words(epsilon, earlier, total, hidden), state, presence(central, seeing))
    record = infinite(epsilon)
    alone = Stated(record, record, record, exact=False)
    together = AllReleases.of(alone, {"count": earlier, "total_epsilon_record": total})
    state = ("weak" if together.unprotected else "formal") if together.bounded else "none"
    words = together.in_words() + ("" if epsilon is None else LABELS)
    return Guarantee(guarantee_words(epsilon, earlier, total), state, words)


def used_guarantee(used: Mapping[str, Any]) -> Guarantee:
    """Of a release on a model's card; models of 0.1.0 carry words instead of figures, which are not shown."""
    earlier = used.get("earlier_releases") or {}
    if "epsilon_record" not in used:
        return Guarantee("proved" if used.get("guarantee") == LOCAL_DP else "none that is proved", "none", "")
    count, total = int(earlier.get("count") or 0), total_without_delta(used["epsilon_record"], earlier)
    hidden = hidden_presence({"guarantee": {"kind": used.get("guarantee"), **used}, "earlier_releases": earlier})
    figures = None if hidden is None else {"epsilon": hidden.epsilon, "delta": hidden.delta}
    return guarantee(used["epsilon_record"], count, total, figures)


def asked(study: PoolStudy) -> list[tuple[str, str]]:
    """What every release of the study must be, as rows of a table."""
    parameters = ", ".join(f"{key} = {value}" for key, value in study.parameters.items() if key != "plan")
    columns, label, most = len(study.schema.columns), study.schema.label, study.largest_site_share
    if study.presence is not None:
        figures = f"epsilon at most {study.presence.epsilon:.9g} at delta {study.presence.delta:g}"
        promised = f"proved, {figures} for a person's presence in the table"
    elif study.epsilon_record is not None:
        promised = f"proved, epsilon at most {study.epsilon_record:.9g} for a whole record"
    else:
        promised = "no proof is required (empirical releases are allowed)"
    rows = [
        ("Mechanism", study.mechanism + (f" with {parameters}" if parameters else "")),
        ("Guarantee", promised),
        ("Columns", f"{columns - 1} and the label {label.name}" if label else str(columns)),
        ("Plan", f"sites push noisy counts; the plan is by {study.plan.chosen_by}" if study.plan else ""),
        ("Space", study.space),
        ("Largest site", "" if most is None else f"at most {most:.0%} of the rows that models are trained on"),
    ]
    return [(name, value) for name, value in rows if value]


def shown_trust(model: ModelInfo) -> dict[str, Any] | None:
    """What each site does to a model: the error without it, its influence, whether it agrees; with `warnings` of sites
    that its owner should look at. None for models without such figures: of one site, or of an older version."""
    trust = (model.results or {}).get("trust")
    if not trust or not any(one["without"] or one["disagreement"] is not None for one in trust["sites"]):
        return None
    total = max(1, int((model.results or {}).get("trained_rows", 1)))
    agreeing, sites = trust["trained_on"] == messages.AGREEING_SITES, trust["sites"]
    return {
        **trust,
        "model": model,
        "sites": [_site(one, total, agreeing=agreeing) for one in sites[:MOST_SITES]],
        "more": max(0, len(sites) - MOST_SITES),
        "agreeing": agreeing,
        "cap": "" if trust["largest_share"] is None else percent(trust["largest_share"]),
        "warnings": [
            f"Without {one['site']} the error is {percent(one['without']['error'])} instead of "
            f"{percent(one['without']['with'])}."
            for one in sites
            if _is_harmful(one)
        ],
    }


def _site(one: Mapping[str, Any], total: int, *, agreeing: bool) -> dict[str, str]:
    """A row of the table; `state` is empty for a site like the others."""
    without = one["without"] or {"error": None, "interval": None, "influence": None}
    influence = without["influence"]  # percentage points: + means more errors with the site
    state = "" if one["agrees"] is not False else "left out" if agreeing else "disagrees"
    used = f"{one['trained_rows']:,} of " if one["trained_rows"] < one["rows"] else ""
    return {
        "name": one["site"],
        "rows": f"{used}{one['rows']:,}",
        "share": percent(one["trained_rows"] / total),
        "without": percent(without["error"]),
        "interval": "" if without["interval"] is None else _between(without["interval"]),
        "influence": "–" if influence is None else f"{100 * influence:+.1f}".replace("-", "−") + " points",
        "on_its_rows": percent(without.get("on_its_rows")),
        "disagreement": percent(one["disagreement"]),
        "state": "worse with it" if _is_harmful(one) and state != "left out" else state,
    }


def _is_harmful(one: Mapping[str, Any]) -> bool:
    """Whether the error with the site lies above the interval of the error without it."""
    without = one["without"]
    return bool(without and without["with"] is not None and without["with"] > without["interval"][1])


def _between(interval: Sequence[float | None]) -> str:
    low, high = map(percent, interval)
    return f"{low} to {high}"


def _newest(models: Sequence[ModelInfo]) -> list[ModelInfo]:
    """Of each classifier the newest that is trained, the fewest errors first, judged by the first rate there is."""
    first: dict[str, ModelInfo] = {}
    for model in models:
        if model.state == DONE and model.results is not None:
            first.setdefault(model.text, model)
    errors = {name: [rate["error"] for rate in _rates(model.results or {})] for name, model in first.items()}
    return sorted(first.values(), key=lambda model: next((e for e in errors[model.text] if e is not None), 2.0))


def models_shown(visit: Visit) -> dict[str, Any]:
    """All models, the newest first, as the template shows them: those being trained, the newest of each classifier side
    by side, and the list of all; `trust` is of the newest that says what each site does to it."""
    latest, owner = visit.context.store.models.all(visit.caller.study)[-MOST_MODELS:], visit.owns
    models = [seen_by(visit.caller, model) for model in reversed(latest)]
    newest = _newest(models)
    scale = _scale_of(newest)
    told, listed = ([shown(model, scale, owner=owner) for model in part] for part in (newest, models))
    compared = [model for model in newest if _sites(model)]
    same = _on_same_rows(compared, models)
    return {
        "busy": [one for one in reversed(listed) if one.busy],
        "newest": told,
        "all": listed,
        "ticks": [percent(tick) for tick in scale.ticks],
        "curve": curve([(model.classifier, _sites(model)) for model in same]),
        "tested": _sites(same[0]) if same else {},
        "legend": [entry for entry in told if entry.info in same],
        "left_out": len(compared) - len(same),
        "owner": owner,
        "trust": next((found for model in models if (found := shown_trust(model))), None),
    }


def _on_same_rows(compared: Sequence[ModelInfo], models: Sequence[ModelInfo]) -> list[ModelInfo]:
    """Those whose curves are drawn: tested on the same rows as the newest of them."""
    kind = _sites(min(compared, key=models.index))["tested_on"] if compared else None
    return [model for model in compared if _sites(model)["tested_on"] == kind][:MOST_LINES]


def model_page(visit: Visit, model: ModelInfo) -> HTMLResponse:
    scale, compared = _scale_of([model]), _sites(model)
    alone = sorted(compared.get("alone", []), key=lambda one: 2.0 if one["error"] is None else one["error"])
    return visit.page(
        "model",
        model=shown(model, scale, owner=visit.owns),
        results=model.results,
        ticks=[percent(tick) for tick in scale.ticks],
        curve=curve([(model.classifier, compared)]) if compared else None,
        points=[_point(point) for point in compared["points"]] if compared else [],
        alone=[_rate(model.classifier, {"kind": one["site"], "words": "", **one}, scale) for one in alone],
        told=used_guarantee,
        trust=shown_trust(model),
    )


def shown(model: ModelInfo, scale: Scale, *, owner: bool) -> SimpleNamespace:
    return SimpleNamespace(
        info=model,
        busy=model.state in (QUEUED, RUNNING),
        state=STATES.get(model.state, model.state),
        sign=sign(model.classifier),
        progress=f"{100 * model.progress:.0f}%",
        may_download=model.state == DONE and (owner or not model.contains_rows),
        rates=[] if model.results is None else [_rate(model.classifier, rate, scale) for rate in _rates(model.results)],
    )


def _scale_of(models: Sequence[ModelInfo]) -> Scale:
    rates = [rate for one in models for rate in (*_rates(one.results or {}), *_sites(one).get("alone", []))]
    return Scale.of(end for rate in rates for end in (rate["interval"][1], rate.get("commonest")))


def _rates(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Test rows first: they say more than folds of perturbed rows."""
    folds = results.get("cross_validation")
    return [*(results.get("test") or []), *([{"kind": FOLDS, **folds}] if folds else [])]


def _rate(classifier: str, rate: Mapping[str, Any], scale: Scale) -> SimpleNamespace:
    """One error with its interval: what it was measured on, in figures and as a row of the chart."""
    error, interval, commonest = percent(rate["error"]), _between(rate["interval"]), rate.get("commonest")
    alt = f"{classifier}, {rate['kind']}: error {error}, 95% interval {interval}"
    chart = error_row(alt, rate, scale, mark(classifier), series(classifier))
    rows, words = f"{rate.get('trained_rows', rate['rows']):,}", str(rate.get("words", ""))
    if commonest is not None and rate["error"] is not None:  # where it is no better than always answering that class
        words += " " + COMMONEST_WORDS[than_commonest(*(end - commonest for end in rate["interval"]))]
    told = {"kind": str(rate["kind"]), "rows": rows, "words": words.strip(), "chart": chart}
    return SimpleNamespace(error=error, interval=interval, **told)


def _sites(model: ModelInfo) -> dict[str, Any]:
    return dict((model.results or {}).get("by_sites") or {})


def _point(point: Mapping[str, Any]) -> dict[str, str]:
    several = point.get("choices", 1) > 1
    return {
        "sites": str(point["sites"]),
        "error": percent(point["error"]),
        "interval": _between(point["interval"]),
        "spread": _between([point.get("lowest"), point.get("highest")]) if several else "–",
        "choices": str(point.get("choices", "–")),
    }


# What columns look like behind the noise, for the owner.

MOST_SHOWN = 30
UNDER_WAY = {QUEUED: "waiting", RUNNING: "being reconstructed"}


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
        "busy": [
            SimpleNamespace(info=job, state=UNDER_WAY[job.state]) for job in reversed(jobs) if job.state in UNDER_WAY
        ],
        "newest": [_found(job) for job in list(newest.values())[:MOST_SHOWN]],
        "failed": [SimpleNamespace(info=job) for job in failed.values()],
    }


def _found(job: DensityInfo) -> SimpleNamespace:
    """One density; `picture` is SVG whose every text is escaped."""
    try:
        found = from_plain(job.found or {})
    except CardError as error:
        return SimpleNamespace(info=job, picture=None, words=str(error))
    words = [f"From {counted(found.rows, 'released row')} of {counted(len(job.sites), 'site')}."]
    if isinstance(found, Density):
        low, middle, high = (plain(float(value)) for value in found.quantiles([0.25, 0.5, 0.75]))
        words.append(f"Median {middle}; half of the people lie between {low} and {high}.")
        for atom in found.about.get("atoms", ()):
            share, value = float(atom["share"]), plain(float(atom["value"]))
            words.append(f"About {share:.0%} of the people share the value {value}.")
        if found.missing > 0:
            words.append(f"Estimated missing: {found.missing:.0%}.")
    return SimpleNamespace(info=job, picture=Markup(found.plot(SMALL)), words=" ".join(words))


MOST_MODELS = 50  # the newest ones; a page with the models of years would be slow
MOST_PAIRS = 20


class Flash(NamedTuple):
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
    agreed = PoolStudy.from_dict(study.definition)
    values: dict[str, Any] = {"flash": flash, "models": models_shown(visit), "address": visit.address}
    values |= {"asked": asked(agreed), "trains": agreed.schema.label is not None}
    if visit.owns:
        return visit.page("owner", status, **values, **_for_owner(context, study.id, agreed))
    releases = context.store.releases.all(study.id, visit.caller.site)
    shown = [(one, guarantee(one.epsilon, one.earlier, one.total_epsilon, one.presence)) for one in reversed(releases)]
    standing = [one for one in releases if not one.withdrawn]
    totals = {
        "rows": f"{sum(one.rows for one in standing if one.purpose == 'train'):,}",
        "releases": len(standing),
        "last_push": max((one.received for one in standing), default="never"),
    }
    return visit.page("site", status, **values, releases=shown, totals=totals)


def _shown_site(site: SiteInfo, today: str) -> SimpleNamespace:
    """`state` is "" for a site in good standing, else what is the matter."""
    state = "revoked" if site.revoked else "token expired" if site.expires < today else ""
    told = guarantee(site.epsilon, site.earlier, site.total_epsilon, site.presence) if site.releases else None
    return SimpleNamespace(info=site, rows=f"{site.rows:,}", guarantee=told, state=state)


def _for_owner(context: Context, study: str, agreed: PoolStudy) -> dict[str, Any]:
    sites, shared = context.store.sites.all(study), context.store.releases.shared_rows(study)
    wanted = agreed.classifiers
    others = [name for name in CLASSIFIERS if name not in wanted and not CLASSIFIERS[name].on_bits]
    return {
        "sites": [_shown_site(site, context.store.database.today()) for site in sites],
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
        "test_table": context.store.releases.test_table(study),
        "densities": densities_shown(context, study),
        "columns": agreed.reconstructible(),
    }


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
    return (survey_page if visit.study.kind == SurveyStudy.kind else pool_page)(visit, flash, status)
