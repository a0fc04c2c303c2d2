"""Use against risk, as one picture: what public tables kept where a bound is proved, and what was measured here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from sfumato.api.desk.words import say
from sfumato.core.svg import tag

WIDTH, HEIGHT, LEFT, RIGHT, ABOVE, BELOW = 620, 320, 70, 130, 15, 45
TICKS = 5
APART = 15.0
"""Pixels between two lines of words."""


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
    along = [most * tick / TICKS for tick in range(TICKS + 1)]
    drawn = [
        tag("path", d=f"M{LEFT} {ABOVE}V{foot}H{WIDTH - RIGHT}", class_="axis"),
        *(tag("text", f"{one:.0f}", x=x(one), y=foot + 18, text_anchor="middle") for one in along),
        *(tag("text", f"{one}", x=LEFT - 8, y=y(one / 100) + 4, text_anchor="end") for one in (0, 50, 100)),
        tag("text", say("axis_extra", language), x=WIDTH - RIGHT, y=HEIGHT - 8, text_anchor="end"),
        tag("text", say("axis_right", language), x=LEFT - 8, y=y(0.75) + 4, text_anchor="end"),
        *_lines([(words, y(right)) for words, right in lines]),
    ]
    for one in proved:
        drawn.append(tag("circle", cx=x(one.extra), cy=y(one.right), r=6, class_="proved"))
    for one in measured:
        drawn.append(tag("rect", x=x(one.extra) - 5, y=y(one.right) - 5, width=10, height=10, class_="measured"))
    for one in spots:
        if one.is_present:
            drawn.append(tag("circle", cx=x(one.extra), cy=y(one.right), r=11, class_="present"))
    for one in spots:
        if one.mark:
            middle = {"text_anchor": "middle", "class_": "mark"}
            drawn.append(tag("text", one.mark, x=x(one.extra), y=y(one.right) - 10, **middle))
    return tag("svg", *drawn, viewBox=f"0 0 {WIDTH} {HEIGHT}", aria_hidden="true", class_="plot")


def _lines(lines: Sequence[tuple[str, float]]) -> list[Markup]:
    """Lines across with their words beside them, which never stand on each other."""
    drawn, last = [], -APART
    for words, height in sorted(lines, key=lambda one: one[1]):
        last = max(height, last + APART)
        across = tag("path", d=f"M{LEFT} {height:.1f}H{WIDTH - RIGHT}", class_="reference")
        drawn.append(across + tag("text", words, x=WIDTH - RIGHT + 6, y=last + 4))
    return drawn
