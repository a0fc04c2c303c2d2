"""What a survey adds up: A_c, the sums of r'r over the received rows of each class [guided-survey, Eq. 4]."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Codes
from sfumato.errors import TableError
from sfumato.guidance.space import checked_bits

CHUNK = 1 << 24
"""Cells multiplied at a time: they fit into memory, and sums of so many ones are exact in floating point."""


class SurveyCounts:
    """Per class c the number of rows n_c and the matrix A_c = sum of r'r: whole numbers, so every order adds up alike.

    Sites, processes and batches add their counts with `+`. No row is needed afterwards.

    >>> one = SurveyCounts.of([[1, 0], [1, 1]], [0, 1])
    >>> (one + one).rows
    {0: 2, 1: 2}
    >>> SurveyCounts.from_json(one.to_json()) == one
    True
    """

    def __init__(self, width: int, rows: Mapping[int, int] | None = None, sums: Mapping[int, Codes] | None = None):
        self.width = int(width)
        self.rows: dict[int, int] = dict(sorted((rows or {}).items()))
        self.sums: dict[int, Codes] = {label: (sums or {})[label] for label in self.rows}

    @classmethod
    def of(cls, bits: ArrayLike, y: ArrayLike, width: int | None = None) -> SurveyCounts:
        """Counts of received rows (m x width, zeros and ones) with their class codes."""
        given = np.asarray(bits)
        r = checked_bits(given, given.shape[-1] if width is None else width)
        labels = np.atleast_1d(np.asarray(y))
        if labels.shape != (len(r),) or (labels.size and (labels.dtype.kind not in "iu" or labels.min() < 0)):
            raise TableError("Every row needs one class code, a whole number from 0.")
        rows, sums = {}, {}
        for label in np.unique(labels):
            mine = r[labels == label]
            total = np.zeros((r.shape[1], r.shape[1]), dtype=np.int64)
            step = max(1, CHUNK // r.shape[1])
            for start in range(0, len(mine), step):
                part = mine[start : start + step].astype(np.float64)
                total += (part.T @ part).astype(np.int64)
            rows[int(label)], sums[int(label)] = len(mine), total
        return cls(r.shape[1], rows, sums)

    @classmethod
    def empty(cls, width: int) -> SurveyCounts:
        """Counts of no rows: the zero of `+`."""
        return cls(width)

    def __add__(self, other: SurveyCounts) -> SurveyCounts:
        if self.width != other.width:
            raise TableError(f"Counts of {self.width} and of {other.width} bits cannot be added.")
        rows, sums = dict(self.rows), dict(self.sums)
        for label in other:
            rows[label] = rows.get(label, 0) + other.rows[label]
            sums[label] = sums[label] + other.sums[label] if label in sums else other.sums[label]
        return SurveyCounts(self.width, rows, sums)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SurveyCounts):
            return NotImplemented
        same = self.width == other.width and self.rows == other.rows
        return same and all(np.array_equal(self.sums[label], other.sums[label]) for label in self)

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows)

    @property
    def n(self) -> int:
        """Rows of all classes."""
        return sum(self.rows.values())

    def ones(self, label: int) -> Codes:
        """How often each bit was 1 in one class: the diagonal of A_c, since a bit is its own square."""
        return np.asarray(self.sums[label].diagonal())

    def to_json(self) -> str:
        """One line: `{"width", "classes": {code: {"n", "upper"}}}`; `upper` is A_c from the diagonal on, row by row."""
        above = np.triu_indices(self.width)
        classes = {str(c): {"n": self.rows[c], "upper": self.sums[c][above].tolist()} for c in self}
        return json.dumps({"width": self.width, "classes": classes}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> SurveyCounts:
        """The inverse of `to_json`; counts that no rows can have are refused."""
        try:
            data = json.loads(text)
            width = int(data["width"])
            parts = {int(label): _matrix(part, width) for label, part in data["classes"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise TableError("These are not the counts of a survey, or they are damaged.") from error
        return cls(width, {label: n for label, (n, _) in parts.items()}, {label: A for label, (_, A) in parts.items()})


def _matrix(part: Mapping[str, Any], width: int) -> tuple[int, Codes]:
    n, upper = part["n"], part["upper"]
    if not isinstance(n, int) or not all(type(value) is int for value in upper):
        raise ValueError("counts are whole numbers")
    above = np.triu_indices(width)
    A = np.zeros((width, width), dtype=np.int64)
    A[above] = upper
    A.T[above] = upper
    ones = A.diagonal()
    if n < 0 or (A < 0).any() or (np.minimum.outer(ones, ones) < A).any() or (ones > n).any():
        raise ValueError("no rows have such counts")
    return n, A
