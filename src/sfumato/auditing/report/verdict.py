"""Does an attacker learn from the release? What is right is read against the same without it, and about others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import NormalDist
from typing import Any

from sfumato.auditing.report.wording import ends

GAINS, POPULATION, UNCLEAR, NO_GAIN = "gains", "population", "unclear", "no-gain"
SIGNS = {GAINS: "▲", POPULATION: "◆", UNCLEAR: "?", NO_GAIN: "▽"}
IN_SHORT = {
    GAINS: "learns from the release",
    POPULATION: "as much about people not in the table",
    UNCLEAR: "within chance",
    NO_GAIN: "learns nothing",
}
IN_WORDS = {
    GAINS: "More than without the release, beyond chance.",
    POPULATION: "More than without the release, but no more than about people not in the table.",
    UNCLEAR: "More than without the release, but that may be chance.",
    NO_GAIN: "No more than without the release.",
}
COUNTED = {
    GAINS: ("learns from the release", "learn from the release"),
    POPULATION: ("learns as much about people not in the table", "learn as much about people not in the table"),
    UNCLEAR: ("is within chance", "are within chance"),
    NO_GAIN: ("learns nothing", "learn nothing"),
}
ORDER = (GAINS, POPULATION, UNCLEAR, NO_GAIN)
CHANCE = 0.025
"""In all: where the best of many figures is shown, each must pass a stricter test (Bonferroni)."""


def verdict(entry: Mapping[str, Any]) -> str:
    """Compare the lower end of the interval with right without the release, then with that about other people."""
    low = (ends(entry.get("interval")) or (entry["score"], 1.0))[0]
    return _verdict(entry["score"], low, entry.get("baseline"), entry.get("control"))


def column_verdict(column: Mapping[str, Any], people: int, comparisons: int) -> str:
    """The same for one column; its interval follows from the number of people attacked and of figures compared."""
    score = float(column["score"])
    width = NormalDist().inv_cdf(1 - CHANCE / max(comparisons, 1))
    error = math.sqrt(score * (1 - score) / people) if people else math.inf
    return _verdict(score, score - width * error, column.get("baseline"), column.get("control"))


def _verdict(score: float, low: float, baseline: float | None, control: float | None) -> str:
    if score <= (baseline or 0.0):
        return NO_GAIN
    if low <= (baseline or 0.0):
        return UNCLEAR
    return POPULATION if control is not None and low <= control else GAINS


def in_all(verdicts: Iterable[str]) -> str:
    """One sentence: how many attackers learn something.

    >>> in_all([GAINS, GAINS, NO_GAIN])
    'Of 3 attackers, 2 learn from the release and 1 learns nothing.'
    """
    found = list(verdicts)
    if not found:
        return ""
    if len(set(found)) == 1:
        one, several = COUNTED[found[0]]
        return f"The one attacker {one}." if len(found) == 1 else f"All {len(found)} attackers {several}."
    parts = [f"{found.count(state)} {COUNTED[state][found.count(state) > 1]}" for state in ORDER if state in found]
    return f"Of {len(found)} attackers, {', '.join(parts[:-1])} and {parts[-1]}."
