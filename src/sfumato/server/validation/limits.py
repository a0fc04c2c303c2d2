"""How large, and how strangely packed, a pushed file may be."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Limits:
    """Of one Parquet file. A page of noise hardly compresses: a file that grows a hundredfold is a bomb."""

    rows: int = 50_000_000
    row_groups: int = 100_000
    row_group_bytes: int = 1 << 30
    expansion: float = 100.0
    card_bytes: int = 8 << 20
    seconds: int = 600
    memory: int = 2 << 30

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
