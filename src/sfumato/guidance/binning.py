"""Numbers as choices: where a number is cut, by public edges.

Quartiles are what the paper uses. They know nothing of the classes: on its own F1, where the classes change at 40 and
60 years of age, they cap every classifier near 83%. Finer cuts, or cuts chosen where the classes change, do not.
Edges that were learned from rows are not public: learn them from other people's rows, or declare them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Codes, Matrix
from sfumato.errors import TableError, UsageError
from sfumato.guidance.space import AnswerSpace


@dataclass(frozen=True)
class Binning:
    """Per column its edges, or for a column of categories 0, 1, ... their number.

    A value lies in the interval whose number is how many edges it reaches: ``value >= edge``.

    >>> Binning(((30.0, 50.0), 2)).codes([[30, 1], [29.9, 0]])
    array([[1, 1],
           [0, 0]])
    """

    columns: tuple[tuple[float, ...] | int, ...]

    def __init__(self, columns: Sequence[Sequence[float] | int]) -> None:
        read = tuple(c if isinstance(c, int) else tuple(float(edge) for edge in c) for c in columns)
        for column in read:
            if isinstance(column, tuple) and not (np.isfinite(column).all() and (np.diff(column) > 0).all()):
                raise UsageError("The edges of a column must be increasing numbers.")
        object.__setattr__(self, "columns", read)

    @property
    def space(self) -> AnswerSpace:
        """The answers that binned rows are."""
        return AnswerSpace([column if isinstance(column, int) else len(column) + 1 for column in self.columns])

    def codes(self, X: ArrayLike) -> Codes:
        """Rows of numbers (m x columns) as rows of choices."""
        rows = np.atleast_2d(np.asarray(X, dtype=np.float64))
        if rows.shape[1] != len(self.columns) or np.isnan(rows).any():
            raise TableError(f"Rows of {len(self.columns)} numbers without empty cells are needed.")
        out = np.empty(rows.shape, dtype=np.int64)
        for number, column in enumerate(self.columns):
            if isinstance(column, int):
                out[:, number] = rows[:, number]
                if ((out[:, number] < 0) | (out[:, number] >= column) | (out[:, number] != rows[:, number])).any():
                    raise TableError(f"Column {number + 1} must hold the numbers 0 to {column - 1} of its categories.")
            else:
                out[:, number] = np.searchsorted(column, rows[:, number], side="right")
        return out


def quantile_edges(values: ArrayLike, parts: int = 4) -> tuple[float, ...]:
    """Edges that cut the values into equally many, `parts` = 4: quartiles, as published [guided-survey, 6]."""
    x = np.asarray(values, dtype=np.float64)
    edges = np.unique(np.quantile(x, np.arange(1, parts) / parts))
    return tuple(float(edge) for edge in edges if edge > x.min())


def equal_edges(low: float, high: float, parts: int) -> tuple[float, ...]:
    """Edges at equal distances between two public bounds."""
    return tuple(float(edge) for edge in np.linspace(low, high, parts + 1)[1:-1])


def supervised_edges(values: ArrayLike, y: ArrayLike, parts: int = 8, least: float = 0.002) -> tuple[float, ...]:
    """Edges where the classes change: the interval whose best cut gains most information is cut next.

    It ends at `parts` intervals, or when no cut gains `least` bits per row.
    """
    x = np.asarray(values, dtype=np.float64)
    order = np.argsort(x, kind="stable")
    x, labels = x[order], np.unique(np.asarray(y), return_inverse=True)[1][order]
    counts = np.zeros((len(x) + 1, labels.max(initial=0) + 1))
    np.cumsum(np.eye(counts.shape[1])[labels], axis=0, out=counts[1:])
    pieces = [(*_best_cut(x, counts, 0, len(x)), 0, len(x))]
    edges: list[float] = []
    while len(pieces) < parts:
        number = int(np.argmax([piece[0] for piece in pieces]))
        gain, cut, first, last = pieces[number]
        if gain < least * len(x):
            break
        edges.append(float((x[cut - 1] + x[cut]) / 2))
        pieces[number : number + 1] = [
            (*_best_cut(x, counts, first, cut), first, cut),
            (*_best_cut(x, counts, cut, last), cut, last),
        ]
    return tuple(sorted(edges))


def _best_cut(x: Matrix, counts: Matrix, first: int, last: int) -> tuple[float, int]:
    """(information gained in bits times rows, position) of the best cut between two different values."""
    cuts = np.arange(first + 1, last)
    cuts = cuts[x[cuts] > x[cuts - 1]]
    if not len(cuts):
        return 0.0, first
    whole = _entropy(counts[last] - counts[first])
    gains = whole - _entropy(counts[cuts] - counts[first]) - _entropy(counts[last] - counts[cuts])
    best = int(np.argmax(gains))
    return float(gains[best]), int(cuts[best])


def _entropy(n: Matrix) -> Matrix:
    """Entropy of class counts times their number, in bits."""
    total = n.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(n > 0, n * np.log2(n), 0.0).sum(axis=-1)
        return np.asarray(np.where(total > 0, total * np.log2(total), 0.0) - terms)
