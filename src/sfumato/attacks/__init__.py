"""Adversaries: one file each, found by looking through this folder.

`ATTACKS` maps the names used on the command line and in `audit.json` to the classes.
"""

from __future__ import annotations

from sfumato.attacks.base import (
    Abstain,
    Attack,
    Bounds,
    ColumnMoments,
    Guess,
    Knowledge,
    KnownNoise,
    Lineups,
    Links,
    MembershipScores,
    Picks,
    Posteriors,
    Property,
    RowPairs,
    Secrets,
    Sources,
    Transform,
    UndeclaredKnowledgeError,
    Values,
)
from sfumato.attacks.singling_out import Predicates
from sfumato.core.registry import discover

ATTACKS: dict[str, type[Attack]] = discover(__name__, Attack, declares=("knows",))  # type: ignore[type-abstract]


def all_attacks() -> tuple[type[Attack], ...]:
    """Every attack, sorted by name."""
    return tuple(ATTACKS.values())


__all__ = [
    "ATTACKS",
    "Abstain",
    "Attack",
    "Bounds",
    "ColumnMoments",
    "Guess",
    "Knowledge",
    "KnownNoise",
    "Lineups",
    "Links",
    "MembershipScores",
    "Picks",
    "Posteriors",
    "Predicates",
    "Property",
    "RowPairs",
    "Secrets",
    "Sources",
    "Transform",
    "UndeclaredKnowledgeError",
    "Values",
    "all_attacks",
]
