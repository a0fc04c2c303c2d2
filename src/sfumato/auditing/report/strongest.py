"""The strongest attacker of each of the three European risks (opinion 05/2014), and who learns nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sfumato.auditing.extra import points_of, shown_points, three_risks
from sfumato.auditing.report.bottom_line import in_points
from sfumato.auditing.report.markup import (
    IN_SHORT,
    IN_WORDS,
    KNOWLEDGE,
    ORDER,
    POPULATION,
    SIGNS,
    Section,
    Shown,
    bar,
    between,
    detail_rows,
    drawn,
    ends,
    figure,
    in_all,
    in_words,
    legend,
    of_100,
    verdict,
)
from sfumato.core.wording import QUESTIONS

Attacks = Sequence[Mapping[str, Any]]


def strongest_section(audit: Mapping[str, Any]) -> Section:
    """Who gets most extra; with the others in a few lines."""
    attacks = list(audit.get("attacks") or ())
    limit = (audit.get("extra") or {}).get("limit")
    return drawn(
        "strongest",
        "The strongest attacker of each risk",
        risks=strongest(attacks, limit),
        legend=legend(attacks),
        others=list(other_lines(attacks)),
        limit=limit,
    )


def strongest(attacks: Attacks, limit: float | None = None) -> list[Shown]:
    """All three, also those that no attacker tried. `words` as in the bottom line; `beside`: what these leave out, such
    as a condition."""
    entries = {entry["name"]: entry for entry in attacks}
    shown = []
    for one in three_risks(attacks):
        told = Shown(question=QUESTIONS[one.risk], risk=one.risk, attacker=one.attacker, words=in_points(one, limit))
        told.chart, told.verdict, told.beside = None, "", ""
        if one.points is not None:
            entry = entries[one.attacker]
            told.verdict = verdict(entry)
            told.chart = bar(entry, told.verdict)
            others = [IN_SHORT[POPULATION]] if told.verdict == POPULATION else []
            told.beside = "; ".join(
                [*others, *(f"if {line}" for line in entry.get("assumes") or ()), *rows_scored(entry)]
            )
        shown.append(told)
    return shown


def rows_scored(entry: Mapping[str, Any]) -> Iterator[str]:
    """On how many rows a figure rests, where others are made up and fit no person."""
    details = entry.get("details") or {}
    if details.get("rows_of_people") is not None and details.get("rows_in_all") is not None:
        yield f"on {details['rows_of_people']:,.0f} of {details['rows_in_all']:,.0f} rows, which fit a person"


def other_lines(attacks: Attacks) -> Iterator[str]:
    """Who learns nothing, to whom the release is not open, and who failed: one line each."""
    points = [(entry, points_of(entry)) for entry in attacks]
    if nothing := [str(entry["name"]) for entry, found in points if found is not None and not found.learns]:
        yield f"learn nothing: {', '.join(nothing)}"
    if not_open := {
        str(entry["name"]): str(entry["not_applicable"]) for entry in attacks if entry.get("not_applicable")
    }:
        reason, count = Counter(not_open.values()).most_common(1)[0]
        how = "" if count == len(not_open) else "mostly: " if count > 1 else "for one: "
        yield f"not applicable: {', '.join(not_open)} ({how}{reason})"
    if failed := [f"{entry['name']} ({entry['failed']})" for entry in attacks if entry.get("failed")]:
        yield f"failed, which says nothing about privacy: {', '.join(failed)}"


RIGHT = {
    "auc": "of two people, one of whom is in the table, it says which; 50 of 100 without the release",
    "predicates": "descriptions that fit exactly one person of the table",
    "source_hits": "released rows whose source was found",
    "bounds_hold": "the share of a column's range that the interval leaves out, 0 where it misses the truth",
    "eligible": "people about whom something unlikely became believable, and is true",
    "median_distance": "people whose own released row was found",
    "median_doubt": "people whose own released row was found",
}
NOT_OF_VALUES = {"out_of", *RIGHT}
"""Figures that come with attacks whose success counts something else than values guessed right."""


def attackers_section(audit: Mapping[str, Any]) -> Section:
    """One bar an attacker, those who learn from the release first, then by what is right; reasons of those who did not
    run; then each with all figures."""
    attacks = list(audit.get("attacks") or ())
    ran = [(verdict(entry), entry) for entry in attacks if entry.get("score") is not None]
    ran.sort(key=lambda pair: (ORDER.index(pair[0]), -shown_points(pair[1]).right, pair[1]["name"]))
    reasons: dict[str, list[str]] = {}
    for entry in attacks:
        if entry.get("not_applicable"):
            reasons.setdefault(str(entry["not_applicable"]), []).append(str(entry["name"]))
    return drawn(
        "attacks",
        f"Every attacker ({len(ran)} of {len(attacks)} ran)" if attacks else "Every attacker",
        "" if attacks else "no attacker was run; this says nothing about privacy",
        told=[_told(entry, state, (audit.get("settings") or {}).get("tolerance")) for state, entry in ran],
        in_all=in_all(state for state, _ in ran),
        legend=legend(attacks),
        not_applicable=reasons,
        failed=[entry for entry in attacks if entry.get("failed")],
    )


def _told(entry: Mapping[str, Any], state: str, tolerance: float | None) -> Shown:
    details = dict(entry.get("details") or {})
    alone, bound = details.pop("own_choice", None), ""
    if entry.get("upper_bound"):
        bound = "An upper bound: the best of several guesses was taken, which only the truth can tell."
        bound += "" if alone is None else f" Alone the attacker gets {of_100(alone)}."
    changed = ", ".join(f"{name} = {value}" for name, value in (entry.get("parameters") or {}).items())
    return Shown(
        name=str(entry["name"]),
        story=" ".join(filter(None, [str(entry.get("story") or ""), f"Run with {changed}." if changed else ""])),
        knows=[in_words(KNOWLEDGE, item) for item in entry.get("knows") or ()],
        assumes=entry.get("assumes"),
        verdict=state,
        sign=SIGNS[state],
        in_short=", ".join([IN_SHORT[state], *(f"if {line}" for line in entry.get("assumes") or ())]),
        in_words=IN_WORDS[state],
        measure=measure(details, tolerance),
        chart=bar(entry, state),
        value=of_100(shown_points(entry).right / 100),
        scores=_scores(entry, details.pop("worst_baseline", None)),
        upper_bound=bound,
        chosen=f"{chosen[:1].upper()}{chosen[1:]}." if (chosen := str(entry.get("chosen") or "")) else "",
        details=detail_rows(details),
        columns=sorted(entry.get("columns") or (), key=lambda column: -shown_points(column).extra),
    )


def measure(details: Mapping[str, Any], tolerance: float | None) -> str:
    """What is right; told by the figures that come with it, so that new attackers of a known kind are covered."""
    for name, words in RIGHT.items():
        if name in details:
            return f"Right: {words}."
    if "out_of" in details:
        many = int(details["out_of"])
        who = "pairs of people that it tells apart" if many == 2 else f"rows whose person it picks out of {many}"
        return f"Right: {who}; {of_100(1 / many)} of 100 without the release."
    if tolerance is None:
        return "Right: private values that were guessed."
    near = f"numbers: to within {100 * tolerance:g}% of the column's range, or rounded to the right one"
    return f"Right: private values that were guessed ({near})."


def _scores(entry: Mapping[str, Any], worst_without: float | None) -> list[tuple[str, str, str]]:
    """Right of 100 and what it is to be read against; other people only where there are any."""
    points = shown_points(entry)
    whole = [(points.without + end) / 100 for end in (points.low, points.high)]
    interval = "" if ends(entry.get("interval")) is None else between(whole, of_100)
    scores = [
        ("pairs told apart of 100" if points.pairs else "right of 100", of_100(points.right / 100), interval),
        ("without the release", of_100(points.without / 100), ""),
    ]
    if entry.get("control") is not None:
        scores.append(("about people not in the table", of_100(entry["control"]), ""))
    scores.append(("extra", f"{points.extra:+.1f}", ""))
    scores.append(("share of what was left", figure(share_of_what_was_left(entry)), ""))
    if entry.get("worst") is not None:
        below = "" if worst_without is None else f"{of_100(worst_without)} without the release"
        scores.append(("about the worst 1% of records", of_100(entry["worst"]), below))
    return scores


def share_of_what_was_left(entry: Mapping[str, Any]) -> float:
    """As Anonymeter has it: (right - reference) / (1 - reference), the reference being right without the release or
    about people not in the table, whichever is more; 0 where right is below it."""
    reference = max(float(entry.get("control") or 0.0), float(entry.get("baseline") or 0.0))
    return max(0.0, (float(entry["score"]) - reference) / (1 - reference)) if reference < 1 else 0.0
