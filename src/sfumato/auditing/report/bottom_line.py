"""May I release this, and is it of use? The answer that comes before all figures, from an audit's plain JSON.

Terminal, report and notebook show the same rows: the left word, and what is to be said. Figures that were measured are
facts about private rows, so a page for others has the proof and what follows from the released files alone.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from sfumato.attacks.base import LINKABILITY
from sfumato.auditing.extra import NOT_WITHIN, UNKNOWN, Points, Risk, state_of, three_risks
from sfumato.auditing.utility import HOLDOUT
from sfumato.core import wording
from sfumato.core.svg import tag
from sfumato.core.wording import joined, said
from sfumato.guarantee import AllReleases
from sfumato.guarantee.guarantee import CENTRAL_DP, summarized

LEFT, NARROW = 19, 60
"""Characters of the left column, and of a terminal in which it has a line of its own."""
COLUMN = "   "
"""Between figures of a row, which a line is broken at first."""
MOST_REASONS = 3
"""Different reasons for ranges that are said in full."""
FOR_OTHERS = "WHAT IS PROVED"
"""In place of the state, which is the owner's and rests on private rows."""

Row = tuple[str, str]


def rows(found: Mapping[str, Any], folder: str = "DIR") -> list[Row]:
    """What was decided, the proof, the three risks, use, what is not hidden, what to do next."""
    if not has_measured(found):
        return for_others(found)
    limit = (found.get("extra") or {}).get("limit")
    state = state_of(three_risks(found.get("attacks") or ()), limit)
    return [
        (state.upper(), proof(found)),
        *measured(found),
        ("Not hidden", _not_hidden(found)),
        ("Next", _next(found, state, folder)),
    ]


def for_others(found: Mapping[str, Any], beside: Sequence[Row] = ()) -> list[Row]:
    """For a page that is handed on: the proof without the owner's decision, and what was measured only if it is given
    `beside` it."""
    return [(FOR_OTHERS, proof(found)), *beside, ("Not hidden", _not_hidden(found))]


def measured(found: Mapping[str, Any]) -> list[Row]:
    """The three risks and use: facts about private rows."""
    limit = (found.get("extra") or {}).get("limit")
    risks = three_risks(found.get("attacks") or ())
    return [*((wording.QUESTIONS[one.risk], in_points(one, limit)) for one in risks), ("Of use?", use(found))]


def is_private(audit: Mapping[str, Any]) -> bool:
    """Only an audit that says it is public is public."""
    return audit.get("private") is not False


def has_measured(found: Mapping[str, Any]) -> bool:
    """Whether the audit holds figures of private rows: the owner's does, and one that the owner shares with them."""
    return is_private(found) or bool(found.get("attacks"))


def bottom_line(found: Mapping[str, Any], folder: str = "DIR", width: int = 80) -> list[str]:
    """The rows as lines of a terminal."""
    lines: list[str] = []
    for left, words in rows(found, folder):
        # A state may be longer than the column, and a terminal narrow: the sentence then begins below.
        beside = len(left) < LEFT and width >= NARROW
        indent = " " * LEFT if width >= NARROW else "  "
        lines += [] if beside else [left]
        if COLUMN in words:
            words = COLUMN.join(part.replace(" ", "\xa0") for part in words.split(COLUMN))
        elif words.startswith("sfumato "):  # a command is not broken, so that it can be copied
            words = words.replace(" ", "\xa0")
        lines += textwrap.wrap(
            words,
            max(width, LEFT),
            initial_indent=f"{left:<{LEFT}}" if beside else indent,
            subsequent_indent=indent,
            break_on_hyphens=False,
            break_long_words=False,
        )
    return [line.replace("\xa0", " ") for line in lines]


def bottom_line_html(found: Mapping[str, Any], folder: str = "DIR") -> Markup:
    """The same rows for the report and a notebook; the first is the state."""
    return rows_html(rows(found, folder))


def rows_html(shown: Sequence[Row]) -> Markup:
    parts = [(tag("dt", left), "\n", tag("dd", words, style="white-space: pre-wrap"), "\n") for left, words in shown]
    return tag("dl", *(tag("div", *part) for part in parts), class_="bottom")


def proof(found: Mapping[str, Any]) -> str:
    """What is proved of all releases together, in a belief that people have met; or that nothing is."""
    earlier = (found.get("release") or {}).get("earlier_releases")
    return AllReleases.from_dict(found.get("guarantee") or {}, earlier or {}).bottom_line()


def in_points(one: Risk, limit: float | None = None) -> str:
    """One risk: right, without the release, extra, and the limit where there is one."""
    if one.points is None:
        return said("not tried: {why}", why=said(one.why))
    if one.ways and not one.found:
        return said("tried {ways:,} ways, none found", ways=one.ways)
    right, without, extra = in_digits(one.points, limit)
    pairs = one.points.pairs or (one.risk == LINKABILITY and one.points.without == 50.0)
    parts: list[str] = [
        said("{right} of 100 pairs told apart" if pairs else "{right} of 100", right=right),
        said("{without} without the release", without=without),
        extra,
    ]
    if limit is not None:
        parts += [f"up to +{math.ceil(10 * one.high) / 10:g} by the 95% interval"] if one.high > limit else []
        parts.append(f"limit {limit:g}")
    return joined(parts, COLUMN)


def in_digits(points: Points, limit: float | None = None) -> tuple[str, str, str]:
    """Right, without, and extra: whole numbers where they add up and stay on their side of the limit."""
    right, without, extra = round(points.right), round(points.without), round(points.extra)
    if not points.learns:
        return f"{right}", f"{without}", "learns nothing"
    crossed = limit is not None and (extra > limit) != (points.extra > limit)
    digits = 0 if right - without == extra and not crossed else 1
    more = "within chance" if points.low <= 0 else f"+{points.extra:.{digits}f}"
    return f"{points.right:.{digits}f}", f"{points.without:.{digits}f}", more


def use(found: Mapping[str, Any]) -> str:
    """How well the best learner predicts from the release, or what is known without one; what is of no use is said
    first."""
    learned = [one for one in found.get("utility") or () if one.get("release") is not None]
    if not learned:
        known = [_not_predicted(found), _shares_off(found)]
        return joined([one for one in known if one] or ["not measured: there is no column to predict"], "; ")
    best = max(learned, key=lambda one: float(one["release"]))
    originals = max(float(one["original"]) for one in found["utility"] if one.get("original") is not None)
    released, commonest, than, warning = float(best["release"]), best.get("commonest"), best.get("than_commonest"), ""
    if than == wording.NO_BETTER and commonest is not None and released > commonest:
        warning = "too few rows to tell that it is better than always answering the commonest class: "
    elif than in (wording.NO_BETTER, wording.WORSE):  # it does not give more than the commonest class
        warning = f"{than} than always answering the commonest class: "
    right = wording.right_of_100(released, best["classifier"], asked_about(best), commonest, originals)
    return joined([*([warning] if warning else []), right], "")


def _not_predicted(found: Mapping[str, Any]) -> str:
    """Why nothing was learned though there is a column to predict, and what to add."""
    label, settings = (found.get("release") or {}).get("label"), found.get("settings") or {}
    if label is None:
        return ""
    name = f"'{wording.own_words(str(label), 40)}'"
    if settings.get("repeats") == 0:
        return f"how well {name} is predicted was not asked for: add --repeats 10, or leave --attack out"
    if settings.get("holdout_rows"):
        return said("how well {name} is predicted is not known; audit.json says why in its notes", name=name)
    why = "how well {name} is predicted is not known: it needs people not in the table, with that column (--holdout)"
    return said(why, name=name)


def _shares_off(found: Mapping[str, Any]) -> str:
    """How far the release's columns are from the people's; nothing where they were not compared."""
    fidelity = found.get("fidelity") or {}
    marginals = (fidelity.get("marginals") or {}).get("release")
    if marginals is None:
        return ""
    off = [said("shares of one column are off by {points} points", points=f"{100 * marginals:.0f}")]
    if (pairs := fidelity["pairs"]["release"]) is not None:
        off.append(said("of two columns by {points}", points=f"{100 * pairs:.0f}"))
    return joined(off, ", ")


def asked_about(entry: Mapping[str, Any]) -> str:
    """The rows that a learner was asked about; an audit of 0.2 does not say how many."""
    rows, splits = entry.get("tested_rows"), int(entry.get("splits") or 1)
    if rows is None:
        return "rows that it had not seen"
    if entry.get("tested_on") == HOLDOUT:
        return said("1 person not in the table" if rows == 1 else "{rows:,} people not in the table", rows=rows)
    left = said("1 row left out of training" if rows == 1 else "{rows:,} rows left out of training", rows=rows)
    return joined([left, said("{splits} times", splits=splits)], ", ") if splits > 1 else left


def _not_hidden(found: Mapping[str, Any]) -> str:
    """What anybody with the release knows beyond the proof: true of the released files alone."""
    release = found.get("release") or {}
    owner, data = ("you", "your data") if has_measured(found) else ("the owner", "the data")
    parts: list[str] = []
    if declared := release.get("declared"):
        parts.append(said("the ranges {owner} declared ({reasons})", owner=said(owner), reasons=_reasons(declared)))
    elif release.get("owners_word"):
        parts.append(said("the ranges {owner} declared", owner=said(owner)))
    if learned := release.get("learned_from_data"):
        read = wording.listed(summarized(learned), MOST_REASONS)
        parts.append(said("what was read off {data} ({read})", data=said(data), read=read))
    if release.get("label_state") == "exact":
        parts.append("the column to predict")
    if (found.get("guarantee") or {}).get("kind") != CENTRAL_DP:
        parts.append("who is in the table")
    return joined(parts or ["what is true of everybody"], "; ")


def _reasons(declared: Sequence[Mapping[str, Any]]) -> str:
    """How many ranges by which reasons; many reasons are counted, and stand in full where the card is shown."""
    counts = [int(one["ranges"]) for one in declared]
    if len(declared) > MOST_REASONS:
        many = "{count:,} ranges, {reasons:,} different reasons: see `sfumato show`"
        return said(many, count=sum(counts), reasons=len(declared))
    quotes = [wording.quoted(str(one["reason"]), 60) for one in declared]
    if len(declared) == 1:
        return said("{count:,}, reason {reason}", count=counts[0], reason=quotes[0])
    pairs = zip(counts, quotes, strict=True)
    each = joined([said("{count:,} by {reason}", count=count, reason=reason) for count, reason in pairs], ", ")
    return said("{count:,}: {each}", count=sum(counts), each=each)


def _next(found: Mapping[str, Any], state: str, folder: str) -> str:
    """One command: what is missing, something stronger, or the page to hand over."""
    if state == UNKNOWN and not (found.get("settings") or {}).get("holdout_rows"):
        return "the same with --holdout TABLE: people not in the table, whom some attackers need"
    if state == NOT_WITHIN or found.get("guarantee") is None:
        return wording.to_type("recommend", "TABLE")
    return wording.to_type("certificate", folder)
