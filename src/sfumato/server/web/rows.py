"""Errors side by side, one row each: a sign where the error is, a whisker for its interval, a bar to be beaten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from sfumato.report.markup import tag, trimmed
from sfumato.server.web.chart_scale import Scale, percent

MIDDLE, HEIGHT = 13, 26


def error_row(words: str, rate: Mapping[str, Any], scale: Scale, drawn: Markup, kind: str = "") -> Markup:
    """`drawn` is put where the error is; nothing is where there is none."""
    shapes = [tag("line", x1=0, x2="100%", y1=MIDDLE, y2=MIDDLE, class_="rail")]
    commonest = rate.get("commonest")
    if commonest is not None:
        shapes.append(_at(commonest, scale, tag("path", d="M0-9v18", class_="commonest")))
        words += f", always answering the commonest class {percent(commonest)}"
    if rate["error"] is not None:
        low, high = (_part(end, scale) for end in rate["interval"])
        shapes.append(tag("line", x1=low, x2=high, y1=MIDDLE, y2=MIDDLE, class_="whisker"))
        shapes += [_at(end, scale, tag("path", d="M0-4v8", class_="whisker")) for end in rate["interval"]]
        shapes.append(_at(rate["error"], scale, drawn))
    return tag(
        "svg", tag("title", words), *shapes, class_=f"row {kind}".strip(), role="img", width="100%", height=HEIGHT
    )


def _part(value: float, scale: Scale) -> str:
    return f"{trimmed(100 * scale.share(value))}%"


def _at(value: float, scale: Scale, child: Markup) -> Markup:
    return tag("svg", child, x=_part(value, scale), y=MIDDLE, overflow="visible")
