"""Counts that add up: how many rows of each class have each value of a column, or of several columns together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sfumato.array_types import Codes

Columns = tuple[int, ...]
"""Which columns a table counts, by their places."""


@dataclass(frozen=True)
class Counts:
    """Columns -> an array of counts, classes first. Blocks, sites and partitions add theirs; nothing else of the rows
    is needed to fit a model of the table."""

    tables: Mapping[Columns, Codes]

    def __add__(self, other: Counts) -> Counts:
        if self.tables.keys() != other.tables.keys():
            raise ValueError("These counts are of different columns.")
        return Counts({key: table + other.tables[key] for key, table in self.tables.items()})

    @classmethod
    def of(
        cls, codes: Mapping[int, Codes], sizes: Mapping[int, int], classes: Codes, of: int, wanted: list[Columns]
    ) -> Counts:
        """Count each of the `wanted` sets of columns; `codes` holds small integers, `of` is the number of classes."""
        return cls({key: _count([codes[i] for i in key], [sizes[i] for i in key], classes, of) for key in wanted})


def _count(codes: list[Codes], sizes: list[int], classes: Codes, of: int) -> Codes:
    place = classes
    for code, size in zip(codes, sizes, strict=True):
        place = place * size + code
    cells = of * int(np.prod(sizes))
    return np.bincount(place, minlength=cells).reshape(of, *sizes)
