"""What an owner is told about a release that was just made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.guarantee import Card

if TYPE_CHECKING:  # brings scikit-learn with it, which only a search needs
    from sfumato.jobs.search_result import SearchResult


@dataclass(frozen=True, repr=False)
class Sanitized:
    """The card, and what only the owner is told."""

    card: Card
    folder: Path | None
    clipped: dict[str, int]
    dropped: tuple[str, ...]
    notes: Mapping[str, Any] = field(default_factory=dict)
    search: SearchResult | None = None
    known: int | None = None
    """With `only_new`: rows that were released before; they were left out, except with `again`."""
    at_the_ends: Mapping[str, list[str]] = field(default_factory=dict)
    """Public ranges that end where the table does, by column: "low", "high" or both."""
    new_ledger: Path | None = None
    """The ledger, where this is the first release that it counts."""

    def __repr__(self) -> str:
        where = "in memory" if self.folder is None else f"into {self.folder}"
        return f"<Sanitized {where}: {self.card!r}>"
