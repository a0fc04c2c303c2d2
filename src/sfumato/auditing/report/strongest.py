"""The strongest attacker of each of the three European risks (opinion 05/2014), and who learns nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from sfumato.auditing.extra import points_of, three_risks
from sfumato.auditing.report.bars import bar, legend
from sfumato.auditing.report.bottom_line import in_points
from sfumato.auditing.report.markup import Section, drawn
from sfumato.auditing.report.verdict import IN_SHORT, POPULATION, verdict
from sfumato.core.wording import QUESTIONS

Attacks = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Shown:
    """One risk. `words` as in the bottom line; `beside`: what these leave out, such as a condition."""

    question: str
    risk: str
    attacker: str
    words: str
    chart: Markup | None = None
    verdict: str = ""
    beside: str = ""


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
    """All three, also those that nobody tried."""
    entries = {entry["name"]: entry for entry in attacks}
    shown = []
    for one in three_risks(attacks):
        told = (QUESTIONS[one.risk], one.risk, one.attacker, in_points(one, limit))
        if one.points is None:
            shown.append(Shown(*told))
            continue
        entry = entries[one.attacker]
        state = verdict(entry)
        others = [IN_SHORT[state]] if state == POPULATION else []
        beside = [*others, *(f"if {line}" for line in entry.get("assumes") or ()), *rows_scored(entry)]
        shown.append(Shown(*told, bar(entry, state), state, "; ".join(beside)))
    return shown


def rows_scored(entry: Mapping[str, Any]) -> Iterator[str]:
    """On how many rows a figure rests, where others are made up and fit nobody."""
    details = entry.get("details") or {}
    if details.get("rows_of_people") is not None and details.get("rows_in_all") is not None:
        yield f"on {details['rows_of_people']:,.0f} of {details['rows_in_all']:,.0f} rows, which fit a person"


def other_lines(attacks: Attacks) -> Iterator[str]:
    """Who learns nothing, to whom the release is not open, and who failed: one line each."""
    points = [(entry, points_of(entry)) for entry in attacks]
    if nothing := [str(entry["name"]) for entry, found in points if found is not None and not found.learns]:
        yield f"learn nothing: {', '.join(nothing)}"
    if not_open := [entry for entry in attacks if entry.get("not_applicable")]:
        yield _not_open_line(not_open)
    if failed := [f"{entry['name']} ({entry['failed']})" for entry in attacks if entry.get("failed")]:
        yield f"failed, which says nothing about privacy: {', '.join(failed)}"


def _not_open_line(attacks: Attacks) -> str:
    """To whom the release is not open, and the commonest reason."""
    reason, count = Counter(str(entry["not_applicable"]) for entry in attacks).most_common(1)[0]
    names = ", ".join(str(entry["name"]) for entry in attacks)
    how = "" if count == len(attacks) else "mostly: " if count > 1 else "for one: "
    return f"not applicable: {names} ({how}{reason})"
