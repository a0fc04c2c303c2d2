"""How long jobs tell what they are doing, without knowing who listens."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int | None], None]
"""Called with the name of the step, rows done so far, and rows in all (None while unknown)."""


def silent(step: str, done: int, total: int | None) -> None:
    """Say nothing."""
