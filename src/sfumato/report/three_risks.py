"""The three risks of the European guidance on anonymisation (opinion 05/2014), for any release, as the first table."""

from __future__ import annotations

from collections import Counter
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
    the control or the baseline, whichever is larger, as a share of what was left to gain. `of`: on which rows, where
    these are not all. A risk that no attack tried has no attack and no figure: `in_short` says why."""

    name: str
    words: str
    attack: str
    score: str
    interval: str
    against: str
    excess: str
    sign: str
    in_short: str
    of: str = ""


def three_risks(attacks: Sequence[Mapping[str, Any]]) -> list[Risk]:
    """All three, also where nobody tried one of them.

    Every attack says which risk it plays (`Attack.risk`). Whoever shares the secret key of a release holds it, so their
    attacks count. The best of several guesses by the truth is more than anybody has, and does not.
    """
    known = [entry for entry in attacks if entry["name"] in ATTACKS]
    found = []
    for risk, words in RISKS.items():
        mine = [entry for entry in known if ATTACKS[entry["name"]].risk == risk]
        tried = [entry for entry in mine if entry.get("score") is not None and not entry.get("upper_bound")]
        best = max(tried, key=excess, default=None)
        found.append(_untried(risk, words, mine) if best is None else _risk(risk, words, best))
    return found


def excess(entry: Mapping[str, Any]) -> float:
    """(success - reference) / (1 - reference), 0 where success is below it."""
    reference = _reference(entry)
    return max(0.0, (float(entry["score"]) - reference) / (1 - reference)) if reference < 1 else 0.0


def _reference(entry: Mapping[str, Any]) -> float:
    return max(float(entry.get("control") or 0.0), float(entry.get("baseline") or 0.0))


def _untried(name: str, words: str, entries: Sequence[Mapping[str, Any]]) -> Risk:
    """In place of figures the commonest reason why attacks of this kind had none."""
    reasons = Counter(
        str(entry.get("not_applicable") or f"{entry['name']} failed")
        for entry in entries
        if not entry.get("upper_bound")
    )
    why = reasons.most_common(1)[0][0] if reasons else "no attack of this kind was asked for"
    return Risk(name.capitalize(), words, "", "not tried", "", "", "", "", why)


def _risk(name: str, words: str, entry: Mapping[str, Any]) -> Risk:
    between, details = ends(entry.get("interval")), entry.get("details") or {}
    state = verdict(entry)
    own, everything = details.get("rows_of_people"), details.get("rows_in_all")
    return Risk(
        name.capitalize(),
        words,
        str(entry["name"]),
        figure(entry["score"]),
        "" if between is None else f"{figure(between[0])} to {figure(between[1])}",
        figure(_reference(entry)),
        figure(excess(entry)),
        SIGNS[state],
        ", ".join([IN_SHORT[state], *(f"if {line}" for line in entry.get("assumes") or ())]),
        "" if own is None or everything is None else f"on {own:,.0f} of {everything:,.0f} rows",
    )
