"""Error against the number of sites, one line for each classifier, with its intervals."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from sfumato.report.markup import tag, trimmed
from sfumato.server.web.chart_scale import Scale, percent
from sfumato.server.web.marks import mark, series

HEIGHT = 240
DODGE = 6
"""Pixels between whiskers of the same number of sites."""

Lines = Sequence[tuple[str, Mapping[str, Any]]]
"""Classifier and the `by_sites` of its results."""


def curve(lines: Lines) -> Markup | None:
    """The picture, or None where no line has two numbers of sites to join.

    Positions across are shares of the width, so that type and signs keep their size on a phone. The numbers of sites
    that were measured stand at equal distances: where sites are many, they are steps of a ladder.
    """
    lines = [(name, found) for name, found in lines if any(p["error"] is not None for p in found["points"])]
    if not any(len(found["points"]) > 1 for _, found in lines):
        return None
    points = [point for _, found in lines for point in found["points"]]
    worst = [found.get("commonest") for _, found in lines]
    scale = Scale.of([*[point["interval"][1] for point in points], *worst])
    counts = sorted({int(point["sites"]) for point in points})
    places = {count: (number + 0.5) / len(counts) for number, count in enumerate(counts)}
    shapes = [*_grid(scale), *_counts(places)]
    if (commonest := max((value for value in worst if value is not None), default=None)) is not None:
        shapes.append(_line("commonest", 0, 1, commonest, commonest, scale))
    for number, (name, found) in enumerate(lines):
        shift = f"translate({trimmed(DODGE * (number - (len(lines) - 1) / 2))} 0)"
        shapes.append(tag("g", *_series(name, found, places, scale), class_=series(name), transform=shift))
    return tag("svg", tag("title", _words(lines)), *shapes, class_="curve", role="img", width="100%", height=HEIGHT)


def _y(value: float, scale: Scale) -> float:
    return HEIGHT * (1 - scale.share(value))


def _line(kind: str, x1: float, x2: float, first: float, second: float, scale: Scale) -> Markup:
    return tag("line", x1=_part(x1), x2=_part(x2), y1=_y(first, scale), y2=_y(second, scale), class_=kind)


def _part(share: float) -> str:
    return f"{trimmed(100 * share)}%"


def _grid(scale: Scale) -> list[Markup]:
    drawn = []
    for tick in scale.ticks:
        drawn.append(_line("grid", 0, 1, tick, tick, scale))
        drawn.append(tag("text", percent(tick), x=-8, y=_y(tick, scale) + 4, class_="tick side"))
    return drawn


def _counts(places: Mapping[int, float]) -> list[Markup]:
    return [
        tag("text", str(count), x=_part(place), y=HEIGHT + 18, class_="tick middle") for count, place in places.items()
    ]


def _series(name: str, found: Mapping[str, Any], places: Mapping[int, float], scale: Scale) -> list[Markup]:
    points = [point for point in found["points"] if point["error"] is not None]
    drawn = [
        _line("join", places[a["sites"]], places[b["sites"]], a["error"], b["error"], scale)
        for a, b in itertools.pairwise(points)
    ]
    for point in points:
        low, high = point["interval"]
        place = places[point["sites"]]
        drawn.append(_line("whisker", place, place, low, high, scale))
        for end in (low, high):
            drawn.append(_put(place, _y(end, scale), tag("path", d="M-3 0h6", class_="whisker")))
        drawn.append(_put(place, _y(point["error"], scale), mark(name)))
    return drawn


def _put(place: float, y: float, child: Markup) -> Markup:
    return tag("svg", child, x=_part(place), y=y, overflow="visible")


def _words(lines: Lines) -> str:
    parts = []
    for name, found in lines:
        first, last = found["points"][0], found["points"][-1]
        parts.append(
            f"{name}: {percent(first['error'])} with {_sites(first['sites'])}, "
            f"{percent(last['error'])} with {_sites(last['sites'])}"
        )
    return "Error by number of sites. " + "; ".join(parts)


def _sites(count: int) -> str:
    return "1 site" if count == 1 else f"{count} sites"
