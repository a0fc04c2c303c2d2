"""What pages show: guarantees, sites and what a study asks for; models with their errors, sites and releases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from fastapi.responses import HTMLResponse

from sfumato.core.wording import COMMONEST_WORDS, than_commonest
from sfumato.guarantee import AllReleases
from sfumato.guarantee import Guarantee as Stated
from sfumato.guarantee.all_releases import hidden_presence, total_without_delta
from sfumato.guarantee.cost import Central, presence
from sfumato.guarantee.guarantee import LOCAL_DP, WEAK_CENTRAL, infinite
from sfumato.study.protocol.messages import AGREEING_SITES, DONE, FAILED, QUEUED, RUNNING, ModelInfo, SiteInfo
from sfumato.study.protocol.pool_study import PoolStudy
from sfumato.study.server.store.release_store import guarantee_words
from sfumato.study.server.web.charts import Scale, curve, error_row, mark, percent, series, sign
from sfumato.study.server.web.rendering import Visit

MOST_SITES = 30
MOST_LINES = 5
"""More lines than these cannot be told apart; the best are drawn."""
STATES = {QUEUED: "waiting", RUNNING: "in training", DONE: "trained", FAILED: "failed"}
FOLDS = "cross-validation"
LABELS = " If the column to predict is released exactly, it reveals more on top."


@dataclass(frozen=True)
class Guarantee:
    """What a site asserts, in short and in full; `state` gives the colour."""

    short: str
    state: str
    words: str


def guarantee(
    epsilon: float | None, earlier: int = 0, total: float | None = None, hidden: dict[str, float] | None = None
) -> Guarantee:
    """What these figures let a reader of this release, and of all `earlier` ones of its rows, become sure of.

    `hidden`: epsilon and delta of a person's presence, of made-up rows.
    """
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


def shown_site(site: SiteInfo, today: str) -> SimpleNamespace:
    """`state` is "" for a site in good standing, else what is the matter."""
    state = "revoked" if site.revoked else "token expired" if site.expires and site.expires < today else ""
    told = guarantee(site.epsilon, site.earlier, site.total_epsilon, site.presence) if site.releases else None
    return SimpleNamespace(info=site, rows=f"{site.rows:,}", guarantee=told, state=state)


def asked(definition: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What every release of the study must be, as rows of a table."""
    mechanism = definition.get("mechanism") or {}
    stated = mechanism.get("parameters") or {}
    columns = (definition.get("schema") or {}).get("columns") or []
    label = next((str(column.get("name")) for column in columns if column.get("role") == "label"), "")
    plan = PoolStudy.from_dict(definition).plan if stated.get("plan") else None
    most = definition.get("largest_site_share")
    rows = [
        ("Mechanism", _asked_mechanism(str(mechanism.get("name", "")), stated)),
        ("Guarantee", _asked_guarantee(definition.get("guarantee"))),
        ("Columns", f"{len(columns) - bool(label)} and the label {label}" if label else str(len(columns))),
        ("Plan", f"sites push noisy counts; the plan is by {plan.chosen_by}" if plan else ""),
        ("Space", str(definition.get("space") or "")),
        ("Largest site", "" if most is None else f"at most {float(most):.0%} of the rows that models are trained on"),
    ]
    return [(name, value) for name, value in rows if value]


def _asked_mechanism(name: str, stated: Mapping[str, Any]) -> str:
    """With its parameters; a plan has a row of its own."""
    parameters = ", ".join(f"{key} = {value}" for key, value in stated.items() if key != "plan")
    return " with ".join(filter(None, [name, parameters]))


def _asked_guarantee(found: Any) -> str:
    if isinstance(found, Mapping) and "delta" in found:
        figures = f"epsilon at most {float(found['epsilon']):.9g} at delta {float(found['delta']):g}"
        return f"proved, {figures} for a person's presence in the table"
    if isinstance(found, Mapping):
        return f"proved, epsilon at most {float(found.get('epsilon_record', 0)):.9g} for a whole record"
    return "no proof is required (empirical releases are allowed)"


def shown_trust(model: ModelInfo) -> dict[str, Any] | None:
    """What each site does to a model: the error without it, its influence, whether it agrees; with `warnings` of sites
    that its owner should look at. None for models without such figures: of one site, or of an older version."""
    trust = (model.results or {}).get("trust")
    if not trust or not any(one["without"] or one["disagreement"] is not None for one in trust["sites"]):
        return None
    total = max(1, int((model.results or {}).get("trained_rows", 1)))
    agreeing, sites = trust["trained_on"] == AGREEING_SITES, trust["sites"]
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


def overview(models: Sequence[ModelInfo], *, owner: bool) -> dict[str, Any]:
    """All models, the newest first, as the template shows them: those being trained, the newest of each classifier side
    by side, and the list of all; `trust` is of the newest that says what each site does to it."""
    newest = _newest(models)
    scale = _scale_of(newest)
    told = [shown(model, scale, owner=owner) for model in newest]
    same, left_out = _compared(newest, models)
    listed = [shown(model, scale, owner=owner) for model in models]
    return {
        "busy": [one for one in reversed(listed) if one.busy],
        "newest": told,
        "all": listed,
        "ticks": [percent(tick) for tick in scale.ticks],
        "curve": curve([(model.classifier, _sites(model)) for model in same]),
        "tested": _sites(same[0]) if same else {},
        "legend": [entry for entry in told if entry.info in same],
        "left_out": left_out,
        "owner": owner,
        "trust": next((found for model in models if (found := shown_trust(model))), None),
    }


def _compared(newest: Sequence[ModelInfo], models: Sequence[ModelInfo]) -> tuple[list[ModelInfo], int]:
    """Those whose curves are drawn, tested on the same rows as the newest of them, and how many are not."""
    compared = [model for model in newest if _sites(model)]
    kind = _sites(min(compared, key=models.index))["tested_on"] if compared else None
    same = [model for model in compared if _sites(model)["tested_on"] == kind][:MOST_LINES]
    return same, len(compared) - len(same)


def model_page(visit: Visit, model: ModelInfo) -> HTMLResponse:
    scale = _scale_of([model])
    compared = _sites(model)
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
    """A model in the list."""
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
