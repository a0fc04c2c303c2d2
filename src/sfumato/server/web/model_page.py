"""The page of one model: its errors, what more sites bring, each site alone, the releases it used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.responses import HTMLResponse

from sfumato.protocol.messages import ModelInfo, StudyInfo
from sfumato.server.store import Caller
from sfumato.server.web.answers import page
from sfumato.server.web.chart_scale import percent
from sfumato.server.web.curve import curve
from sfumato.server.web.shown_models import alone, scale_of, shown
from sfumato.server.web.shown_study import used_guarantee
from sfumato.server.web.shown_trust import shown_trust


def model_page(caller: Caller, study: StudyInfo, model: ModelInfo, *, owner: bool) -> HTMLResponse:
    scale = scale_of(model)
    compared = (model.results or {}).get("by_sites")
    return page(
        "model",
        caller=caller,
        study=study,
        model=shown(model, scale, owner=owner),
        results=model.results,
        ticks=[percent(tick) for tick in scale.ticks],
        curve=curve([(model.classifier, compared)]) if compared else None,
        points=[_point(point) for point in compared["points"]] if compared else [],
        alone=alone(model, scale),
        told=used_guarantee,
        trust=shown_trust(model),
    )


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
