"""What is proved about the release, on what it rests, and what stands in the way.

Words are computed from figures. Sentences of the card are shown as the release's own words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.auditing.report.markup import Section, drawn
from sfumato.core.wording import own_words
from sfumato.guarantee import AllReleases
from sfumato.guarantee.cost import BELIEFS, but_for
from sfumato.guarantee.guarantee import CENTRAL_DP, LOCAL_DP, summarized
from sfumato.guarantee.rounding import amplification_at_most, epsilon_at_most, percent_down, percent_up

LEVELS = (
    ("component", "One released number", "what a single cell of the release reveals"),
    ("column", "One column of a person", "what a whole released row reveals about one original value"),
    ("record", "A person's whole record", "everything in the row at once"),
    ("person", "A person, with all their rows", "rows of the same person add up"),
)
ALL_RELEASES = "the headline: what an attacker who sees every release of these rows can learn"
HEADLINES = {
    "formal": "Proved: a bound holds for everybody",
    "weak": "Formally bounded, practically unprotected",
    "repeated": "Proved for this release alone: no bound holds for all releases of these rows together",
    "conditional": "Not proved: a bound would hold only if more had been public",
    "none": "Not proved: there is no bound at all",
    "unstated": "Nothing is stated about this release",
}
NO_CARD = (
    "The release came without a card, so nothing is known about how it was made, and nothing is proved about it. "
    "All that can be said is how well these attacks did."
)
MOST_LINES = 500


@dataclass(frozen=True)
class Shown:
    """The guarantee as the page shows it."""

    state: str
    words: str
    kind: str
    unprotected: bool
    levels: list[tuple[str, str, str, str, bool]]
    beliefs: list[tuple[str, str, str]]
    in_the_way: list[str]
    everything_in_the_way: list[str]
    assumptions: list[str]
    releases: int = 1

    @property
    def headline(self) -> str:
        return HEADLINES[self.state]

    @property
    def conditional(self) -> bool:
        return self.state == "conditional"


def guarantee_section(audit: Mapping[str, Any]) -> Section:
    """What is proved, for whom, and on what that rests."""
    release = audit.get("release") or {}
    found = shown_guarantee(audit.get("guarantee"), release.get("earlier_releases"))
    return drawn("guarantee", "What is proved", guarantee=found, owners_word=release.get("owners_word") or [])


def shown_guarantee(guarantee: Mapping[str, Any] | None, earlier: Mapping[str, Any] | None = None) -> Shown:
    """The figures of a card, and how often its rows were released before."""
    if guarantee is None:
        return Shown("unstated", NO_CARD, "none stated", False, [], [], [], [], [])
    together = AllReleases.from_dict(guarantee, earlier or {})
    alone = together.alone
    reasons = _own(alone.in_the_way)
    but = but_for(together.promised.delta)
    brief = _own(summarized(alone.in_the_way))
    return Shown(
        state=_state(together),
        words=together.in_words(),
        kind=alone.kind,
        unprotected=together.unprotected or alone.unprotected,
        levels=_levels(together),
        beliefs=[
            (BELIEFS[prior][0], percent_up(most) + but, percent_down(least) + but)
            for prior, most, least in together.beliefs()
        ],
        in_the_way=brief,
        everything_in_the_way=reasons if brief != reasons else [],
        assumptions=_own(alone.assumptions),
        releases=together.count,
    )


def _state(together: AllReleases) -> str:
    if together.bounded:
        return "weak" if together.unprotected else "formal"
    if together.alone.kind in (LOCAL_DP, CENTRAL_DP):
        return "repeated"
    return "conditional" if together.alone.record < float("inf") else "none"


def _levels(together: AllReleases) -> list[tuple[str, str, str, str, bool]]:
    """Title, epsilon, amplification, meaning, and whether it is the main one."""
    alone, several = together.alone, together.earlier > 0
    if alone.central is not None:
        return _central_levels(together)
    if not alone.record < float("inf"):
        return []
    figures = {level: getattr(alone, level) for level, _, _ in LEVELS}
    levels = [
        (title, *_both(figures[level]), meaning, level == "record" and not several) for level, title, meaning in LEVELS
    ]
    if not several:
        return levels
    return [_total(together), *levels]


def _total(together: AllReleases) -> tuple[str, str, str, str, bool]:
    """One figure for a person's values, over all releases."""
    promised = together.promised
    epsilon, factor = _both(promised.epsilon)
    delta = f", delta {promised.delta:g}" if promised.bounded and promised.delta else ""
    return f"All {together.count:,} releases together", epsilon + delta, factor, ALL_RELEASES, True


def _both(epsilon: float | None) -> tuple[str, str]:
    return epsilon_at_most(epsilon), amplification_at_most(epsilon)


def _central_levels(together: AllReleases) -> list[tuple[str, str, str, str, bool]]:
    alone = together.alone
    assert alone.central is not None
    told = [
        ("That a record is in the table", alone.central, "presence", not together.earlier),
        ("What values a record has", alone.central.value, "one record goes and another comes", False),
    ]
    if alone.central_person is not None and alone.rows_per_person != 1:
        together_go = "records that go together"
        told += [
            ("A person's presence, with all their rows", alone.central_person, together_go, False),
            ("A person's values, with all their rows", alone.central_person.value, together_go, False),
        ]
    if together.earlier and together.hides_presence and together.central is not None:
        told.insert(0, ("All releases of this kind together", together.central, "presence", False))
    return [
        *([_total(together)] if together.earlier else []),
        *(
            (title, figure.words().removeprefix("epsilon "), amplification_at_most(figure.epsilon), meaning, head)
            for title, figure, meaning, head in told
        ),
    ]


def _own(lines: Sequence[str]) -> list[str]:
    return [own_words(str(line)) for line in lines[:MOST_LINES]]
