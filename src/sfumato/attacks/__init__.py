"""Adversaries: one file each, found by looking through this folder.

`ATTACKS` maps the names used on the command line and in `audit.json` to the classes, sorted by name.
"""

from __future__ import annotations

from sfumato.attacks.base import Attack
from sfumato.core.registry import discover, found_in

ATTACKS: dict[str, type[Attack]] = discover(__name__, Attack, declares=("knows",))  # type: ignore[type-abstract]

__getattr__ = found_in(__name__)
