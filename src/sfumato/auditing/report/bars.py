"""Bars of an attacker: right of 100 with its interval, without the release, and about people not in the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from markupsafe import Markup

from sfumato.auditing.extra import shown_points
from sfumato.auditing.report.markup import at, share
from sfumato.auditing.report.wording import ends, of_100
from sfumato.core.svg import tag

MIDDLE, HEIGHT = 13, 26


def bar(entry: Mapping[str, Any], state: str) -> Markup:
    """Right as a bar, a whisker for its interval, a line for right without the release, a ring for other people."""
    points, others = shown_points(entry), entry.get("control")
    right, without = points.right / 100, points.without / 100
    words = [f"{entry['name']}: right {of_100(right)} of 100"]
    shapes = [
        tag("rect", x=0, y=5, width="100%", height=16, class_="track"),
        tag("rect", x=0, y=5, width=share(right), height=16, class_=f"bar {state}"),
    ]
    if ends(entry.get("interval")) is not None:
        low, high = without + points.low / 100, without + points.high / 100
        words.append(f"95% interval {of_100(low)} to {of_100(high)}")
        shapes += whisker(low, high)
    if points.pairs or entry.get("baseline") is not None:
        words.append(f"without the release {of_100(without)}")
        shapes.append(at(without, without_mark()))
    if others is not None:
        words.append(f"about people not in the table {of_100(others)}")
        shapes.append(at(others, others_mark()))
    return chart_row(", ".join(words), *shapes)


def whisker(low: float, high: float) -> list[Markup]:
    """An interval as a thin line with two ends."""
    line = tag("line", x1=share(low), x2=share(high), y1=MIDDLE, y2=MIDDLE, class_="whisker")
    return [line, *[at(end, tag("path", d="M0-4v8", class_="whisker")) for end in (low, high)]]


def chart_row(words: str, *shapes: Markup) -> Markup:
    """A drawing as wide as its place: positions are shares of the width, signs keep their size."""
    return tag("svg", tag("title", words), *shapes, class_="row", role="img", height=HEIGHT, width="100%")


def sign(mark: Markup) -> Markup:
    """A mark in a legend."""
    return tag("svg", mark, viewBox="-12 -12 24 24", width=20, height=20, class_="sign", aria_hidden="true")


def without_mark() -> Markup:
    return tag("path", d="M0-12v24", class_="baseline")


def others_mark() -> Markup:
    return tag("circle", r=4.5, class_="control")


def interval_mark() -> Markup:
    return tag("path", d="M-8 0h16M-8-4v8M8-4v8", class_="whisker")


def legend(attacks: Iterable[Mapping[str, Any]]) -> Markup:
    """What the signs mean; the ring only where somebody is compared with people not in the table."""
    told = [(interval_mark(), "95% interval"), (without_mark(), "without the release")]
    if any(entry.get("control") is not None for entry in attacks):
        told.append((others_mark(), "about people not in the table"))
    return tag("p", *(tag("span", sign(mark), f" {words}") for mark, words in told), class_="legend")
