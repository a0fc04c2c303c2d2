"""compare.json -> one self-contained private page: frontier, threat matrix, and a table for who cannot see plots."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from sfumato.files import write_whole
from sfumato.report.markup import EMPTY, tag, templates
from sfumato.report.page import CLOSED

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640.0, 400.0, 48.0, 44.0, 14.0, 16.0
FORMAL = ("local-dp", "central-dp")
Shown = Mapping[str, Any]


def write_comparison(data: Shown, path: Path) -> None:
    """Write the page whole, for the owner alone."""
    write_whole(path, render_comparison(data), private=True)


def render_comparison(data: Shown) -> str:
    """The page as text."""
    measured = [one for one in data["settings"] if one["refused"] is None]
    measured.sort(key=lambda one: (one["mechanism"], one["openness"]))
    bounded = [one for one in measured if _epsilon(one)]
    shown = _templates().get_template("compare.html.j2")
    return shown.render(
        policy=CLOSED,
        css=Markup(files("sfumato.report").joinpath("page.css").read_text(encoding="utf-8")),
        data=data,
        measured=measured,
        refused=[one for one in data["settings"] if one["refused"] is not None],
        attacks=sorted({name for one in measured for name in one["gains"]}),
        shouted=[one for one in measured if one["above_claim"]],
        by_risk=_frontier(measured, lambda one: float(one["risk"]), 0.0, 1.0, "gain of the strongest adversary"),
        by_epsilon=_by_epsilon(bounded) if bounded else None,
        epsilon=_epsilon,
        formal=FORMAL,
    )


def _epsilon(one: Shown) -> float | None:
    found = one["epsilon"] if one["epsilon"] is not None else one["conditional_epsilon"]
    return None if found is None else float(found)


def _by_epsilon(settings: Sequence[Shown]) -> Markup:
    def place(one: Shown) -> float:
        return math.log10(_epsilon(one) or 1.0)

    low = math.floor(min(map(place, settings)))
    high = max(low + 1, math.ceil(max(map(place, settings))))
    ticks = [(float(power), f"{10.0**power:g}") for power in range(low, high + 1)]
    return _frontier(settings, place, float(low), float(high), "epsilon", ticks)


def _frontier(
    settings: Sequence[Shown],
    place: Callable[[Shown], float],
    low: float,
    high: float,
    axis: str,
    ticks: Sequence[tuple[float, str]] | None = None,
) -> Markup:
    """Accuracy against something: filled circles are proved, squares are not, grey ones are beaten in both."""
    if not settings:
        return EMPTY
    bottom: float = max(0.0, min(min(one["accuracy"], one["majority"]) for one in settings) - 0.05)

    def x(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value - bottom) / (1.0 - bottom)

    marks: list[Markup] = []
    for value, text in ticks or [(step / 5.0, f"{step * 20}%") for step in range(6)]:
        marks.append(tag("line", x1=x(value), x2=x(value), y1=TOP, y2=HEIGHT - BOTTOM, class_="rail"))
        marks.append(tag("text", text, x=x(value), y=HEIGHT - BOTTOM + 16, class_="tick", text_anchor="middle"))
    for level in (step / 10.0 for step in range(11)):
        if level >= bottom:
            marks.append(tag("text", f"{level:.0%}", x=LEFT - 6, y=y(level) + 4, class_="tick", text_anchor="end"))
    marks.append(tag("text", axis, x=(LEFT + WIDTH) / 2, y=HEIGHT - 6, class_="axis-name", text_anchor="middle"))
    for name, words in (("ceiling", "original rows"), ("majority", "commonest class")):
        level = sum(one[name] for one in settings) / len(settings)
        marks.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y(level), y2=y(level), class_=f"level {name}"))
        marks.append(tag("text", words, x=0.55 * WIDTH, y=y(level) + 14, class_="tick", text_anchor="middle"))
    named: set[str] = set()
    labels: list[tuple[float, float]] = []
    for one in sorted(settings, key=lambda one: (not one["dominated"], -one["accuracy"])):
        where = x(place(one)), y(one["accuracy"])
        marks.append(_mark(one, *where))
        if not one["dominated"] and one["mechanism"] not in named:
            named.add(one["mechanism"])
            marks.append(_label(one["mechanism"], *where, labels))
    about = f"Accuracy against {axis}; the table below has the same figures."
    return tag("svg", *marks, viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", class_="frontier", role="img", aria_label=about)


def _mark(one: Shown, x: float, y: float) -> Markup:
    look = "mark dominated" if one["dominated"] else "mark"
    told = f"{one['mechanism']}, {one['setting']}: accuracy {one['accuracy']:.1%}, adversary {one['risk']:+.1%}"
    title = tag("title", told)
    if one["kind"] in FORMAL:
        return tag("circle", title, cx=x, cy=y, r=6, class_=f"{look} proved")
    return tag("rect", title, x=x - 5, y=y - 5, width=10, height=10, class_=look)


def _label(name: str, x: float, y: float, others: list[tuple[float, float]]) -> Markup:
    """Beside the mark, and below labels that would lie under it."""
    while any(abs(y - there) < 13.0 and abs(x - across) < 140.0 for across, there in others):
        y += 13.0
    others.append((x, y))
    anchor, shift = ("end", -9.0) if x > WIDTH * 0.75 else ("start", 9.0)
    return tag("text", name, x=x + shift, y=y + 4, class_="direct", text_anchor=anchor)


@cache
def _templates() -> jinja2.Environment:
    return templates("sfumato.report")
