"""Screens as pages: templates, words in the reader's language, the picture, and the few files that pages load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from sfumato.api.desk.heard import heard
from sfumato.api.desk.words import WORDS, figure, say
from sfumato.auditing.report.markup import short_name, templates
from sfumato.core.svg import tag

STATIC = {"desk.css": "text/css; charset=utf-8", "desk.js": "text/javascript; charset=utf-8"}
FILES = {
    "release.csv": "text/csv; charset=utf-8",
    "release.xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "release.parquet": "application/vnd.apache.parquet",
    "card.json": "application/json",
    "model.json": "application/json",
    "signed.txt": "text/plain; charset=utf-8",
    "signed.txt.sig": "application/octet-stream",
    "report.html": "text/html; charset=utf-8",
    "certificate.html": "text/html; charset=utf-8",
}
"""What the desk hands out of a release's folder."""
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'"


@dataclass(frozen=True)
class Answer:
    """What is sent back; a path stands for the file's content."""

    body: bytes | Path
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@cache
def _environment() -> jinja2.Environment:
    def duration(seconds: float) -> str:
        """As people say it: under a minute in tens of seconds, else in minutes."""
        return f"{10 * round(seconds / 10 + 0.5):.0f} s" if seconds < 60 else f"{seconds / 60:.0f} min"

    made = templates("sfumato.api.desk", short_name=short_name)
    made.globals |= {"duration": duration, "is_known": WORDS.__contains__}
    return made


def page(screen: str, language: str, values: Mapping[str, Any], status: int = 200) -> Answer:
    """A screen in a language."""
    plainly = values["desk"].plainly if "desk" in values else str
    spoken = {name: partial(one, language=language) for name, one in (("t", say), ("figure", figure))}
    spoken["heard"] = partial(heard, language=language, plainly=plainly)
    template = _environment().get_template(f"{screen}.html.j2")
    return Answer(template.render(**{**spoken, **values}, language=language).encode(), status)


@cache
def static_file(path: str) -> Answer | None:
    """A style sheet or the script, which tell nothing; None for every other path."""
    name = path.removeprefix("/")
    if name not in STATIC:
        return None
    return Answer(files("sfumato.api.desk").joinpath(name).read_bytes(), 200, {"Content-Type": STATIC[name]})


# Use against risk, as one picture: what public tables kept where a bound is proved, and what was measured here.

WIDTH, HEIGHT, LEFT, RIGHT, ABOVE, BELOW = 620, 320, 70, 130, 15, 45
TICKS = 5
APART = 15.0  # pixels between two lines of words


@dataclass(frozen=True)
class Spot:
    """Right about others (a share), and extra hits in 100: the most that a bound allows, or the most that was met; with
    the letter of its mark, where it has one."""

    right: float
    extra: float
    mark: str = ""
    is_present: bool = False
    """Whether it is what is chosen now."""


def scatter(
    proved: Sequence[Spot], measured: Sequence[Spot], lines: Sequence[tuple[str, float]], language: str
) -> Markup:
    """Circles are bounds with the use that public tables had, squares were measured. The tables say the same."""
    spots = (*proved, *measured)
    most = max([10.0, *(one.extra for one in spots)])

    def x(extra: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * max(0.0, extra) / most

    def y(right: float) -> float:
        return ABOVE + (HEIGHT - BELOW - ABOVE) * (1 - right)

    foot = HEIGHT - BELOW
    middle = {"text_anchor": "middle", "class_": "mark"}
    along = [most * tick / TICKS for tick in range(TICKS + 1)]
    drawn = [
        tag("path", d=f"M{LEFT} {ABOVE}V{foot}H{WIDTH - RIGHT}", class_="axis"),
        *(tag("text", f"{one:.0f}", x=x(one), y=foot + 18, text_anchor="middle") for one in along),
        *(tag("text", f"{one}", x=LEFT - 8, y=y(one / 100) + 4, text_anchor="end") for one in (0, 50, 100)),
        tag("text", say("axis_extra", language), x=WIDTH - RIGHT, y=HEIGHT - 8, text_anchor="end"),
        tag("text", say("axis_right", language), x=LEFT - 8, y=y(0.75) + 4, text_anchor="end"),
        *_lines([(words, y(right)) for words, right in lines]),
        *(tag("circle", cx=x(one.extra), cy=y(one.right), r=6, class_="proved") for one in proved),
        *(
            tag("rect", x=x(one.extra) - 5, y=y(one.right) - 5, width=10, height=10, class_="measured")
            for one in measured
        ),
        *(tag("circle", cx=x(one.extra), cy=y(one.right), r=11, class_="present") for one in spots if one.is_present),
        *(tag("text", one.mark, x=x(one.extra), y=y(one.right) - 10, **middle) for one in spots if one.mark),
    ]
    return tag("svg", *drawn, viewBox=f"0 0 {WIDTH} {HEIGHT}", aria_hidden="true", class_="plot")


def _lines(lines: Sequence[tuple[str, float]]) -> list[Markup]:
    """Lines across with their words beside them, which never stand on each other."""
    drawn, last = [], -APART
    for words, height in sorted(lines, key=lambda one: one[1]):
        last = max(height, last + APART)
        across = tag("path", d=f"M{LEFT} {height:.1f}H{WIDTH - RIGHT}", class_="reference")
        drawn.append(across + tag("text", words, x=WIDTH - RIGHT + 6, y=last + 4))
    return drawn
