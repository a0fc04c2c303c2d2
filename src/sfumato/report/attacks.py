"""What every adversary gets, worst first: success, what it is read against, and further figures in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from sfumato.report.attack_chart import bar
from sfumato.report.verdict import IN_WORDS, ORDER, SIGNS, in_short, verdict
from sfumato.report.wording import detail_rows, ends, figure, known_words, quantity

FEW_COLUMNS = 5
"""A table of so many columns stands open; a longer one is folded away."""
NOT_OF_VALUES = {"auc", "out_of", "predicates", "eligible", "source_hits", "bounds_hold"}
NOT_OF_VALUES |= {"median_distance", "median_doubt"}
"""Figures that come with attacks whose success counts something else than values guessed right."""


@dataclass(frozen=True)
class Score:
    """One figure of an attack, with a smaller one below it."""

    words: str
    value: str
    below: str = ""


@dataclass(frozen=True)
class Told:
    """One attack that was scored, ready to be shown."""

    name: str
    story: str
    knows: list[str]
    assumes: list[str]
    verdict: str
    sign: str
    in_short: str
    in_words: str
    measure: str
    chart: Markup
    value: str
    scores: list[Score]
    upper_bound: str
    chosen: str
    details: list[tuple[str, str, str]]
    columns: list[dict[str, str]]
    has_control: bool
    has_errors: bool
    open: bool


def told_attacks(attacks: Sequence[Mapping[str, Any]], tolerance: float | None) -> list[Told]:
    """Scored attacks, those that gain from the release first, then by success."""
    scored = [(verdict(entry), entry) for entry in attacks if entry.get("score") is not None]
    scored.sort(key=lambda pair: (ORDER.index(pair[0]), -pair[1]["score"], pair[1]["name"]))
    return [_told(entry, state, tolerance) for state, entry in scored]


def _told(entry: Mapping[str, Any], state: str, tolerance: float | None) -> Told:
    columns = list(entry.get("columns") or ())
    details = dict(entry.get("details") or {})
    return Told(
        name=str(entry["name"]),
        story=_story(entry),
        knows=known_words(list(entry.get("knows") or ())),
        assumes=[str(line) for line in entry.get("assumes") or ()],
        verdict=state,
        sign=SIGNS[state],
        in_short=", ".join([in_short(entry), *[f"if {line}" for line in entry.get("assumes") or ()]]),
        in_words=IN_WORDS[state],
        measure=measure(details, tolerance),
        chart=bar(entry, state),
        value=figure(entry["score"]),
        scores=_scores(entry, details.pop("worst_baseline", None)),
        upper_bound=_upper_bound(entry, details.pop("own_choice", None)),
        chosen=f"{chosen[:1].upper()}{chosen[1:]}." if (chosen := str(entry.get("chosen") or "")) else "",
        details=detail_rows(details),
        columns=column_rows(columns),
        has_control=any(column.get("control") is not None for column in columns),
        has_errors=any(column.get("rmse") is not None for column in columns),
        open=len(columns) <= FEW_COLUMNS,
    )


def _story(entry: Mapping[str, Any]) -> str:
    """What the adversary does, and with which settings where they are not the usual ones."""
    changed = ", ".join(f"{name} = {value}" for name, value in (entry.get("parameters") or {}).items())
    return " ".join(filter(None, [str(entry.get("story") or ""), f"Run with {changed}." if changed else ""]))


def measure(details: Mapping[str, Any], tolerance: float | None) -> str:
    """What success counts; told by the figures that come with it, so that new attacks of a known kind are covered."""
    if "auc" in details:
        return "Success is 0 if members and strangers cannot be told apart, 1 if they always can."
    if "out_of" in details:
        many = int(details["out_of"])
        who = "pairs of people that it tells apart" if many == 2 else f"rows whose person it picks out of {many}"
        return f"Success is the share of {who}; guessing gives {1 / many:.3g}."
    if "predicates" in details:
        return "Success is the share of predicates that are true of exactly one person of the table."
    if "source_hits" in details:
        return "Success is the share of released rows whose source was found."
    if "bounds_hold" in details:
        return "Success is the share of a column's range that the interval leaves out, 0 where it misses the truth."
    if "eligible" in details:
        return "Success is the share of people about whom something unlikely became believable, and is true."
    if "median_distance" in details or "median_doubt" in details:
        return "Success is the share of people whose own released row was found."
    right = "Success is the share of private values that were guessed right"
    if tolerance is None:
        return f"{right}."
    return f"{right} (numbers: to within {100 * tolerance:g}% of the column's range, or rounded to the right one)."


def grouped_reasons(attacks: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Attacks that do not apply, those with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for entry in attacks:
        if entry.get("not_applicable"):
            reasons.setdefault(str(entry["not_applicable"]), []).append(str(entry["name"]))
    return [(", ".join(names), reason) for reason, names in reasons.items()]


def counts_values(entry: Mapping[str, Any]) -> bool:
    """Whether success counts values guessed right, so that columns of different attacks can be compared."""
    return not NOT_OF_VALUES & set(entry.get("details") or ())


def _scores(entry: Mapping[str, Any], worst_baseline: float | None) -> list[Score]:
    """Success and what it is to be read against; the control only where there is one."""
    interval = ends(entry.get("interval"))
    between = "" if interval is None else f"{figure(interval[0])} to {figure(interval[1])}"
    scores = [
        Score("success", figure(entry["score"]), between),
        Score("without the release", figure(entry.get("baseline"))),
    ]
    if entry.get("control") is not None:
        scores.append(Score("on people not in the table", figure(entry["control"])))
    if entry.get("worst") is not None:
        below = "" if worst_baseline is None else f"{figure(worst_baseline)} without the release"
        scores.append(Score("on the worst 1% of records", figure(entry["worst"]), below))
    return scores


def _upper_bound(entry: Mapping[str, Any], own_choice: float | None) -> str:
    if not entry.get("upper_bound"):
        return ""
    alone = "" if own_choice is None else f" Alone the adversary gets {figure(own_choice)}."
    return f"An upper bound: the best of several guesses was taken, which only the truth can tell.{alone}"


def column_rows(columns: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Figures per column, the largest gain first; what the audit does not hold is a dash."""
    return [
        {
            "name": str(column["name"]),
            "score": figure(column.get("score")),
            "baseline": figure(column.get("baseline")),
            "control": figure(column.get("control")),
            "rmse": quantity(column.get("rmse")),
            "rmse_of_mean": "" if column.get("rmse_of_mean") is None else quantity(column["rmse_of_mean"]),
        }
        for column in sorted(columns, key=lambda column: -gain(column))
    ]


def gain(column: Mapping[str, Any]) -> float:
    """How much more is told of a column than without the release."""
    return float(column.get("score") or 0.0) - float(column.get("baseline") or 0.0)
