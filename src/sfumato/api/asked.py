"""What can be asked of the demonstration: every option once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.core.asked import Read, asked, optional, switch

DEMO_FOLDER = Path("demo-out")


@dataclass(frozen=True, kw_only=True)
class DemoAsked:
    """The options of `demo`: where it goes, and a table of one's own."""

    out: Path = asked(DEMO_FOLDER, "Folder to write.", metavar="DIR")
    table: Any = optional("A table of your own instead.", read=Read.TABLE)
    label: str | None = optional("The column that classifiers are to predict.")
    schema: Path | None = optional("With --table: its schema; otherwise one is inferred.")
    max_rows_per_person: int | None = optional(
        "With --table: the most rows that one person has.", at_least=1, metavar="N"
    )
    force: bool = switch("Replace what is at --out.")
