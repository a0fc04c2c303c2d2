"""Statistics of a table: moments per class, which add up in any order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Codes
from sfumato.statistics.moments import Moments

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

    def to_json(self) -> str:
        """One line of JSON: what a site could send instead of its rows."""
        classes = {str(code): moments.to_dict() for code, moments in self.items()}
        return json.dumps({"width": self.width, "classes": classes})

    @classmethod
    def from_json(cls, text: str) -> Statistics:
        """The inverse of `to_json`."""
        data = json.loads(text)
        moments = {int(code): Moments.from_dict(part) for code, part in data["classes"].items()}
        return cls(moments, int(data["width"]))
