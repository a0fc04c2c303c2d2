"""The people of whom the release adds most: for the owner's eyes only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.report.wording import DASH, figure


def riskiest_rows(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, str]]:
    """Row numbers of the original, what the release adds about them, and by which attacks they are hit worst."""
    return [
        {
            "row": str(record.get("record", DASH)),
            "score": figure(record.get("score")),
            "without": figure(record.get("without")),
            "told": told([str(name) for name in record.get("columns") or ()], [str(name) for name in names]),
            "attacks": ", ".join(map(str, record.get("attacks") or ())) or DASH,
        }
        for record in records
    ]


def told(columns: Sequence[str], names: Sequence[str]) -> str:
    """The columns that are told, or the others where these are fewer: a list that can be read.

    >>> told(["age", "sex", "zip"], ["age", "sex", "zip", "job"])
    '3 of 4: all but job'
    """
    if not columns:
        return DASH
    others = [name for name in names if name not in columns]
    if len(columns) + len(others) != len(names):
        return ", ".join(columns)
    count = f"{len(columns)} of {len(names)}"
    if not others:
        return f"{count}: all of them"
    return f"{count}: all but {', '.join(others)}" if len(others) < len(columns) else f"{count}: {', '.join(columns)}"
