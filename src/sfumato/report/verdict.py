"""Does an attack gain from the release? Success is read against those who never saw it, and against strangers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from statistics import NormalDist
from typing import Any

from sfumato.report.wording import ends
from sfumato.wording import WORSE_THAN_GUESSING, is_worse_than_guessing

GAINS, POPULATION, UNCLEAR, NO_GAIN = "gains", "population", "unclear", "no-gain"
SIGNS = {GAINS: "▲", POPULATION: "◆", UNCLEAR: "?", NO_GAIN: "▽"}
IN_SHORT = {
    GAINS: "gains from the release",
    POPULATION: "as much about strangers",
    UNCLEAR: "within chance",
    NO_GAIN: "no gain",
}
IN_WORDS = {
    GAINS: "More than without the release, beyond chance.",
    POPULATION: "More than without the release, but no more than about people who were not in the table.",
    UNCLEAR: "More than without the release, but that may be chance.",
    NO_GAIN: "No more than somebody who never saw the release gets.",
}
COUNTED = {
    GAINS: ("gains from the release", "gain from the release"),
    POPULATION: ("tells as much about strangers", "tell as much about strangers"),
    UNCLEAR: ("is within chance", "are within chance"),
    NO_GAIN: ("gains nothing", "gain nothing"),
}
ORDER = (GAINS, POPULATION, UNCLEAR, NO_GAIN)
CHANCE = 0.025
"""In all: where the best of many figures is shown, each must pass a stricter test (Bonferroni)."""


def verdict(entry: Mapping[str, Any]) -> str:
    """Compare the lower end of the interval with the baseline, then with the control."""
    low = (ends(entry.get("interval")) or (entry["score"], 1.0))[0]
    return _verdict(entry["score"], low, entry.get("baseline"), entry.get("control"))


def worse_than_guessing(entry: Mapping[str, Any]) -> bool:
    """Whether somebody who never saw the release gets more."""
    return is_worse_than_guessing(entry.get("score"), entry.get("baseline"))


def in_short(entry: Mapping[str, Any]) -> str:
    """What the release gives this adversary, in a few words."""
    return WORSE_THAN_GUESSING if worse_than_guessing(entry) else IN_SHORT[verdict(entry)]


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
    """One sentence: how many attacks gain.

    >>> in_all([GAINS, GAINS, NO_GAIN])
    'Of 3 attacks, 2 gain from the release and 1 gains nothing.'
    """
    found = list(verdicts)
    if not found:
        return ""
    if len(set(found)) == 1:
        one, several = COUNTED[found[0]]
        return f"The one attack {one}." if len(found) == 1 else f"All {len(found)} attacks {several}."
    parts = [f"{found.count(state)} {COUNTED[state][found.count(state) > 1]}" for state in ORDER if state in found]
    return f"Of {len(found)} attacks, {', '.join(parts[:-1])} and {parts[-1]}."
