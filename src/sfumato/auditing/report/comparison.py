"""compare.json -> one self-contained private page: use against extra, all settings, and every attacker of each.

A script of the page's own filters and opens cells. It is named by its hash in the page's policy, so that nothing else
can run, and nothing is ever loaded or sent. Without it all figures are there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

from markupsafe import Markup

from sfumato.attacks import ATTACKS
from sfumato.attacks.base import INFERENCE
from sfumato.auditing.attacking import story_of
from sfumato.auditing.extra import RISKS
from sfumato.auditing.report.markup import report_template, report_text
from sfumato.auditing.report.page import CLOSED
from sfumato.core.svg import EMPTY, tag
from sfumato.core.wording import MEASURED, PROVED, QUESTIONS

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 760.0, 430.0, 60.0, 56.0, 40.0
RIGHT, BESIDE = 630.0, 656.0
"""Where the axes end, and where those begin that stand beside them."""
APART, ACROSS = 26.0, 4
"""Marks beside the axes: this far apart, so many in a row."""
FORMAL = ("local-dp", "central-dp")
LEVELS = (("ceiling", "originals", -6.0), ("majority", "commonest class", 18.0))
NAMED = ("extras", "learners")
IN_SCRIPT = {"name": "mechanism", **{name: name for name in ("setting", "learners", "majority", "extras")}}
IN_SCRIPT |= {"columns": "extra_columns", "exposed": "exposed", "reasons": "not_applicable"}
"""What the script calls the parts of a setting."""
Shown = Mapping[str, Any]


def in_order(settings: Sequence[Shown]) -> list[int]:
    """Places of the settings: those worth a look first, then from the least extra on; what was not tried comes last."""

    def key(i: int) -> tuple[Any, ...]:
        one = settings[i]
        return not one["worth"], _aside(one), one["extra"] or 0.0, -(one["accuracy"] or 0.0), i

    return sorted(range(len(settings)), key=key)


def frontier(settings: Sequence[Shown], limit: float | None) -> Markup:
    """Use against extra: how often a learner is right, and how many more of 100 an attacker gets right by the release.

    Circles are proved, squares are not. Those worth a look have the number of their line in the table. Settings against
    which a whole risk was not tried stand beside the axes, never at 0. The page's script can move marks.
    """
    shown = [i for i in in_order(settings) if settings[i]["accuracy"] is not None]
    if not shown:
        return EMPTY
    most, step = _across(settings, limit)
    ends: list[float] = [
        value for one in settings for value in (*one["learners"].values(), one["majority"], one["ceiling"])
    ]
    low, high = min(90, 10 * math.floor(10 * min(ends))), min(100, 10 * math.floor(10 * max(ends)) + 10)

    def x(points: float) -> float:
        return LEFT + (RIGHT - LEFT) * points / most

    def y(right: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (right - low) / (high - low)

    drawn = _axes(settings, x, y, range(0, int(most) + 1, step), range(low, high + 1, 10))
    if limit is not None:
        drawn.append(tag("line", x1=x(limit), x2=x(limit), y1=TOP, y2=HEIGHT - BOTTOM, class_="limit"))
        drawn.append(tag("text", f"your limit, {limit:g}", x=x(limit) + 6, y=TOP + 14, class_="limit-name"))
    aside = [i for i in shown if _aside(settings[i])]
    name = tag("text", "a risk not tried", x=WIDTH - 4, y=TOP - 22, text_anchor="end")
    rail = tag("line", x1=BESIDE - 14, x2=BESIDE - 14, y1=TOP, y2=HEIGHT - BOTTOM, class_="rail")
    drawn.append(tag("g", name, rail, class_="aside", visibility=None if aside else "hidden"))
    numbers = {i: place for place, i in enumerate(shown, start=1) if settings[i]["worth"]}
    for i in reversed(shown):
        across = BESIDE + APART * (aside.index(i) % ACROSS) if i in aside else x(settings[i]["extra"])
        drawn.append(_point(i, settings[i], across, y(100 * settings[i]["accuracy"]), numbers.get(i)))
    told = "How often learners are right against what attackers get extra; the table below has the same figures."
    scale = {"left": LEFT, "right": RIGHT, "top": TOP, "bottom": HEIGHT - BOTTOM, "most": most, "low": low}
    scale |= {"high": high, "beside": BESIDE, "apart": APART, "across": ACROSS}
    data = {f"data_{name}": f"{value:g}" for name, value in scale.items()}
    return tag(
        "svg", *drawn, viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}", class_="frontier", role="img", aria_label=told, **data
    )


def _aside(one: Shown) -> bool:
    return bool(one["untried"]) or one["extra"] is None


def _across(settings: Sequence[Shown], limit: float | None) -> tuple[float, int]:
    """Where the axis ends, so that nothing ticked on the page can lie beyond it, and how far its marks are apart."""
    columns = [value for one in settings for own in one["extra_columns"].values() for value in own.values()]
    farthest = max([limit or 0.0, *(one["extra"] or 0.0 for one in settings), *columns])
    step = next(one for one in (1, 2, 5, 10, 20) if farthest <= 5 * one)
    return float(step * max(1, math.ceil(farthest / step))), step


def _axes(
    settings: Sequence[Shown], x: Callable[[float], float], y: Callable[[float], float], across: range, up: range
) -> list[Markup]:
    """Marks on both axes, and lines across: what is right without the release, and what is right at most."""
    drawn = []
    for value in across:
        drawn.append(tag("line", x1=x(value), x2=x(value), y1=TOP, y2=HEIGHT - BOTTOM, class_="rail"))
        drawn.append(tag("text", value, x=x(value), y=HEIGHT - BOTTOM + 20, class_="tick", text_anchor="middle"))
    drawn += [tag("text", value, x=LEFT - 8, y=y(value) + 5, class_="tick", text_anchor="end") for value in up]
    drawn.append(tag("text", "right of 100", x=4, y=TOP - 22, class_="axis-name"))
    name = "extra: more of 100 right than without the release"
    drawn.append(tag("text", name, x=RIGHT, y=HEIGHT - 8, class_="axis-name", text_anchor="end"))
    for measure, words, beside in LEVELS:
        level = 100.0 * sum(one[measure] for one in settings) / len(settings)
        drawn.append(tag("line", x1=LEFT, x2=RIGHT, y1=y(level), y2=y(level), class_=f"level {measure}"))
        place = {"x": (LEFT + RIGHT) / 2, "y": y(level) + beside, "text_anchor": "middle"}
        drawn.append(tag("text", f"{words}, {level:.0f}", class_="tick", **place))
    return drawn


def _point(place: int, one: Shown, x: float, y: float, number: int | None) -> Markup:
    proved = one["kind"] in FORMAL
    mark = (
        tag("circle", r=11, class_="mark") if proved else tag("rect", x=-10, y=-10, width=20, height=20, class_="mark")
    )
    look = " ".join(["point", *(["proved"] if proved else ()), *(["worth"] if number else ())])
    told = f"{one['mechanism']}, {one['setting']}: {100 * one['accuracy']:.0f} of 100 right, {gained(one)}"
    title, text = tag("title", told), tag("text", number or "", y=5, text_anchor="middle", class_="place")
    return tag("g", title, mark, text, class_=look, data_i=place, transform=f"translate({x:.1f} {y:.1f})")


def gained(one: Shown) -> str:
    """The extra of the strongest attacker with its interval, and which risks were not tried."""
    parts = []
    if one["extra"] is not None:
        points = one["extras"][one["strongest"]]
        low, high = _signed(points["low"]), _signed(points["high"])
        least = "at least " if one["untried"] else ""
        parts.append(f"{least}{_signed(one['extra'])} extra ({low} to {high}, {one['strongest']})")
    if one["untried"]:
        parts.append(f"not tried: {', '.join(one['untried'])}")
    return ", ".join(parts) or "not tried"


def _signed(points: float) -> str:
    """As the script writes it; what rounds to 0 has no minus."""
    return f"{round(points) or 0:+d}".replace("-", "\u2212")


def within(one: Shown, limit: float | None) -> bool:
    """Whether every risk was tried, and every attacker's whole interval stays below the owner's limit."""
    return limit is not None and not _aside(one) and one["extra_high"] <= limit


def render_comparison(data: Shown) -> str:
    """The page as text."""
    measured = [one for one in data["settings"] if one["refused"] is None]
    measured.sort(key=lambda one: (one["mechanism"], one["openness"]))
    names, learners = (sorted(set(chain.from_iterable(one[part] for one in measured))) for part in NAMED)
    believed = {risk: [name for name in names if _risk(name) == risk] for risk in RISKS}
    attacks = [name for group in believed.values() for name in group]
    script = report_text("comparison.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return report_template("compare.html.j2").render(
        policy=f"{CLOSED}; script-src 'sha256-{digest}'",
        css=Markup(report_text("page.css") + report_text("comparison.css")),
        script=Markup(script),
        figures=_figures(data, measured, attacks),
        data=data,
        measured=measured,
        attacks=attacks,
        believed={risk: group for risk, group in believed.items() if group},
        learners=learners,
        shouted=[one for one in measured if one["above_claim"]],
        frontier=frontier(measured, data["limit"]),
        order=in_order(measured),
        questions=QUESTIONS,
        gained=gained,
        within=within,
        formal=FORMAL,
        proved=PROVED,
        not_proved=MEASURED,
    )


def _risk(attack: str) -> str:
    """Which of the three risks it plays; one that is no longer there wanted values, as most do."""
    return ATTACKS[attack].risk if attack in ATTACKS else INFERENCE


def _figures(data: Shown, measured: Sequence[Shown], attacks: Sequence[str]) -> Markup:
    """What the script needs, as JSON that cannot end its element."""
    columns, settings = list(data["column_names"]), []
    for one in measured:
        told = {
            name: [round(own[column], 2) if column in own else None for column in columns]
            for name, own in one["extra_columns"].items()
            if own
        }
        settings.append({name: told if part == "extra_columns" else one[part] for name, part in IN_SCRIPT.items()})
    found = {
        "columns": columns,
        "limit": data["limit"],
        "kinds": {name: _risk(name) for one in measured for name in (*one["extras"], *one["not_applicable"])},
        "stories": {name: story_of(ATTACKS[name]) for name in attacks if name in ATTACKS},
        "settings": settings,
    }
    return Markup(json.dumps(found, separators=(",", ":")).replace("<", "\\u003c"))
