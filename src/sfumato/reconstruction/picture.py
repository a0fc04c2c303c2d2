"""Densities and shares as SVG pictures, without any plotting library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 44
INK, LINE, BAND = "#333", "#1f5f8b", "#a9cce3"


def steps_picture(title: str, edges: Floats, height: Floats, band: tuple[Floats, Floats] | None, mark: float) -> str:
    """Steps over the cells, the band behind them, and `mark` (the mean) as a dashed line."""
    top = float(np.max(height if band is None else band[1])) or 1.0
    x0, x1 = float(edges[0]), float(edges[-1])

    def at(x: float, y: float) -> str:
        across = LEFT + (x - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
        return f"{across:.1f},{HEIGHT - BOTTOM - y / top * (HEIGHT - TOP - BOTTOM):.1f}"

    def steps(values: Sequence[float]) -> list[str]:
        ends = zip(edges[:-1], edges[1:], values, strict=True)
        return [point for low, high, value in ends for point in (at(low, value), at(high, value))]

    shapes = []
    if band is not None:
        outline = steps(list(band[1])) + steps(list(band[0]))[::-1]
        shapes.append(f'<polygon points="{" ".join(outline)}" fill="{BAND}"/>')
    points = " ".join(steps(list(height)))
    shapes.append(f'<polyline points="{points}" fill="none" stroke="{LINE}" stroke-width="2"/>')
    foot, head = at(mark, 0.0).split(","), at(mark, top).split(",")
    shapes.append(
        f'<line x1="{foot[0]}" y1="{foot[1]}" x2="{head[0]}" y2="{head[1]}" stroke="{INK}" stroke-dasharray="4 4"/>'
    )
    for tick in _ticks(x0, x1):
        place = at(tick, 0.0).split(",")
        shapes.append(_text(float(place[0]), HEIGHT - BOTTOM + 18, f"{tick:g}", "middle"))
    for tick in _ticks(0.0, top):
        place = at(x0, tick).split(",")
        shapes.append(_text(LEFT - 6, float(place[1]) + 4, f"{tick:.2g}", "end"))
    return _page(title, [*_axes(), *shapes])


def bars_picture(title: str, names: Sequence[str], height: Floats, band: tuple[Floats, Floats]) -> str:
    """One bar per category, with its band as a line."""
    top = float(band[1].max()) or 1.0
    step = (WIDTH - LEFT - RIGHT) / len(names)
    shapes = []

    def up(value: float) -> float:
        return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)

    for number, (name, mass) in enumerate(zip(names, height, strict=True)):
        x = LEFT + (number + 0.15) * step
        base = HEIGHT - BOTTOM
        shapes.append(
            f'<rect x="{x:.1f}" y="{up(mass):.1f}" width="{0.7 * step:.1f}" height="{base - up(mass):.1f}" '
            f'fill="{BAND}"/>'
        )
        middle = LEFT + (number + 0.5) * step
        shapes.append(
            f'<line x1="{middle:.1f}" y1="{up(band[0][number]):.1f}" x2="{middle:.1f}" '
            f'y2="{up(band[1][number]):.1f}" stroke="{INK}" stroke-width="2"/>'
        )
        shapes.append(_text(middle, base + 18, name if len(name) < 14 else f"{name[:12]}…", "middle"))
    for tick in _ticks(0.0, top):
        shapes.append(_text(LEFT - 6, up(tick) + 4, f"{tick:.2g}", "end"))
    return _page(title, [*_axes(), *shapes])


def _axes() -> list[str]:
    base = HEIGHT - BOTTOM
    return [
        f'<line x1="{LEFT}" y1="{base}" x2="{WIDTH - RIGHT}" y2="{base}" stroke="{INK}"/>',
        f'<line x1="{LEFT}" y1="{TOP}" x2="{LEFT}" y2="{base}" stroke="{INK}"/>',
    ]


def _ticks(low: float, high: float, wanted: int = 6) -> list[float]:
    """Round numbers within [low, high]."""
    rough = (high - low) / wanted
    size = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * size for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * size >= rough)
    first = math.ceil(low / step)
    return [number * step for number in range(first, math.floor(high / step) + 1)]


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _page(title: str, shapes: list[str]) -> str:
    body = "\n".join(shapes)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">\n<title>{escape(title)}</title>\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n'
        f'<text x="{LEFT}" y="24" font-size="15">{escape(title)}</text>\n{body}\n</svg>\n'
    )
