"""Statistics of a table: moments per class, which add up in any order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import ArrayLike

from sfumato.core.array_types import Codes
from sfumato.table.statistics.moments import Moments

# Counts that add up: how many rows of each class have each value of a column, or of several columns together.


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


NO_CLASS = -1
"""Key of the moments when the rows have no class, or when classes do not matter to the mechanism."""


class Statistics(Mapping[int, Moments]):
    """Class code -> moments of its rows.

    Two sites, two blocks or two Spark partitions add their statistics; nothing else about the rows is
    ever needed to fit a mechanism.

    >>> left, right = Statistics.of([[0.0], [1.0]], [0, 1]), Statistics.of([[3.0]], [1])
    >>> (left + right)[1].mean
    array([2.])
    """

    def __init__(self, moments: Mapping[int, Moments], width: int):
        self._moments = dict(sorted(moments.items()))
        self.width = width

    @classmethod
    def of(cls, X: ArrayLike, y: ArrayLike | None = None) -> Statistics:
        """Statistics of one block, per class where `y` is given."""
        X = np.asarray(X, dtype=np.float64)
        if y is None:
            return cls({NO_CLASS: Moments.of(X)}, X.shape[1])
        codes: Codes = np.asarray(y, dtype=np.int64)
        return cls({int(code): Moments.of(X[codes == code]) for code in np.unique(codes)}, X.shape[1])

    @classmethod
    def empty(cls, width: int) -> Statistics:
        """Statistics of no rows: the zero of `+`."""
        return cls({}, width)

    def __add__(self, other: Statistics) -> Statistics:
        merged = dict(self._moments)
        for code, moments in other.items():
            merged[code] = merged[code] + moments if code in merged else moments
        return Statistics(merged, self.width)

    @property
    def total(self) -> Moments:
        """Moments of all classes together."""
        return reduce(add, self._moments.values(), Moments.empty(self.width))

    @property
    def n(self) -> int:
        """Number of rows."""
        return sum(moments.n for moments in self._moments.values())

    def __getitem__(self, code: int) -> Moments:
        return self._moments[code]

    def __iter__(self) -> Iterator[int]:
        return iter(self._moments)

    def __len__(self) -> int:
        return len(self._moments)
