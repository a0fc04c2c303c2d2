"""What the child finds in a file, as one line of JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


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
