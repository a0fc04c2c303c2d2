"""Densities and shares as SVG pictures, without any plotting library."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from sfumato.core.array_types import Floats
from sfumato.core.svg import EMPTY, tag


class Band(NamedTuple):
    """Lower and upper end of every height, and how sure they are."""

    low: Floats
    high: Floats
    confidence: float

    @property
    def words(self) -> str:
        return f"{self.confidence:.0%} band"


LEFT, RIGHT, TOP, BOTTOM = 72, 24, 72, 56
INK, LINE, BAND = "#333", "#1f5f8b", "#a9cce3"
_LETTER = 6.8
"""Width of a letter of 12 pixels, on the wide side: nothing must be cut or run into its neighbour."""
_LONGEST = 13


class Size(NamedTuple):
    """Of a picture, in pixels, and how many marks stand along its axis."""

    width: int
    height: int
    marks: int


WIDE = Size(720, 400, 6)
SMALL = Size(440, 290, 4)
"""For a page with several pictures side by side, and for a telephone."""


def steps_picture(
    titles: tuple[str, str], edges: Floats, height: Floats, mean: float, band: Band | None, size: Size = WIDE
) -> str:
    """Steps over the cells, the band behind them, and the mean as a dashed line; `titles` of the whole and its axis."""
    title, axis = titles
    top = float(max(np.max(height), 0.0 if band is None else np.max(band.high))) or 1.0
    x0, x1 = float(edges[0]), float(edges[-1])
    base = size.height - BOTTOM

    def across(x: float) -> float:
        return LEFT + (x - x0) / (x1 - x0) * (size.width - LEFT - RIGHT)

    def steps(values: Floats) -> list[str]:
        ends = zip(edges[:-1], edges[1:], values, strict=True)
        return [f"{across(x):.1f},{_up(value, top, base):.1f}" for low, high, value in ends for x in (low, high)]

    shapes, legend = [], [("estimate", stroke(LINE))]
    if band is not None:
        shapes.append(tag("polygon", points=" ".join(steps(band.high) + steps(band.low)[::-1]), fill=BAND))
        legend.append((band.words, stroke(BAND, 10)))
    shapes.append(tag("polyline", points=" ".join(steps(height)), fill="none", **stroke(LINE)))
    shapes.append(tag("path", d=f"M{across(mean):.1f} {base}V{TOP}", **stroke(INK, 1, "4 4")))
    legend.append((f"mean {plain(mean)}", stroke(INK, 1, "4 4")))
    for tick, words in ticks(x0, x1, size.marks):
        edge = size.width - 2 - 0.5 * _LETTER * len(words)
        shapes.append(text(min(across(tick), edge), base + 18, words, "middle"))
    shapes.append(text(0.5 * (LEFT + size.width - RIGHT), size.height - 10, fitting(axis, size.width // 8), "middle"))
    return framed(title, "density", [*shapes, *_heights(top, base), *_legend(legend)], base, size)


def bars_picture(title: str, names: Sequence[str], height: Floats, band: Band | None, size: Size = WIDE) -> str:
    """One bar per category, with its band as a line. Names that are too long to stand side by side are turned."""
    top = float(np.max(height if band is None else band.high)) or 1.0
    step = (size.width - LEFT - RIGHT) / len(names)
    words = [fitting(name, _LONGEST) for name in names]
    turned = _LETTER * max(map(len, words)) > step - 4
    base = size.height - BOTTOM - (48 if turned else 0)
    every = math.ceil(13 / step) if turned else 1  # names of hundreds of categories: the table has them all
    shapes, legend = [], [("estimate", stroke(BAND, 10))]
    for number, mass in enumerate(height):
        middle = LEFT + (number + 0.5) * step
        y = _up(mass, top, base)
        shapes.append(tag("rect", x=middle - 0.35 * step, y=y, width=0.7 * step, height=base - y, fill=BAND))
        if band is not None:
            ends = [_up(end[number], top, base) for end in (band.low, band.high)]
            shapes.append(tag("path", d=f"M{middle:.1f} {ends[0]:.1f}V{ends[1]:.1f}", **stroke(INK)))
        if turned and number % every == 0:
            shapes.append(text(middle + 4, base + 14, words[number], "end", turn=-60))
        elif not turned:
            shapes.append(text(middle, base + 18, words[number], "middle"))
    if band is not None:
        legend.append((band.words, stroke(INK)))
    return framed(title, "share", [*shapes, *_heights(top, base), *_legend(legend)], base, size)


def plain(value: float) -> str:
    """Five digits, without an exponent where a reader needs none."""
    if value == 0 or not 1e-3 <= abs(value) < 1e9:
        return f"{value:.5g}"
    return f"{value:,.{max(0, 4 - math.floor(math.log10(abs(value))))}f}"


def ticks(low: float, high: float, wanted: int = 6) -> list[tuple[float, str]]:
    """Round numbers within [low, high], with as many digits as tell neighbours apart."""
    rough = (high - low) / wanted
    size = 10.0 ** math.floor(math.log10(rough))
    factor = next(factor for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * size >= rough)
    step = factor * size
    marks = [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    largest = max(map(abs, marks), default=step) or step
    decimals = max(0, -math.floor(math.log10(size))) + (factor == 2.5)
    if 1e-3 <= largest < 1e9 and decimals <= 4:
        return [(mark, f"{mark:,.{decimals if step % 1 else 0}f}") for mark in marks]
    digits = max(2, math.ceil(math.log10(largest / step)) + 2)
    return [(mark, f"{mark:.{digits}g}") for mark in marks]


def _up(value: float, top: float, base: float) -> float:
    return base - value / top * (base - TOP)


def _heights(top: float, base: float, wanted: int = 6) -> list[Markup]:
    return [text(LEFT - 6, _up(tick, top, base) + 4, words, "end") for tick, words in ticks(0.0, top, wanted)]


def stroke(colour: str, width: int = 2, dashes: str | None = None) -> dict[str, Any]:
    return {"stroke": colour, "stroke_width": width, "stroke_dasharray": dashes}


def _legend(entries: Sequence[tuple[str, dict[str, Any]]]) -> list[Markup]:
    """In one line under the title."""
    shapes, x = [], float(LEFT)
    for words, stroke in entries:
        shapes += [tag("path", d=f"M{x:.0f} 44H{x + 24:.0f}", **stroke), text(x + 30, 48, words, "start")]
        x += 30 + _LETTER * len(words) + 20
    return shapes


def fitting(words: str, longest: int) -> str:
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def text(x: float, y: float, words: str, anchor: str, turn: int = 0) -> Markup:
    turned = f"rotate({turn} {x:.1f} {y:.1f})" if turn else None
    return tag("text", words, x=float(x), y=float(y), text_anchor=anchor, transform=turned)


def framed(title: str, measure: str, shapes: Sequence[Markup], base: float, size: Size) -> Markup:
    width, height, _ = size
    inside = [
        tag("title", title),
        tag("rect", width=width, height=height, fill="#fff"),
        tag("text", fitting(title, width // 10), x=LEFT, y=24, font_size=15),
        text(LEFT - 6, TOP - 10, measure, "end"),
        *shapes,
        tag("path", d=f"M{LEFT} {TOP}V{base}H{width - RIGHT}", fill="none", **stroke(INK, 1)),
    ]
    return svg(width, height, inside)


def svg(width: int, height: int, inside: Sequence[Markup]) -> Markup:
    """The picture as a file of its own."""
    words = {"role": "img", "font_family": "sans-serif", "font_size": 12, "fill": INK}
    size = {"width": width, "height": height, "viewBox": f"0 0 {width} {height}"}
    lines = Markup("\n").join([EMPTY, *inside, EMPTY])
    return tag("svg", lines, xmlns="http://www.w3.org/2000/svg", **size, **words) + "\n"


# Information loss against privacy loss as an SVG picture [density-reconstruction, Fig. 3].

COLOURS = ("#1f5f8b", "#b3391f", "#1d6a54", "#7d4b94")
DASHES = (None, "7 4", "2 3", "9 3 2 3")
Point = tuple[float, float, float]
"""Privacy loss, mean information loss, and its standard deviation."""


def trade_off_picture(title: str, lines: Mapping[str, Sequence[Point]], mark: tuple[float, float] | None) -> str:
    """A line with whiskers for each way; `mark` is the release itself."""
    size = WIDE
    base, top = size.height - BOTTOM, 0.05
    for points in lines.values():
        top = max(top, *(mean + spread for _, mean, spread in points))
    top = max(top, mark[1] if mark else 0.0) * 1.05

    def at(privacy: float, loss: float) -> tuple[float, float]:
        return LEFT + privacy * (size.width - LEFT - RIGHT), base - loss / top * (base - TOP)

    shapes, legend = [], []
    for (name, points), colour, dash in zip(lines.items(), COLOURS, DASHES, strict=False):
        places = " ".join("{:.1f},{:.1f}".format(*at(privacy, mean)) for privacy, mean, _ in points)
        shapes.append(tag("polyline", points=places, fill="none", **stroke(colour, 2, dash)))
        for privacy, mean, spread in points:
            (across, low), (_, high) = at(privacy, max(0.0, mean - spread)), at(privacy, mean + spread)
            shapes.append(tag("path", d=f"M{across:.1f} {low:.1f}V{high:.1f}", **stroke(colour, 1)))
        legend.append((name, stroke(colour, 2, dash)))
    if mark is not None:
        across, up = at(*mark)
        shapes.append(tag("circle", cx=across, cy=up, r=6, fill="none", **stroke(INK)))
        shapes.append(text(across + 10, up - 8, "this release", "start"))
    shapes += [text(at(tick, 0.0)[0], base + 18, words, "middle") for tick, words in ticks(0.0, 1.0, 5)]
    words = "privacy loss: 0 tells nothing of a value, 1 tells it"
    shapes.append(text(0.5 * (LEFT + size.width - RIGHT), size.height - 10, words, "middle"))
    return framed(title, "info loss", [*shapes, *_heights(top, base, 5), *_legend(legend)], base, size)


# A joint density as an SVG picture: cells that are the darker, the more people lie in them.

SQUARE = Size(560, 560, 5)
_LIGHT, _DARK = np.array([247, 250, 252]), np.array([23, 66, 100])
_LONGEST_MARK = 11


def heat_picture(title: str, names: Sequence[str], places: Sequence[Sequence[str] | Floats], mass: Floats) -> str:
    """The first column across, the second upwards; `places` are edges of cells, or categories."""
    width, height = SQUARE.width - LEFT - RIGHT, SQUARE.height - TOP - BOTTOM
    area = np.outer(np.diff(_ends(places[0])), np.diff(_ends(places[1])))
    density = mass / area
    shade = np.sqrt(density / (density.max() or 1.0))  # the eye tells small shares apart better so
    x, y = LEFT + width * _ends(places[0]), TOP + height * (1.0 - _ends(places[1]))
    shapes = []
    for i, j in np.ndindex(mass.shape):
        colour = "".join(f"{int(c):02x}" for c in _LIGHT + shade[i, j] * (_DARK - _LIGHT))
        sides = {"width": float(x[i + 1] - x[i] + 0.3), "height": float(y[j] - y[j + 1] + 0.3)}
        shapes.append(tag("rect", x=float(x[i]), y=float(y[j + 1]), **sides, fill=f"#{colour}"))
    shapes += [text(LEFT + width * at, SQUARE.height - BOTTOM + 18, words, "middle") for at, words in _marks(places[0])]
    shapes += [text(LEFT - 6, TOP + height * (1.0 - at) + 4, words, "end") for at, words in _marks(places[1])]
    shapes.append(text(LEFT + 0.5 * width, SQUARE.height - 10, fitting(names[0], 60), "middle"))
    shapes.append(text(LEFT, 48, "the darker, the more people (square root of the density)", "start"))
    return framed(title, fitting(names[1], _LONGEST_MARK), shapes, SQUARE.height - BOTTOM, SQUARE)


def _ends(places: Sequence[str] | Floats) -> Floats:
    """Ends of the cells between 0 and 1."""
    if isinstance(places, np.ndarray):
        return np.asarray((places - places[0]) / (places[-1] - places[0]))
    return np.asarray(np.linspace(0.0, 1.0, len(places) + 1))


def _marks(places: Sequence[str] | Floats) -> list[tuple[float, str]]:
    if isinstance(places, np.ndarray):
        low, high = float(places[0]), float(places[-1])
        return [((mark - low) / (high - low), words) for mark, words in ticks(low, high, SQUARE.marks)]
    every = 1 + len(places) // 12  # names of hundreds of categories: the table has them all
    shown = [(number, str(name)) for number, name in enumerate(places) if number % every == 0]
    return [((number + 0.5) / len(places), fitting(name, _LONGEST_MARK)) for number, name in shown]
