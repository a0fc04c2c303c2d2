"""What each site does to a model, as the pages show it: the error without it, its influence, whether it agrees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.protocol.messages import AGREEING_SITES, ModelInfo
from sfumato.server.web.error_charts import percent

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
