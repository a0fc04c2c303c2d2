"""Statistics of numbers and of counts, by class, that merge with +."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import combinations
from operator import add

import numpy as np
from numpy.typing import ArrayLike

from sfumato.core.array_types import Codes, Matrix

# Moments of a block of rows: what can be added up over blocks, sites and machines.

TILE = 1 << 17
"""Cells that are summed and multiplied at a time: read once from memory, then a core's own cache serves every step."""

SAFE = 2.0**10
"""Largest squared mean, in variances, that is subtracted from squares rather than from the rows."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Count, mean, scatter (sum of centred outer products), lowest and highest value of every column. Blocks are
    centred before the product and merged by Chan, Golub & LeVeque (1979): ``S = S1 + S2 + (n1 n2 / n) (m1 - m2)(m1 -
    m2)'``, so that a large mean costs no digits."""

    n: int
    mean: Matrix
    scatter: Matrix
    low: Matrix
    high: Matrix

    @classmethod
    def of(cls, X: ArrayLike) -> Moments:
        """Moments of one block (rows x columns), whichever of the two is contiguous in memory. Where every mean is
        small beside the spread, ``S = X'X - n m m'`` loses ten of 53 bits at most (`SAFE`), and no centred copy has to
        be made; a few rows say whether to try that, and the result whether it was right."""
        X = np.asarray(X, dtype=np.float64)
        if len(X) == 0:
            return cls.empty(X.shape[1])
        few = X[:256]
        if np.all(len(few) * few.mean(axis=0) ** 2 <= SAFE * (few.var(axis=0) * len(few))):
            found = cls._of_tiles(X, centred=False)
            if np.all(found.n * found.mean**2 <= SAFE * found.scatter.diagonal()):
                return found
        return cls._of_tiles(X, centred=True)

    @classmethod
    def _of_tiles(cls, X: Matrix, centred: bool) -> Moments:
        """Sums over tiles: with their own means m_i removed, ``S = sum S_i + sum n_i (m_i - m)(m_i - m)'``."""
        rows, width = X.shape
        step = max(64, TILE // max(width, 1) // 8 * 8)
        starts = range(0, rows, step)
        means, low, high = (np.empty((len(starts), width)) for _ in range(3))
        counts = np.full(len(starts), float(step))
        counts[-1] = rows - starts[-1]
        scatter = np.zeros((width, width))
        for i, start in enumerate(starts):
            tile = X[start : start + step]
            means[i] = np.ones(len(tile)) @ tile / len(tile)  # a product is twice as fast as a sum over rows
            low[i], high[i] = _extremes(tile)
            part = tile - means[i] if centred else tile
            scatter += part.T @ part
        mean = counts @ means / rows
        if centred:
            means -= mean
            scatter += (means.T * counts) @ means
        else:
            scatter -= rows * np.outer(mean, mean)
        return cls(rows, mean, scatter, low.min(axis=0), high.max(axis=0))

    @classmethod
    def empty(cls, width: int) -> Moments:
        """Moments of no rows: the zero of `+`."""
        return cls(0, np.zeros(width), np.zeros((width, width)), np.full(width, np.inf), np.full(width, -np.inf))

    def __add__(self, other: Moments) -> Moments:
        if self.width != other.width:
            raise ValueError(f"Moments of {self.width} and {other.width} columns cannot be added.")
        n = self.n + other.n
        if n == 0:
            return self
        step = other.mean - self.mean
        weight = other.n / n
        return Moments(
            n,
            self.mean + weight * step,
            self.scatter + other.scatter + self.n * weight * np.outer(step, step),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.mean)

    def covariance(self, ddof: int = 1) -> Matrix:
        """Covariance matrix; zero when there are too few rows to tell."""
        return self.scatter / max(self.n - ddof, 1)


def _extremes(tile: Matrix) -> tuple[Matrix, Matrix]:
    """Lowest and highest value of every column; short rows are compared eight at a time."""
    rows, width = tile.shape
    if tile.flags.c_contiguous and width > 1 and rows % 8 == 0:
        wide = tile.reshape(rows // 8, 8 * width)
        low, high = wide.min(axis=0).reshape(8, width), wide.max(axis=0).reshape(8, width)
        return low.min(axis=0), high.max(axis=0)
    return tile.min(axis=0), tile.max(axis=0)


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
        """Count each of the `wanted` sets of columns; `codes` holds small integers, `of` is the number of classes. Sets
        that begin alike and follow each other share the work of their beginning. Where few cells face many rows, a set
        with one more column is counted, and several of the wanted are sums of it."""
        tables: dict[Columns, Codes] = {}
        begun: list[tuple[Columns, Codes]] = [((), classes)]
        counted = _counted(tuple(wanted), tuple(sizes.items()), len(classes) // (ROWS_OF_A_CELL * of))
        for key in sorted(set(counted.values())):
            while begun[-1][0] != key[: len(begun) - 1] or len(begun) > max(len(key), 1):
                begun.pop()
            while len(begun) < len(key):
                column = key[len(begun) - 1]
                begun.append((key[: len(begun)], begun[-1][1] * sizes[column] + codes[column]))
            place = begun[-1][1] * sizes[key[-1]] + codes[key[-1]] if key else classes
            shape = (of, *(sizes[column] for column in key))
            tables[key] = np.bincount(place, minlength=math.prod(shape)).reshape(shape)
        return cls({key: _among(tables[whole], whole, key) for key, whole in counted.items()})


ROWS_OF_A_CELL = 4
"""Rows for each cell from which on a table of one more column is cheaper than several tables."""


@lru_cache(maxsize=8)
def _counted(wanted: tuple[Columns, ...], sizes: tuple[tuple[int, int], ...], most: int) -> dict[Columns, Columns]:
    """For each of these sets of columns the set that is counted for it: itself, or with one more column where that
    serves others too and has at most so many cells."""
    size, beside = dict(sizes), _beside(wanted)
    found: dict[frozenset[int], Columns] = {}
    for key in wanted:
        if frozenset(key) in found or len(key) < 2:
            continue
        near = [beside[frozenset(key) - {one}] - set(key) for one in key]
        more = min(set.intersection(*near) or set.union(*near), key=size.__getitem__, default=None)
        if more is None or math.prod(size[one] for one in (more, *key)) > most:
            continue
        for some in combinations((*key, more), len(key)):
            if all(one in beside[frozenset(some) - {one}] for one in some):
                found[frozenset(some)] = (*key, more)
                for one in some:
                    beside[frozenset(some) - {one}].discard(one)
    return {key: found.get(frozenset(key), key) for key in wanted}


def _beside(wanted: tuple[Columns, ...]) -> defaultdict[frozenset[int], set[int]]:
    """By set of columns those of which any one makes it a wanted set."""
    found = defaultdict[frozenset[int], set[int]](set)
    for key in wanted:
        for one in key:
            found[frozenset(key) - {one}].add(one)
    return found


def _among(table: Codes, whole: Columns, key: Columns) -> Codes:
    """The counts of some columns from those of more."""
    if key == whole:
        return table
    kept = table.sum(axis=tuple(1 + place for place, column in enumerate(whole) if column not in key))
    left = [column for column in whole if column in key]
    return np.asarray(kept.transpose(0, *(1 + left.index(column) for column in key)))


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
        shared = {code: moments + other[code] for code, moments in self.items() if code in other}
        return Statistics({**self, **other, **shared}, self.width)

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
