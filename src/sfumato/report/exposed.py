"""Which columns and which records the release gives away: for the owner's eyes, records by their row numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from sfumato.report.attacks import counts_values, extra
from sfumato.report.bars import bar, legend
from sfumato.report.bottom_line import is_private
from sfumato.report.markup import Section, drawn
from sfumato.report.verdict import GAINS, IN_SHORT, SIGNS, column_verdict
from sfumato.report.wording import DASH, of_100

MOST_EXPOSED = 12


@dataclass(frozen=True)
class Exposed:
    """One column, and the attacker who tells most about it."""

    name: str
    attack: str
    verdict: str
    sign: str
    in_short: str
    chart: Markup
    value: str


@dataclass(frozen=True)
class Exposure:
    """The most exposed columns, how many more there are, and those about which nobody learns anything."""

    columns: list[Exposed]
    left_out: int
    spared: list[str]


def exposed_section(audit: Mapping[str, Any]) -> Section:
    """For each column the attacker on values who gets most extra."""
    attacks = list(audit.get("attacks") or ())
    found = exposure(attacks, int((audit.get("settings") or {}).get("rows_used") or 0))
    title = "Which columns reveal most"
    if not found.columns and not found.spared:
        return Section("exposed", title, why="no attacker on values ran")
    return drawn("exposed", title, exposed=found, legend=legend(attacks))


def riskiest_section(audit: Mapping[str, Any]) -> Section:
    """Records of the original: in the owner's page alone."""
    title = "Riskiest records"
    if not is_private(audit):
        return Section("riskiest", title, why="")
    records = audit.get("riskiest") or ()
    if not records:
        return Section("riskiest", title, why="the release adds nothing about any one record beyond chance")
    names = (audit.get("release") or {}).get("source_columns") or ()
    return drawn("riskiest", f"{title} ({len(records)})", riskiest=riskiest_rows(records, names))


def exposure(attacks: Sequence[Mapping[str, Any]], people: int) -> Exposure:
    """Columns by extra; `people` is how many were attacked, for the verdict."""
    comparisons = 0
    best: dict[str, tuple[float, str, Mapping[str, Any]]] = {}
    for entry in filter(counts_values, attacks):
        for column in entry.get("columns") or ():
            comparisons += 1
            name = str(column["name"])
            if name not in best or extra(column) > best[name][0]:
                best[name] = (extra(column), str(entry["name"]), column)
    ranked = sorted(best.items(), key=lambda item: (-item[1][0], item[0]))
    gained = [(attack, column) for _, (more, attack, column) in ranked if more > 0]
    return Exposure(
        columns=[
            _exposed(attack, column, column_verdict(column, people, comparisons))
            for attack, column in gained[:MOST_EXPOSED]
        ],
        left_out=max(0, len(gained) - MOST_EXPOSED),
        spared=sorted(name for name, (more, _, _) in best.items() if more <= 0),
    )


def _exposed(attack: str, column: Mapping[str, Any], state: str) -> Exposed:
    return Exposed(
        name=str(column["name"]),
        attack=attack,
        verdict=state,
        sign=SIGNS[state],
        in_short=attack if state == GAINS else f"{attack}, {IN_SHORT[state]}",
        chart=bar(column, state),
        value=of_100(column["score"]),
    )


def riskiest_rows(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, str]]:
    """Row numbers of the original, what the release adds about them, and by which attackers they are hit worst."""
    return [
        {
            "row": str(record.get("record", DASH)),
            "score": of_100(record.get("score")),
            "without": of_100(record.get("without")),
            "told": told([str(name) for name in record.get("columns") or ()], [str(name) for name in names]),
            "attacks": ", ".join(map(str, record.get("attacks") or ())) or DASH,
        }
        for record in records
    ]


def told(columns: Sequence[str], names: Sequence[str]) -> str:
    """The columns that are told, or the others where these are fewer: a list that can be read.

    >>> told(["age", "sex", "zip"], ["age", "sex", "zip", "job"])
    '3 of 4: all but job'
    """
    if not columns:
        return DASH
    others = [name for name in names if name not in columns]
    if len(columns) + len(others) != len(names):
        return ", ".join(columns)
    count = f"{len(columns)} of {len(names)}"
    if not others:
        return f"{count}: all of them"
    return f"{count}: all but {', '.join(others)}" if len(others) < len(columns) else f"{count}: {', '.join(columns)}"
