"""Accuracy kept against what is given away, as a picture whose marks the page's script can move."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from sfumato.report.markup import EMPTY, tag

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640.0, 400.0, 48.0, 44.0, 14.0, 16.0
FORMAL = ("local-dp", "central-dp")
Shown = Mapping[str, Any]
Box = tuple[float, float, float, float]
"""Left, top, right and bottom of something that is drawn."""


def claimed_epsilon(one: Shown) -> float | None:
    """What is proved, or would be if bounds and categories were public."""
    found = one["epsilon"] if one["epsilon"] is not None else one["conditional_epsilon"]
    return None if found is None else float(found)


def by_risk(settings: Sequence[Shown]) -> Markup:
    """Against the gain of the strongest adversary."""
    places = [math.nan if one["risk"] is None else float(one["risk"]) for one in settings]
    return _frontier(settings, places, (0.0, 1.0), "gain of the strongest adversary", "risk")


def by_epsilon(settings: Sequence[Shown]) -> Markup:
    """Against epsilon, for those settings that have one."""
    places = [math.log10(claimed_epsilon(one) or 0.0) if claimed_epsilon(one) else math.nan for one in settings]
    there = [place for place in places if not math.isnan(place)]
    if not there:
        return EMPTY
    low = math.floor(min(there))
    high = max(low + 1, math.ceil(max(there)))
    ticks = [(float(power), f"{10.0**power:g}") for power in range(low, high + 1)]
    return _frontier(settings, places, (float(low), float(high)), "epsilon", "epsilon", ticks)


def gained(one: Shown) -> str:
    """What the strongest adversary gains, and which risks none could try."""
    found = "none tried" if one["risk"] is None else f"{one['risk']:+.1%}"
    return f"{found}, not tried: {', '.join(one['untried'])}" if one["untried"] else found


def _frontier(
    settings: Sequence[Shown],
    places: Sequence[float],
    ends: tuple[float, float],
    axis: str,
    kind: str,
    ticks: Sequence[tuple[float, str]] | None = None,
) -> Markup:
    """Filled circles are proved, squares are not, grey ones are beaten in both. Mark i stands for setting i."""
    shown = [i for i, one in enumerate(settings) if one["accuracy"] is not None and not math.isnan(places[i])]
    if not shown:
        return EMPTY
    low, high = ends
    bottom: float = max(0.0, min(min(settings[i]["accuracy"], settings[i]["majority"]) for i in shown) - 0.05)

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - bottom) / (1.0 - bottom)

    drawn = [*_axes(x, y, bottom, axis, ticks or [(step / 5.0, f"{step * 20}%") for step in range(6)])]
    drawn += _levels(settings, y)
    marks = {i: (x(places[i]), y(settings[i]["accuracy"])) for i in shown}
    taken = [
        *_level_boxes(settings, y),
        *((across - 7, down - 7, across + 7, down + 7) for across, down in marks.values()),
    ]
    named: set[str] = set()
    for i in sorted(shown, key=lambda i: (not settings[i]["dominated"], -settings[i]["accuracy"])):
        one, label_at = settings[i], None
        if not one["dominated"] and one["mechanism"] not in named:
            named.add(one["mechanism"])
            label_at = free_place(*marks[i], one["mechanism"], taken)
        drawn.append(_point(i, one, *marks[i], label_at))
    about = f"Accuracy against {axis}; the table below has the same figures."
    scale = {"left": LEFT, "right": WIDTH - RIGHT, "top": TOP, "bottom": HEIGHT - BOTTOM, "least": bottom}
    data = {f"data_{name}": f"{value:.4g}" for name, value in scale.items()}
    box = f"0 0 {WIDTH:g} {HEIGHT:g}"
    return tag("svg", *drawn, viewBox=box, class_="frontier", role="img", aria_label=about, data_kind=kind, **data)


def _axes(
    x: Callable[[float], float], y: Callable[[float], float], bottom: float, axis: str, ticks: Sequence[Any]
) -> list[Markup]:
    drawn = []
    for value, text in ticks:
        drawn.append(tag("line", x1=x(value), x2=x(value), y1=TOP, y2=HEIGHT - BOTTOM, class_="rail"))
        drawn.append(tag("text", text, x=x(value), y=HEIGHT - BOTTOM + 16, class_="tick", text_anchor="middle"))
    for level in (step / 10.0 for step in range(11)):
        if level >= bottom:
            drawn.append(tag("text", f"{level:.0%}", x=LEFT - 6, y=y(level) + 4, class_="tick", text_anchor="end"))
    drawn.append(tag("text", axis, x=(LEFT + WIDTH) / 2, y=HEIGHT - 6, class_="axis-name", text_anchor="middle"))
    return drawn


LEVELS = (("ceiling", "original rows", -5.0), ("majority", "commonest class", 14.0))


def _levels(settings: Sequence[Shown], y: Callable[[float], float]) -> list[Markup]:
    drawn = []
    for (name, words, beside), box in zip(LEVELS, _level_boxes(settings, y), strict=True):
        level = _level(settings, name)
        drawn.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(level), y2=y(level), class_=f"level {name}"))
        text, here = f"{words}, {level:.0%}", " ".join(f"{edge:.1f}" for edge in box)
        down = y(level) + beside
        drawn.append(tag("text", text, x=LEFT + 6, y=down, class_="tick", data_box=here))
    return drawn


def _level(settings: Sequence[Shown], name: str) -> float:
    return float(sum(one[name] for one in settings) / len(settings))


def _level_boxes(settings: Sequence[Shown], y: Callable[[float], float]) -> list[Box]:
    """Where the words beside the two lines lie, which no other words may cover."""
    return [
        (
            LEFT + 6,
            y(_level(settings, name)) + beside - 11,
            LEFT + 6 + 7 * (len(words) + 5),
            y(_level(settings, name)) + beside + 3,
        )
        for name, words, beside in LEVELS
    ]


def _point(number: int, one: Shown, x: float, y: float, label_at: tuple[float, bool] | None) -> Markup:
    look = "mark dominated" if one["dominated"] else "mark"
    told = f"{one['mechanism']}, {one['setting']}: accuracy {one['accuracy']:.1%}, adversary {gained(one)}"
    if one["kind"] in FORMAL:
        mark = tag("circle", r=6, class_=f"{look} proved")
    else:
        mark = tag("rect", x=-5, y=-5, width=10, height=10, class_=look)
    down, left = label_at or (0.0, False)
    beside = -9.0 if left else 9.0
    leader = tag("line", x1=0, y1=0, x2=beside, y2=down, class_="leader", visibility=None if down else "hidden")
    label = tag(
        "text",
        one["mechanism"],
        x=beside,
        y=down + 4.0,
        class_="direct",
        text_anchor="end" if left else "start",
        visibility="hidden" if label_at is None else None,
    )
    where = f"translate({x:.1f} {y:.1f})"
    return tag("g", tag("title", told), leader, mark, label, class_="point", data_i=number, transform=where)


def free_place(x: float, y: float, name: str, taken: list[Box]) -> tuple[float, bool]:
    """The nearest place for a name beside its mark that covers nothing: how far down, and whether to the left.

    The page's script does the same when marks have moved.
    """
    wide, sides = 7.0 * len(name), (True, False) if x > 0.75 * WIDTH else (False, True)
    for step in (0, 1, -1, 2, -2, 3, -3, 4, -4, 5, -5, 6, -6):
        for left in sides:
            start, down = x - 9 - wide if left else x + 9, y + 13 * step
            box = (start, down - 7, start + wide, down + 7)
            within = start >= LEFT and start + wide <= WIDTH and TOP <= down <= HEIGHT - BOTTOM
            if within and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                return 13.0 * step, left
    return 0.0, sides[0]


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
