"""Counts that add up: how many rows of each class have each value of a column, or of several columns together."""

from __future__ import annotations

import math
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
        """Count each of the `wanted` sets of columns; `codes` holds small integers, `of` is the number of classes.

        Sets that begin alike and follow each other share the work of their beginning.
        """
        tables: dict[Columns, Codes] = {}
        begun: list[tuple[Columns, Codes]] = [((), classes)]
        for key in wanted:
            while begun[-1][0] != key[: len(begun) - 1] or len(begun) > max(len(key), 1):
                begun.pop()
            while len(begun) < len(key):
                column = key[len(begun) - 1]
                begun.append((key[: len(begun)], begun[-1][1] * sizes[column] + codes[column]))
            place = begun[-1][1] * sizes[key[-1]] + codes[key[-1]] if key else classes
            shape = (of, *(sizes[column] for column in key))
            tables[key] = np.bincount(place, minlength=math.prod(shape)).reshape(shape)
        return cls(tables)
