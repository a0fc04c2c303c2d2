"""Templates, sections of pages, and names that may be broken."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any

import jinja2
from markupsafe import Markup, escape

from sfumato.auditing.extra import shown_points
from sfumato.auditing.report.wording import AS_READ, ends, of_100
from sfumato.core.svg import EMPTY, tag, trimmed

LONGEST = 64
"""Characters of a name; the list of all columns has it in full."""


Shown = SimpleNamespace
"""What a template shows, by name: put together where it is drawn."""


@dataclass(frozen=True)
class Section:
    """A part of a page that has drawn itself. Without `html` it does not apply, and `why` is one line."""

    id: str
    title: str
    html: Markup = EMPTY
    why: str = ""


def templates(package: str, **filters: Callable[..., object]) -> jinja2.Environment:
    """The templates of a package. A name that a template does not know is an error, never an empty place."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(package, "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"breakable": breakable, **filters}
    return environment


@cache
def report_text(name: str) -> str:
    """A style sheet or a script of the report: our own file, so it needs no escaping."""
    return files("sfumato.auditing.report").joinpath(name).read_text(encoding="utf-8")


@cache
def report_template(name: str) -> jinja2.Template:
    """A page of the report; figures are written as its readers know them."""
    return templates("sfumato.auditing.report", short_name=short_name, **AS_READ).get_template(name)


def drawn(name: str, title: str, why: str = "", **parts: object) -> Section:
    """A section by its own template, or `why` it does not apply."""
    html = EMPTY if why else Markup(report_template(f"{name}.html.j2").render(parts))
    return Section(name, title, html, why)


def breakable(text: object) -> Markup:
    """A name that may be broken where a person would break it: behind an underscore, a slash, a full stop."""
    safe = escape(text)
    for sign in "_/.=":
        safe = safe.replace(sign, Markup(f"{sign}<wbr>"))
    return safe


def short_name(text: object) -> Markup:
    """The same, cut in the middle where it would fill a page."""
    name = str(text)
    return breakable(name if len(name) <= LONGEST else f"{name[: LONGEST - 20]}…{name[-16:]}")


def share(value: float) -> str:
    """A position on a scale from 0 to 1 as a percentage of the width."""
    return f"{trimmed(100 * min(1.0, max(0.0, value)))}%"


def at(value: float, *children: object) -> Markup:
    """Children drawn around a position of the scale, in pixels: shapes keep their size whatever the width."""
    return tag("svg", *children, x=share(value), y="50%", overflow="visible")


# Bars of an attacker: right of 100 with its interval, without the release, and about people not in the table.


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
    """What the signs mean; the ring only where people not in the table are compared."""
    told = [(interval_mark(), "95% interval"), (without_mark(), "without the release")]
    if any(entry.get("control") is not None for entry in attacks):
        told.append((others_mark(), "about people not in the table"))
    return tag("p", *(tag("span", sign(mark), f" {words}") for mark, words in told), class_="legend")


# Does an attacker learn from the release? What is right is read against the same without it, and about others.


GAINS, POPULATION, UNCLEAR, NO_GAIN = "gains", "population", "unclear", "no-gain"
SIGNS = {GAINS: "▲", POPULATION: "◆", UNCLEAR: "?", NO_GAIN: "▽"}
IN_SHORT = {
    GAINS: "learns from the release",
    POPULATION: "as much about people not in the table",
    UNCLEAR: "within chance",
    NO_GAIN: "learns nothing",
}
IN_WORDS = {
    GAINS: "More than without the release, beyond chance.",
    POPULATION: "More than without the release, but no more than about people not in the table.",
    UNCLEAR: "More than without the release, but that may be chance.",
    NO_GAIN: "No more than without the release.",
}
COUNTED = {
    GAINS: ("learns from the release", "learn from the release"),
    POPULATION: ("learns as much about people not in the table", "learn as much about people not in the table"),
    UNCLEAR: ("is within chance", "are within chance"),
    NO_GAIN: ("learns nothing", "learn nothing"),
}
ORDER = (GAINS, POPULATION, UNCLEAR, NO_GAIN)
CHANCE = 0.025
"""In all: where the best of many figures is shown, each must pass a stricter test (Bonferroni)."""


def verdict(entry: Mapping[str, Any]) -> str:
    """Compare the lower end of the interval with right without the release, then with that about other people."""
    low = (ends(entry.get("interval")) or (entry["score"], 1.0))[0]
    return _verdict(entry["score"], low, entry.get("baseline"), entry.get("control"))


def column_verdict(column: Mapping[str, Any], people: int, comparisons: int) -> str:
    """The same for one column; its interval follows from the number of people attacked and of figures compared."""
    score = float(column["score"])
    width = NormalDist().inv_cdf(1 - CHANCE / max(comparisons, 1))
    error = math.sqrt(score * (1 - score) / people) if people else math.inf
    return _verdict(score, score - width * error, column.get("baseline"), column.get("control"))


def _verdict(score: float, low: float, baseline: float | None, control: float | None) -> str:
    if score <= (baseline or 0.0):
        return NO_GAIN
    if low <= (baseline or 0.0):
        return UNCLEAR
    return POPULATION if control is not None and low <= control else GAINS


def in_all(verdicts: Iterable[str]) -> str:
    """One sentence: how many attackers learn something.

    >>> in_all([GAINS, GAINS, NO_GAIN])
    'Of 3 attackers, 2 learn from the release and 1 learns nothing.'
    """
    found = list(verdicts)
    if not found:
        return ""
    if len(set(found)) == 1:
        one, several = COUNTED[found[0]]
        return f"The one attacker {one}." if len(found) == 1 else f"All {len(found)} attackers {several}."
    parts = [f"{found.count(state)} {COUNTED[state][found.count(state) > 1]}" for state in ORDER if state in found]
    return f"Of {len(found)} attackers, {', '.join(parts[:-1])} and {parts[-1]}."
