"""Which columns the release gives away: for each the attack on values that gains most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from sfumato.report.attack_chart import bar
from sfumato.report.attacks import counts_values, gain
from sfumato.report.verdict import GAINS, IN_SHORT, SIGNS, column_verdict

MOST_EXPOSED = 12


@dataclass(frozen=True)
class Exposed:
    """One column, and the attack that tells most about it."""

    name: str
    attack: str
    verdict: str
    sign: str
    in_short: str
    chart: Markup
    value: float


@dataclass(frozen=True)
class Exposure:
    """The most exposed columns, how many more there are, and those on which no attack gains."""

    columns: list[Exposed]
    left_out: int
    spared: list[str]


def exposure(attacks: Sequence[Mapping[str, Any]], people: int) -> Exposure:
    """Columns by what is gained; `people` is how many were attacked, for the verdict."""
    comparisons = 0
    best: dict[str, tuple[float, str, Mapping[str, Any]]] = {}
    for entry in filter(counts_values, attacks):
        for column in entry.get("columns") or ():
            comparisons += 1
            name = str(column["name"])
            if name not in best or gain(column) > best[name][0]:
                best[name] = (gain(column), str(entry["name"]), column)
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
        value=float(column["score"]),
    )
