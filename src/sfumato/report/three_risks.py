"""The three risks of the European guidance on anonymisation (opinion 05/2014), for any release, as the first table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.attacks import ATTACKS
from sfumato.attacks.base import INFERENCE, LINKABILITY, SINGLING_OUT
from sfumato.report.verdict import IN_SHORT, SIGNS, verdict
from sfumato.report.wording import ends, figure

RISKS = {
    SINGLING_OUT: "a description that fits one person alone",
    LINKABILITY: "a record is connected with its released row, or with the table",
    INFERENCE: "a value of somebody is told",
}


@dataclass(frozen=True)
class Risk:
    """One of the three, by the attack that gains most from the release. `excess` as Anonymeter has it: success beyond
    the control or the baseline, whichever is larger, as a share of what was left to gain."""

    name: str
    words: str
    attack: str
    score: str
    interval: str
    against: str
    excess: str
    sign: str
    in_short: str


def three_risks(attacks: Sequence[Mapping[str, Any]]) -> list[Risk]:
    """Nothing where no attack of any of the three was scored.

    Every attack says which risk it plays (`Attack.risk`). One that assumes a leaked key, or the best of several guesses
    by the truth, is more than anybody has who holds the release; neither counts here.
    """
    counted = [entry for entry in attacks if entry.get("score") is not None and entry["name"] in ATTACKS]
    counted = [entry for entry in counted if not entry.get("assumes") and not entry.get("upper_bound")]
    found = []
    for risk, words in RISKS.items():
        tried = [entry for entry in counted if ATTACKS[entry["name"]].risk == risk]
        found.append(_risk(risk.capitalize(), words, max(tried, key=excess, default=None)))
    return found if any(risk.attack for risk in found) else []


def excess(entry: Mapping[str, Any]) -> float:
    """(success - reference) / (1 - reference), 0 where success is below it."""
    reference = _reference(entry)
    return max(0.0, (float(entry["score"]) - reference) / (1 - reference)) if reference < 1 else 0.0


def _reference(entry: Mapping[str, Any]) -> float:
    return max(float(entry.get("control") or 0.0), float(entry.get("baseline") or 0.0))


def _risk(name: str, words: str, entry: Mapping[str, Any] | None) -> Risk:
    if entry is None:
        return Risk(
            name, words, "", "not tried", "", "", "", "", "nobody can tell whose row is whose, or it was left out"
        )
    between = ends(entry.get("interval"))
    state = verdict(entry)
    return Risk(
        name,
        words,
        str(entry["name"]),
        figure(entry["score"]),
        "" if between is None else f"{figure(between[0])} to {figure(between[1])}",
        figure(_reference(entry)),
        figure(excess(entry)),
        SIGNS[state],
        IN_SHORT[state],
    )
