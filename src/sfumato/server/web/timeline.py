"""Small pictures of how a survey goes: counts as bars, and a figure that changes from version to version as steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from sfumato.report.markup import tag, trimmed

HEIGHT = 140
MOST_BARS = 72
"""Hours shown: three days; what lies before is in the sum."""


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
    shapes = _frame(top)
    for number, (name, value) in enumerate(values):
        height = HEIGHT * value / top
        shapes.append(
            tag(
                "rect",
                tag("title", f"{name}: {value:g}"),
                x=f"{trimmed(width * (number + 0.1))}%",
                y=HEIGHT - height,
                width=f"{trimmed(0.8 * width)}%",
                height=height,
                class_="count",
            )
        )
    return _drawn(words, shapes)


def steps(words: str, points: Sequence[tuple[float, float]], last: float) -> Markup | None:
    """A figure that holds from one place to the next, up to `last`; places are drawn in proportion."""
    if not points:
        return None
    top, most = round_top(max(value for _, value in points)), max(last, points[-1][0], 1.0)
    shapes = _frame(top)
    ends = [place for place, _ in points[1:]] + [most]
    before = None
    for (place, value), end in zip(points, ends, strict=True):
        first, second = (f"{trimmed(100 * at / most)}%" for at in (place, end))
        y = HEIGHT * (1 - value / top)
        shapes.append(tag("line", x1=first, x2=second, y1=y, y2=y, class_="step"))
        if before is not None and before != y:
            shapes.append(tag("line", x1=first, x2=first, y1=before, y2=y, class_="step"))
        before = y
    return _drawn(words, shapes)


def _frame(top: float) -> list[Markup]:
    drawn = []
    for share in (0.0, 0.5, 1.0):
        y = HEIGHT * (1 - share)
        drawn.append(tag("line", x1=0, x2="100%", y1=y, y2=y, class_="grid"))
        if share * top == round(share * top) or top <= 5:
            drawn.append(tag("text", f"{share * top:,g}", x=-8, y=y + 4, class_="tick side"))
    return drawn


def _drawn(words: str, shapes: Sequence[Markup]) -> Markup:
    return tag("svg", tag("title", words), *shapes, class_="curve s0", role="img", width="100%", height=HEIGHT)
