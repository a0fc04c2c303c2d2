"""An item as an SVG: lines along its axis with whiskers of one standard error, or reached beside printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from sfumato.core.svg import tag
from sfumato.reconstruction.picture import (
    BOTTOM,
    COLOURS,
    DASHES,
    INK,
    LEFT,
    RIGHT,
    TOP,
    Size,
    fitting,
    framed,
    stroke,
    text,
    ticks,
)

Name = str | tuple[str, float]
"""Of a figure: a word, or a word and where it stands along the axis."""
WIDTH, ROW = 860, 20
LINES = Size(WIDTH, 440, 6)
NAMES = 420
"""Where the names of single values end."""


@dataclass(frozen=True)
class Value:
    """One figure: what the paper prints, and what was reached here with the standard error over repeats."""

    what: str
    printed: float | None
    reached: float
    standard_error: float | None
    name: Name

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("what", "printed", "reached", "standard_error")}


def item_picture(title: str, axis: str, values: Sequence[Value]) -> str:
    """Lines where most of the values have a place along the axis, else one row a value."""
    placed = [one for one in values if isinstance(one.name, tuple)]
    return _lines(title, axis, placed) if 2 * len(placed) > len(values) else _rows(title, values)


def _scale(values: Sequence[float], start: float, end: float) -> tuple[float, float, float, float]:
    """Least and largest, with a margin, and the ends in pixels."""
    low, high = min(values), max(values)
    margin = 0.05 * (high - low) or abs(high) or 1.0
    return low - margin if low < 0 else max(0.0, low - margin), high + margin, start, end


def _at(value: float, scale: tuple[float, float, float, float]) -> float:
    low, high, start, end = scale
    return start + (value - low) / (high - low) * (end - start)


def _reach(one: Value) -> tuple[float, float]:
    """One standard error to both sides."""
    error = one.standard_error or 0.0
    return one.reached - error, one.reached + error


def _lines(title: str, axis: str, values: Sequence[Value]) -> str:
    names = list(dict.fromkeys(one.name[0] for one in values))
    tall = LINES.height + 18 * max(0, (len(names) - 1) // 3)
    top, base = TOP + tall - LINES.height, tall - BOTTOM
    heights = [end for one in values for end in (*_reach(one), one.reached if one.printed is None else one.printed)]
    up, across = _scale(heights, base, top), _scale([float(one.name[1]) for one in values], LEFT, WIDTH - RIGHT)
    shapes = []
    for number, name in enumerate(names):
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]
        line = [one for one in values if one.name[0] == name]
        places = " ".join(f"{_at(float(one.name[1]), across):.1f},{_at(one.reached, up):.1f}" for one in line)
        shapes.append(tag("polyline", points=places, fill="none", **stroke(colour, 2, dash)))
        for one in line:
            x, (low, high) = _at(float(one.name[1]), across), _reach(one)
            shapes.append(tag("path", d=f"M{x:.1f} {_at(low, up):.1f}V{_at(high, up):.1f}", **stroke(colour, 1)))
            if one.printed is not None:
                shapes.append(_cross(x, _at(one.printed, up)))
        x, y = LEFT + number % 3 * 255, 44 + 18 * (number // 3)
        shapes.append(tag("path", d=f"M{x} {y}H{x + 24}", **stroke(colour, 2, dash)))
        shapes.append(text(x + 30, y + 4, fitting(name, 32), "start"))
    shapes += [text(_at(tick, across), base + 18, words, "middle") for tick, words in ticks(*across[:2])]
    shapes += [text(LEFT - 6, _at(tick, up) + 4, words, "end") for tick, words in ticks(*up[:2])]
    shapes.append(text(0.5 * (LEFT + WIDTH - RIGHT), tall - 10, f"{axis} (a cross is what the paper prints)", "middle"))
    return framed(title, "", shapes, base, Size(WIDTH, tall, 6))


def _rows(title: str, values: Sequence[Value]) -> str:
    """One row a value: a dot is reached, a cross printed."""
    base = TOP + ROW * len(values)
    printed = [one.printed for one in values if one.printed is not None]
    across = _scale([*(end for one in values for end in _reach(one)), *printed], NAMES + 10, WIDTH - RIGHT)
    shapes = []
    for number, one in enumerate(values):
        y = TOP + ROW * (number + 0.5)
        low, high = (_at(end, across) for end in _reach(one))
        shapes.append(text(NAMES, y + 4, fitting(one.what, 56), "end"))
        shapes.append(tag("path", d=f"M{low:.1f} {y}H{high:.1f}", **stroke(INK, 1)))
        shapes.append(tag("circle", cx=_at(one.reached, across), cy=y, r=4, fill=COLOURS[0]))
        if one.printed is not None:
            shapes.append(_cross(_at(one.printed, across), y))
    shapes += [text(_at(tick, across), base + 18, words, "middle") for tick, words in ticks(*across[:2])]
    shapes.append(text(0.5 * WIDTH, base + 40, "a dot is reached, a cross is what the paper prints", "middle"))
    return framed(title, "", shapes, base, Size(WIDTH, base + BOTTOM, 6))


def _cross(x: float, y: float) -> Markup:
    return tag("path", d=f"M{x - 5:.1f} {y - 5:.1f}l10 10m0 -10l-10 10", **stroke(COLOURS[1]))
