"""Small things that every message needs."""

from __future__ import annotations

IRREGULAR = {"class": "classes", "person": "people", "search": "searches", "query": "queries"}


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 row, 2 rows, 1,200 rows. The last word of `noun` takes the plural.

    >>> counted(1, "private column"), counted(2, "private column"), counted(1200, "person")
    ('1 private column', '2 private columns', '1,200 people')
    """
    head, space, last = noun.rpartition(" ")
    plural = IRREGULAR.get(last, f"{last}s")
    return f"{number:,} {noun if number == 1 else head + space + plural}"
