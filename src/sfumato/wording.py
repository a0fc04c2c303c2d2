"""Small things that every message needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

IRREGULAR = {
    "class": "classes",
    "person": "people",
    "adversary": "adversaries",
    "category": "categories",
    "search": "searches",
    "query": "queries",
}

BETTER, NO_BETTER, WORSE = "better", "no better", "worse"

_WORDS = {
    BETTER: "",
    NO_BETTER: "No better than always answering the commonest class, as far as these rows can tell.",
    WORSE: "Worse than always answering the commonest class: do not use this model.",
}


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 row, 2 rows, 1,200 rows. The last word of `noun` takes the plural.

    >>> counted(1, "private column"), counted(2, "private column"), counted(1200, "person")
    ('1 private column', '2 private columns', '1,200 people')
    """
    head, space, last = noun.rpartition(" ")
    plural = IRREGULAR.get(last, f"{last}s")
    return f"{number:,} {noun if number == 1 else head + space + plural}"


def first_names(names: Sequence[str], most: int = 5) -> str:
    """A few names, and how many more there are.

    >>> first_names(["age", "bmi", "sex"], 2)
    'age, bmi and 1 more'
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def than_commonest(low: float, high: float) -> str:
    """From the 95% interval of (error - error of the commonest class): below 0 is better, above it worse.

    >>> than_commonest(-0.2, -0.1), than_commonest(-0.1, 0.1), than_commonest(0.1, 0.2)
    ('better', 'no better', 'worse')
    """
    if math.isnan(low) or math.isnan(high):
        return NO_BETTER
    return BETTER if high < 0.0 else WORSE if low > 0.0 else NO_BETTER


def commonest_words(than: str) -> str:
    """One sentence where a model is no better than guessing; nothing where it is."""
    return _WORDS[than]


WORSE_THAN_GUESSING = "worse than guessing: this adversary would rather guess"
"""Nobody is made to look harmless by a guess that they would not make."""


def is_worse_than_guessing(score: float | None, baseline: float | None) -> bool:
    """Whether somebody who never saw the release gets more."""
    return score is not None and baseline is not None and score < baseline - 1e-9
