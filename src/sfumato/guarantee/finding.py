"""What a check of a release comes to: nothing against it, something against it, or that it cannot be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sfumato.core.records import Record

State = Literal["ok", "wrong", "cannot check"]


@dataclass(frozen=True)
class Finding(Record):
    """One sentence for people. `figures` hold the same for machines, as plain JSON; they are the check's own."""

    check: str
    state: State
    sentence: str
    figures: Mapping[str, Any] = field(default_factory=dict)


def ok(check: str, sentence: str, **figures: Any) -> Finding:
    """Nothing was found against it."""
    return Finding(check, "ok", sentence, figures)


def wrong(check: str, sentence: str, **figures: Any) -> Finding:
    """It cannot be so."""
    return Finding(check, "wrong", sentence, figures)


def cannot_check(check: str, sentence: str, **figures: Any) -> Finding:
    """Whoever holds the release alone cannot tell."""
    return Finding(check, "cannot check", sentence, figures)
