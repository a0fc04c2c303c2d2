"""A check as both ends of the pipe know it: how large and how strangely packed a file may be, and the verdict."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

FOLDER = "SFUMATO_CHECKED_FOLDER"
"""Variable that tells a child which folder it may see."""


@dataclass(frozen=True)
class Limits:
    """Of one Parquet file. A page of noise hardly compresses: a file that grows a hundredfold is a bomb.

    Equal values in a row take no room at all, however many: so cells are counted, too. Two categories of which one is
    reported a thousand times as often as the other come to 700 cells a byte, and hide nothing any more.
    """

    rows: int = 50_000_000
    row_groups: int = 100_000
    row_group_bytes: int = 1 << 30
    expansion: float = 100.0
    cells_per_byte: float = 1000.0
    card_bytes: int = 8 << 20
    seconds: int = 600
    memory: int = 2 << 30

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Verdict:
    """`objections` is empty for a file that the study takes; `epsilon` is what was recomputed, None for none.

    `identity` and `sketch` say which rows it holds, in any order and file (see `row_identity`).
    """

    rows: int = 0
    epsilon: float | None = None
    card: dict[str, Any] = field(default_factory=dict)
    objections: list[str] = field(default_factory=list)
    identity: str = ""
    sketch: str = ""

    @classmethod
    def refused(cls, *reasons: str) -> Verdict:
        return cls(objections=list(reasons))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
