"""The bars of the attacks: success with its interval, against baseline and control."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from sfumato.report.markup import at, share, tag
from sfumato.report.wording import ends, figure

MIDDLE, HEIGHT = 13, 26


def bar(entry: Mapping[str, Any], state: str) -> Markup:
    """Success from 0 to 1 as a bar, a whisker for its interval, a line for the baseline, a ring for the control."""
    score, baseline, control = entry["score"], entry.get("baseline"), entry.get("control")
    interval = ends(entry.get("interval"))
    words = [f"{entry['name']}: success {figure(score)}"]
    shapes = [
        tag("rect", x=0, y=5, width="100%", height=16, class_="track"),
        tag("rect", x=0, y=5, width=share(score), height=16, class_=f"bar {state}"),
    ]
    if interval is not None:
        words.append(f"95% interval {figure(interval[0])} to {figure(interval[1])}")
        shapes += whisker(*interval)
    if baseline is not None:
        words.append(f"without the release {figure(baseline)}")
        shapes.append(at(baseline, baseline_mark()))
    if control is not None:
        words.append(f"on people not in the table {figure(control)}")
        shapes.append(at(control, control_mark()))
    return chart_row(", ".join(words), *shapes)


def whisker(low: float, high: float) -> list[Markup]:
    """An interval as a thin line with two ends."""
    line = tag("line", x1=share(low), x2=share(high), y1=MIDDLE, y2=MIDDLE, class_="whisker")
    return [line, *[at(end, tag("path", d="M0-4v8", class_="whisker")) for end in (low, high)]]


def chart_row(words: str, *shapes: Markup) -> Markup:
    """A drawing as wide as its place: positions are shares of the width, signs keep their size."""
    return tag("svg", tag("title", words), *shapes, class_="row", role="img", height=HEIGHT, width="100%")


def baseline_mark() -> Markup:
    return tag("path", d="M0-12v24", class_="baseline")


def control_mark() -> Markup:
    return tag("circle", r=4.5, class_="control")


def interval_mark() -> Markup:
    return tag("path", d="M-8 0h16M-8-4v8M8-4v8", class_="whisker")
