"""Pictures on pages: error rates (scale, signs of classifiers, rows side by side, curves over sites), bars and steps.
Each classifier has its own shape and its own colour, so that neither is needed alone. Positions across are shares of
the width: type and signs keep their size on a phone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from sfumato.auditing.report.markup import share
from sfumato.core.svg import tag, trimmed
from sfumato.core.wording import counted
from sfumato.learn.classifiers.factory import CLASSIFIERS

STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)
MOST_STEPS = 5
SHAPES = (
    "M0-5a5 5 0 1 1 0 10a5 5 0 1 1 0-10z",  # disc
    "M-4.5-4.5h9v9h-9z",  # square
    "M0-6l6 6l-6 6l-6-6z",  # diamond
    "M0-6l5.8 10h-11.6z",  # triangle
    "M0 6l5.8-10h-11.6z",  # triangle on its tip
    "M-6-2h4v-4h4v4h4v4h-4v4h-4v-4h-4z",  # cross
    "M0-6.2l5.9 4.3l-2.3 6.9h-7.2l-2.3-6.9z",  # pentagon
)
COLOURS = 7
_PLACES = {name: place for place, name in enumerate(CLASSIFIERS)}
ROW_HEIGHT, CURVE_HEIGHT = 26, 240
MIDDLE = ROW_HEIGHT / 2
DODGE = 6  # pixels between whiskers of the same number of sites
Lines = Sequence[tuple[str, Mapping[str, Any]]]
"""Classifier and the `by_sites` of its results."""


class Scale(NamedTuple):
    """Zero is always there: a difference looks as large as it is."""

    top: float
    step: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Scale:
        """
        >>> Scale.of([0.03, 0.17]).ticks
        [0.0, 0.05, 0.1, 0.15, 0.2]
        """
        largest = min(1.0, max((value for value in values if value is not None), default=1.0))
        step = next((step for step in STEPS if largest <= MOST_STEPS * step), STEPS[-1])
        count = max(1, -int(-(largest - 1e-9) // step))
        return cls(round(count * step, 10), step)

    @property
    def ticks(self) -> list[float]:
        return [round(number * self.step, 10) for number in range(round(self.top / self.step) + 1)]

    def share(self, value: float) -> float:
        """Position between 0 and 1."""
        return min(1.0, max(0.0, value / self.top))


def percent(value: float | None) -> str:
    """An error as people say it; None is a dash, never a zero.

    >>> percent(0.0834), percent(0.5), percent(0.0), percent(None)
    ('8.3%', '50%', '0%', '–')
    """
    return "–" if value is None else f"{100 * value:.1f}".removesuffix(".0") + "%"


def series(classifier: str) -> str:
    """The classes that give a classifier its colour; when colours come round again, lines are dashed."""
    place = _PLACES.get(classifier, 0)
    return f"s{place % COLOURS}{' again' if place >= COLOURS else ''}"


def mark(classifier: str) -> Markup:
    """Its sign, drawn around the origin: no two have both shape and colour in common."""
    place = _PLACES.get(classifier, 0)
    return tag("path", d=SHAPES[(place + 3 * (place // COLOURS)) % len(SHAPES)], class_="mark")


def sign(classifier: str) -> Markup:
    place = {"viewBox": "-8 -8 16 16", "width": 16, "height": 16}
    return tag("svg", mark(classifier), **place, class_=f"sign {series(classifier)}", aria_hidden="true")


def error_row(words: str, rate: Mapping[str, Any], scale: Scale, drawn: Markup, kind: str = "") -> Markup:
    """One error a row: `drawn` where it is, a whisker for its interval, a bar to be beaten; nothing without one."""
    shapes = [tag("line", x1=0, x2="100%", y1=MIDDLE, y2=MIDDLE, class_="rail")]
    commonest = rate.get("commonest")
    if commonest is not None:
        shapes.append(_put(scale.share(commonest), MIDDLE, tag("path", d="M0-9v18", class_="commonest")))
        words += f", always answering the commonest class {percent(commonest)}"
    if rate["error"] is not None:
        low, high = (share(scale.share(end)) for end in rate["interval"])
        shapes.append(tag("line", x1=low, x2=high, y1=MIDDLE, y2=MIDDLE, class_="whisker"))
        for end in rate["interval"]:
            shapes.append(_put(scale.share(end), MIDDLE, tag("path", d="M0-4v8", class_="whisker")))
        shapes.append(_put(scale.share(rate["error"]), MIDDLE, drawn))
    return _picture(f"row {kind}".strip(), ROW_HEIGHT, [tag("title", words), *shapes])


def curve(lines: Lines) -> Markup | None:
    """Error against the number of sites; None where no line has two numbers of sites to join. The numbers of sites that
    were measured stand at equal distances: where sites are many, they are steps of a ladder."""
    lines = [(name, found) for name, found in lines if _known(found)]
    if not any(len(found["points"]) > 1 for _, found in lines):
        return None
    points = [point for _, found in lines for point in found["points"]]
    worst = [found.get("commonest") for _, found in lines]
    scale = Scale.of([*[point["interval"][1] for point in points], *worst])
    counts = sorted({int(point["sites"]) for point in points})
    places = {count: (number + 0.5) / len(counts) for number, count in enumerate(counts)}
    shapes = [tag("title", "Error by number of sites. " + "; ".join(itertools.starmap(_ends, lines)))]
    shapes += _axes(scale, places)
    if known := [value for value in worst if value is not None]:
        shapes.append(_line("commonest", 0, 1, max(known), max(known), scale))
    for number, (name, found) in enumerate(lines):
        shift = f"translate({trimmed(DODGE * (number - (len(lines) - 1) / 2))} 0)"
        shapes.append(tag("g", *_series(name, found, places, scale), class_=series(name), transform=shift))
    return _picture("curve", CURVE_HEIGHT, shapes)


def _picture(kind: str, height: int, shapes: Iterable[Markup]) -> Markup:
    return tag("svg", *shapes, class_=kind, role="img", width="100%", height=height)


def _axes(scale: Scale, places: Mapping[int, float]) -> Iterator[Markup]:
    for tick in scale.ticks:
        yield _line("grid", 0, 1, tick, tick, scale)
        yield tag("text", percent(tick), x=-8, y=_y(tick, scale) + 4, class_="tick side")
    for count, place in places.items():
        yield tag("text", str(count), x=share(place), y=CURVE_HEIGHT + 18, class_="tick middle")


def _ends(name: str, found: Mapping[str, Any]) -> str:
    both = found["points"][0], found["points"][-1]
    return f"{name}: " + ", ".join(f"{percent(one['error'])} with {counted(one['sites'], 'site')}" for one in both)


def _known(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The numbers of sites with which an error was measured."""
    return [point for point in found["points"] if point["error"] is not None]


def _y(value: float, scale: Scale) -> float:
    return CURVE_HEIGHT * (1 - scale.share(value))


def _line(kind: str, x1: float, x2: float, first: float, second: float, scale: Scale) -> Markup:
    return tag("line", x1=share(x1), x2=share(x2), y1=_y(first, scale), y2=_y(second, scale), class_=kind)


def _series(name: str, found: Mapping[str, Any], places: Mapping[int, float], scale: Scale) -> list[Markup]:
    points = [(places[point["sites"]], point["error"], point["interval"]) for point in _known(found)]
    drawn = [_line("join", a[0], b[0], a[1], b[1], scale) for a, b in itertools.pairwise(points)]
    for place, error, (low, high) in points:
        drawn.append(_line("whisker", place, place, low, high, scale))
        for end in (low, high):
            drawn.append(_put(place, _y(end, scale), tag("path", d="M-3 0h6", class_="whisker")))
        drawn.append(_put(place, _y(error, scale), mark(name)))
    return drawn


def _put(place: float, y: float, child: Markup) -> Markup:
    return tag("svg", child, x=share(place), y=y, overflow="visible")


HEIGHT = 140
MOST_BARS = 72  # hours shown: three days; what lies before is in the sum


def round_top(largest: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... at or above.

    >>> [round_top(value) for value in (0, 1, 3, 70, 101)]
    [1.0, 1.0, 5.0, 100.0, 200.0]
    """
    if largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest) + 1e-9)
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if largest <= step * power * (1 + 1e-9))


def bars(words: str, values: Sequence[tuple[str, float]]) -> Markup | None:
    """One bar for each of the last values, named by its tooltip."""
    values = values[-MOST_BARS:]
    if not values:
        return None
    top = round_top(max(value for _, value in values))
    width = 100 / max(len(values), 12)
    shapes = _frame(words, top)
    for number, (name, value) in enumerate(values):
        height = HEIGHT * value / top
        place = {"x": f"{trimmed(width * (number + 0.1))}%", "width": f"{trimmed(0.8 * width)}%"}
        told = tag("title", f"{name}: {value:g}")
        shapes.append(tag("rect", told, **place, y=HEIGHT - height, height=height, class_="count"))
    return _picture("curve s0", HEIGHT, shapes)


def steps(words: str, points: Sequence[tuple[float, float]], last: float) -> Markup | None:
    """A figure that holds from one place to the next, up to `last`; places are drawn in proportion."""
    if not points:
        return None
    top, most = round_top(max(value for _, value in points)), max(last, points[-1][0], 1.0)
    shapes, before = _frame(words, top), None
    for (place, value), end in zip(points, [*(place for place, _ in points[1:]), most], strict=True):
        first, second, y = share(place / most), share(end / most), HEIGHT * (1 - value / top)
        shapes.append(tag("line", x1=first, x2=second, y1=y, y2=y, class_="step"))
        if before is not None and before != y:
            shapes.append(tag("line", x1=first, x2=first, y1=before, y2=y, class_="step"))
        before = y
    return _picture("curve s0", HEIGHT, shapes)


def _frame(words: str, top: float) -> list[Markup]:
    drawn = [tag("title", words)]
    for part in (0.0, 0.5, 1.0):
        y = HEIGHT * (1 - part)
        drawn.append(tag("line", x1=0, x2="100%", y1=y, y2=y, class_="grid"))
        if part * top == round(part * top) or top <= 5:
            drawn.append(tag("text", f"{part * top:,g}", x=-8, y=y + 4, class_="tick side"))
    return drawn
