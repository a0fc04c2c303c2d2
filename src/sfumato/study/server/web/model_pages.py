"""Models on pages: the list of all, and the page of one with its errors, its sites and the releases it used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi.responses import HTMLResponse
from markupsafe import Markup

from sfumato.core.wording import commonest_words, than_commonest
from sfumato.study.protocol.messages import AGREEING_SITES, DONE, FAILED, QUEUED, RUNNING, ModelInfo
from sfumato.study.server.web.charts import Scale, curve, error_row, mark, percent, series, sign
from sfumato.study.server.web.rendering import Visit
from sfumato.study.server.web.shown_study import used_guarantee

# What each site does to a model, as the pages show it: the error without it, its influence, whether it agrees.


MOST_SITES = 30


@dataclass(frozen=True)
class ShownSite:
    name: str
    rows: str
    share: str
    without: str
    interval: str
    influence: str
    on_its_rows: str
    disagreement: str
    state: str
    """ "" for a site like the others, "disagrees", "left out", "worse with it"."""


@dataclass(frozen=True)
class ShownTrust:
    """Of one model; `warnings` are sites that its owner should look at."""

    model: ModelInfo
    sites: list[ShownSite]
    more: int
    withstands: int | None
    agreeing: bool
    cap: str
    tested_on: str
    words: str
    warnings: list[str]


def shown_trust(model: ModelInfo) -> ShownTrust | None:
    """None for models without such figures: of one site, or of an older version."""
    trust = (model.results or {}).get("trust")
    if not trust or not any(one["without"] or one["disagreement"] is not None for one in trust["sites"]):
        return None
    total = max(1, int((model.results or {}).get("trained_rows", 1)))
    agreeing = trust["trained_on"] == AGREEING_SITES
    sites = [_site(one, total, agreeing=agreeing) for one in trust["sites"]]
    return ShownTrust(
        model=model,
        sites=sites[:MOST_SITES],
        more=max(0, len(sites) - MOST_SITES),
        withstands=trust["withstands"],
        agreeing=agreeing,
        cap="" if trust["largest_share"] is None else percent(trust["largest_share"]),
        tested_on=trust["tested_on"],
        words=trust["words"],
        warnings=[words for one in trust["sites"] if (words := _warning(one))],
    )


def _site(one: Mapping[str, Any], total: int, *, agreeing: bool) -> ShownSite:
    without = one["without"] or {"error": None, "interval": None, "influence": None}
    low, high = (percent(end) for end in without["interval"] or (None, None))
    return ShownSite(
        name=one["site"],
        rows=f"{one['trained_rows']:,} of {one['rows']:,}" if one["trained_rows"] < one["rows"] else f"{one['rows']:,}",
        share=percent(one["trained_rows"] / total),
        without=percent(without["error"]),
        interval=f"{low} to {high}" if without["interval"] else "",
        influence=_signed(without["influence"]),
        on_its_rows=percent(without.get("on_its_rows")),
        disagreement=percent(one["disagreement"]),
        state=_state(one, agreeing=agreeing),
    )


def _state(one: Mapping[str, Any], *, agreeing: bool) -> str:
    if agreeing and one["agrees"] is False:
        return "left out"
    return "worse with it" if is_harmful(one) else "disagrees" if one["agrees"] is False else ""


def is_harmful(one: Mapping[str, Any]) -> bool:
    """Whether the error with the site lies above the interval of the error without it."""
    without = one["without"]
    return bool(without and without["with"] is not None and without["with"] > without["interval"][1])


def _warning(one: Mapping[str, Any]) -> str:
    if not is_harmful(one):
        return ""
    without = one["without"]
    return f"Without {one['site']} the error is {percent(without['error'])} instead of {percent(without['with'])}."


def _signed(value: float | None) -> str:
    """Percentage points: + means more errors with the site."""
    if value is None:
        return "–"
    return f"{100 * value:+.1f}".replace("-", "−") + " points"


STATES = {QUEUED: "waiting", RUNNING: "in training", DONE: "trained", FAILED: "failed"}
FOLDS = "cross-validation"
MOST_LINES = 5
"""More lines than these cannot be told apart; the best are drawn."""


@dataclass(frozen=True)
class Rate:
    """One error with its interval: what it was measured on, in figures and as a row of the chart."""

    kind: str
    error: str
    interval: str
    rows: str
    words: str
    chart: Markup


@dataclass(frozen=True)
class Shown:
    """A model in the list."""

    info: ModelInfo
    state: str
    sign: Markup
    progress: str
    may_download: bool
    rates: list[Rate]

    @property
    def busy(self) -> bool:
        return self.info.state in (QUEUED, RUNNING)


@dataclass(frozen=True)
class Overview:
    """All models: those being trained, the newest of each classifier side by side, and the list of all."""

    busy: list[Shown]
    newest: list[Shown]
    all: list[Shown]
    ticks: list[str]
    curve: Markup | None
    tested_on: str
    tested_words: str
    legend: list[Shown]
    left_out: int
    owner: bool
    trust: ShownTrust | None
    """Of the newest model that says what each site does to it."""


def overview(models: Sequence[ModelInfo], *, owner: bool) -> Overview:
    """`models` come newest first."""
    newest = _newest(models)
    scale = _scale_of(newest)
    told = [shown(model, scale, owner=owner) for model in newest]
    same, left_out = _compared(newest, models)
    listed = [shown(model, scale, owner=owner) for model in models]
    trust = [found for model in models if (found := shown_trust(model))]
    tested = _sites(same[0]) if same else {"tested_on": "", "words": ""}
    return Overview(
        busy=[one for one in reversed(listed) if one.busy],
        newest=told,
        all=listed,
        ticks=[percent(tick) for tick in scale.ticks],
        curve=curve([(model.classifier, _sites(model)) for model in same]),
        tested_on=tested["tested_on"],
        tested_words=tested["words"],
        legend=[entry for entry in told if entry.info in same],
        left_out=left_out,
        owner=owner,
        trust=trust[0] if trust else None,
    )


def _newest(models: Sequence[ModelInfo]) -> list[ModelInfo]:
    """Of each classifier the newest that is trained, the fewest errors first."""
    first: dict[str, ModelInfo] = {}
    for model in models:
        if model.state == DONE and model.results is not None:
            first.setdefault(model.text, model)
    return sorted(first.values(), key=lambda model: _order(model.results or {}))


def _compared(newest: Sequence[ModelInfo], models: Sequence[ModelInfo]) -> tuple[list[ModelInfo], int]:
    """Those whose curves are drawn, tested on the same rows as the newest of them, and how many are not."""
    compared = [model for model in newest if _sites(model)]
    if not compared:
        return [], 0
    kind = _sites(min(compared, key=models.index))["tested_on"]
    same = [model for model in compared if _sites(model)["tested_on"] == kind][:MOST_LINES]
    return same, len(compared) - len(same)


def model_page(visit: Visit, model: ModelInfo) -> HTMLResponse:
    scale = _scale_of([model])
    compared = (model.results or {}).get("by_sites")
    return visit.page(
        "model",
        model=shown(model, scale, owner=visit.owns),
        results=model.results,
        ticks=[percent(tick) for tick in scale.ticks],
        curve=curve([(model.classifier, compared)]) if compared else None,
        points=[_point(point) for point in compared["points"]] if compared else [],
        alone=alone(model, scale),
        told=used_guarantee,
        trust=shown_trust(model),
    )


def shown(model: ModelInfo, scale: Scale, *, owner: bool) -> Shown:
    return Shown(
        info=model,
        state=STATES.get(model.state, model.state),
        sign=sign(model.classifier),
        progress=f"{100 * model.progress:.0f}%",
        may_download=model.state == DONE and (owner or not model.contains_rows),
        rates=[] if model.results is None else [_rate(model.classifier, rate, scale) for rate in _rates(model.results)],
    )


def _scale_of(models: Sequence[ModelInfo]) -> Scale:
    return Scale.of(value for model in models for value in _ends(model.results or {}))


def alone(model: ModelInfo, scale: Scale) -> list[Rate]:
    """Each site alone, the fewest errors first."""
    found = _sites(model).get("alone", [])
    ordered = sorted(found, key=lambda one: 2.0 if one["error"] is None else one["error"])
    return [_rate(model.classifier, {"kind": one["site"], "words": "", **one}, scale) for one in ordered]


def _rates(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Test rows first: they say more than folds of perturbed rows."""
    folds = results.get("cross_validation")
    return [*(results.get("test") or []), *([{"kind": FOLDS, **folds}] if folds else [])]


def _rate(classifier: str, rate: Mapping[str, Any], scale: Scale) -> Rate:
    low, high = (percent(end) for end in rate["interval"])
    error = percent(rate["error"])
    chart = error_row(
        f"{classifier}, {rate['kind']}: error {error}, 95% interval {low} to {high}",
        rate,
        scale,
        mark(classifier),
        series(classifier),
    )
    rows = rate.get("trained_rows", rate["rows"])
    words = f"{rate.get('words', '')} {_beside_commonest(rate)}".strip()
    return Rate(str(rate["kind"]), error, f"{low} to {high}", f"{rows:,}", words, chart)


def _beside_commonest(rate: Mapping[str, Any]) -> str:
    """A sentence where the model is no better than always answering the commonest class."""
    commonest, interval = rate.get("commonest"), rate["interval"]
    if commonest is None or rate["error"] is None:
        return ""
    return commonest_words(than_commonest(interval[0] - commonest, interval[1] - commonest))


def _sites(model: ModelInfo) -> dict[str, Any]:
    return dict((model.results or {}).get("by_sites") or {})


def _order(results: Mapping[str, Any]) -> float:
    """Fewest errors first, judged by the first rate that there is."""
    return next((rate["error"] for rate in _rates(results) if rate["error"] is not None), 2.0)


def _ends(results: Mapping[str, Any]) -> list[float]:
    rates = [*_rates(results), *(results.get("by_sites") or {}).get("alone", [])]
    return [end for rate in rates for end in (rate["interval"][1], rate.get("commonest")) if end is not None]


def _point(point: Mapping[str, Any]) -> dict[str, str]:
    low, high = (percent(end) for end in point["interval"])
    ends = [percent(point.get(end)) for end in ("lowest", "highest")]
    return {
        "sites": str(point["sites"]),
        "error": percent(point["error"]),
        "interval": f"{low} to {high}",
        "spread": f"{ends[0]} to {ends[1]}" if point.get("choices", 1) > 1 else "–",
        "choices": str(point.get("choices", "–")),
    }
