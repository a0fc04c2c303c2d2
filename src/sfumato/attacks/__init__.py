"""Adversaries: one file each, found by looking through this folder.

`ATTACKS` maps the names used on the command line and in `audit.json` to the classes.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from sfumato.attacks.base import (
    Abstain,
    Attack,
    Bounds,
    ColumnMoments,
    Guess,
    Knowledge,
    KnownNoise,
    Links,
    MembershipScores,
    Posteriors,
    Property,
    RowPairs,
    Secrets,
    Sources,
    Transform,
    UndeclaredKnowledgeError,
    Values,
)


def all_attacks() -> tuple[type[Attack], ...]:
    """Every attack of this package, sorted by name."""
    found: dict[str, type[Attack]] = {}
    for module in pkgutil.iter_modules(__path__):
        for item in vars(import_module(f"{__name__}.{module.name}")).values():
            if isinstance(item, type) and issubclass(item, Attack) and hasattr(item, "name"):
                found[item.name] = item
    return tuple(found[name] for name in sorted(found))


ATTACKS: dict[str, type[Attack]] = {attack.name: attack for attack in all_attacks()}

__all__ = [
    "ATTACKS",
    "Abstain",
    "Attack",
    "Bounds",
    "ColumnMoments",
    "Guess",
    "Knowledge",
    "KnownNoise",
    "Links",
    "MembershipScores",
    "Posteriors",
    "Property",
    "RowPairs",
    "Secrets",
    "Sources",
    "Transform",
    "UndeclaredKnowledgeError",
    "Values",
    "all_attacks",
]
