"""How much one site may keep at a coordinator: bytes, rows and releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.errors import SchemaError

MOST = 10**15


@dataclass(frozen=True)
class Quota:
    """The most of one site; None for no limit. Releases that were withdrawn count as releases, not as bytes or rows."""

    bytes: int | None = None
    rows: int | None = None
    releases: int | None = None

    @classmethod
    def from_dict(cls, found: Any) -> Quota:
        """Of a study file: any of the three, each a positive whole number."""
        sound = isinstance(found, Mapping) and found and set(found) <= set(QUOTAS)
        if not sound or not all(type(most) is int and 1 <= most <= MOST for most in found.values()):
            raise SchemaError(f"The study's `quota` must have some of {', '.join(QUOTAS)}, each a positive number.")
        return cls(**found)

    def to_dict(self) -> dict[str, int]:
        return {name: most for name, most in asdict(self).items() if most is not None}

    def within(self, other: Quota) -> Quota:
        """The smaller of both, one by one."""
        return Quota(**{name: _smaller(getattr(self, name), getattr(other, name)) for name in QUOTAS})

    def exceeded(self, kept: Quota, *, more_bytes: int = 0, more_rows: int = 0) -> str | None:
        """Which of the three one more release would exceed, or None."""
        more = {"releases": 1, "bytes": more_bytes, "rows": more_rows}
        for name, added in more.items():
            most = getattr(self, name)
            if most is not None and (getattr(kept, name) or 0) + added > most:
                return name
        return None


def _smaller(one: int | None, other: int | None) -> int | None:
    return min((most for most in (one, other) if most is not None), default=None)


QUOTAS = ("bytes", "rows", "releases")
