"""Information loss against privacy loss as an SVG picture [density-reconstruction, Fig. 3]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sfumato.reconstruction.picture import BOTTOM, INK, LEFT, RIGHT, TOP, WIDE, framed, text, ticks

COLOURS = ("#1f5f8b", "#b3391f", "#1d6a54", "#7d4b94")
DASHES = ("", "7 4", "2 3", "9 3 2 3")
_LETTER = 6.8
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

    shapes, x = [], float(LEFT)
    for (name, points), colour, dash in zip(lines.items(), COLOURS, DASHES, strict=False):
        stroke = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        places = " ".join("{:.1f},{:.1f}".format(*at(privacy, mean)) for privacy, mean, _ in points)
        shapes.append(f'<polyline points="{places}" fill="none" {stroke}/>')
        for privacy, mean, spread in points:
            (across, low), (_, high) = at(privacy, max(0.0, mean - spread)), at(privacy, mean + spread)
            shapes.append(f'<path d="M{across:.1f} {low:.1f}V{high:.1f}" stroke="{colour}" stroke-width="1"/>')
        shapes.append(f'<path d="M{x:.0f} 44H{x + 24:.0f}" {stroke}/>')
        shapes.append(text(x + 30, 48, name, "start"))
        x += 30 + _LETTER * len(name) + 14
    if mark is not None:
        across, up = at(*mark)
        shapes.append(f'<circle cx="{across:.1f}" cy="{up:.1f}" r="6" fill="none" stroke="{INK}" stroke-width="2"/>')
        shapes.append(text(across + 10, up - 8, "this release", "start"))
    for tick, words in ticks(0.0, 1.0, 5):
        shapes.append(text(at(tick, 0.0)[0], base + 18, words, "middle"))
    for tick, words in ticks(0.0, top, 5):
        shapes.append(text(LEFT - 6, at(0.0, tick)[1] + 4, words, "end"))
    words = "privacy loss: 0 tells nothing of a value, 1 tells it"
    shapes.append(text(0.5 * (LEFT + size.width - RIGHT), size.height - 10, words, "middle"))
    return framed(title, "info loss", shapes, base, size)
