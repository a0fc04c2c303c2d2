"""What every RESULTS.md is made of: tables, and the paper's sentences beside what came out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class Claim(NamedTuple):
    """Where it stands, what it says, what came out."""

    where: str
    published: str
    reached: str
    verdict: str


def verdict(holds: int, of: int) -> str:
    """How many cases a sentence about all of them is true in."""
    return "reproduced" if holds == of else "mostly" if holds >= 0.75 * of else "partly" if holds else "not reproduced"


def table(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Markdown."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def sentences(claims: Iterable[Claim]) -> list[str]:
    """The section that holds them."""
    return ["## The paper's sentences", table(("where", "published", "reached", "verdict"), claims)]
