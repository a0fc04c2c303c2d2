"""What is proved about the release, on what it rests, and what stands in the way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.guarantee.guarantee import LOCAL_DP, summarized
from sfumato.report.wording import certainty, epsilon

LEVELS = (
    ("component", "One released number", "what a single cell of the release gives away"),
    ("column", "One column of a person", "what all of a released row gives away about one original value"),
    ("record", "A person's whole record", "the headline: everything in the row at once"),
    ("person", "A person, with all their rows", "rows of the same person add up"),
)
HEADLINES = {
    "formal": "Proved: a bound holds for everybody",
    "weak": "Formally bounded, practically unprotected",
    "conditional": "Not proved: a bound would hold only if more had been public",
    "none": "Not proved: there is no bound at all",
    "unstated": "Nothing is stated about this release",
}
UNPROTECTED = "practically unprotected"
NO_CARD = (
    "The release came without a card, so nothing is known of how it was made and nothing is proved about it. "
    "All that can be said is how well these attacks did."
)


@dataclass(frozen=True)
class Shown:
    """The guarantee as the page shows it."""

    state: str
    words: str
    kind: str
    unprotected: bool
    levels: list[tuple[str, str, str, bool]]
    beliefs: list[tuple[str, str, str]]
    in_the_way: list[str]
    everything_in_the_way: list[str]
    assumptions: list[str]

    @property
    def headline(self) -> str:
        return HEADLINES[self.state]

    @property
    def conditional(self) -> bool:
        return self.state == "conditional"


def shown_guarantee(guarantee: Mapping[str, Any] | None) -> Shown:
    """A figure that is not stated is shown as having no bound, never as zero."""
    if guarantee is None:
        return Shown("unstated", NO_CARD, "none stated", False, [], [], [], [], [])
    words = str(guarantee.get("words") or "")
    unprotected = UNPROTECTED in words
    formal = guarantee.get("kind") == LOCAL_DP
    conditional = guarantee.get("conditional_epsilon")
    figures = conditional or {level: guarantee.get(f"epsilon_{level}") for level, _, _ in LEVELS}
    reasons = [str(reason) for reason in guarantee.get("in_the_way") or ()]
    brief = summarized(reasons)
    bounded = formal or conditional is not None
    return Shown(
        state=("weak" if unprotected else "formal") if formal else "conditional" if conditional else "none",
        words=words,
        kind=str(guarantee.get("kind", "")),
        unprotected=unprotected,
        levels=[(title, epsilon(figures.get(level)), meaning, level == "record") for level, title, meaning in LEVELS]
        if bounded
        else [],
        beliefs=[
            (certainty(row["prior"]), certainty(row["at_most"]), certainty(row["at_least"]))
            for row in guarantee.get("posteriors") or ()
        ],
        in_the_way=brief,
        everything_in_the_way=reasons if brief != reasons else [],
        assumptions=[str(line) for line in guarantee.get("assumptions") or ()],
    )
