"""Definition 1 [guided-survey, Eqs. 10 and 11]: how far received rows mislead about the difference of two classes.

    l_e(h) = max over h answers t_s of |(P(C_0, t_s) - P(C_1, t_s)) - (P~(C_0, t_s) - P~(C_1, t_s))|
    l_e    = max over h = 1, ..., n of l_e(h)

P counts plain rows, P~ received ones as they are, which is what a classifier does that is trained on them directly. For
h = 1 and 2 these are the entries of A and A_R. There are prod (s_j + 1) sets of answers in all; a larger set has fewer
rows of each kind, so that no set which contains s can have more than

    max( P(C_0, s) + P~(C_1, s),  P(C_1, s) + P~(C_0, s) ),

and sets that cannot beat what was found are never looked at.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Bits, Codes, Matrix
from sfumato.errors import TableError, UsageError
from sfumato.guidance.space import AnswerSpace

WORK = 20_000
"""Sets of answers that are continued at most, for every size."""
SAME = 1e-12


class DegreeOfError(NamedTuple):
    """`value` = l_e, lower is better; `by_size` = l_e(1), l_e(2), ... as far as asked for.

    `exact` where the search came to its end. Otherwise the values were found, and l_e is at most `bound`.
    """

    value: float
    by_size: tuple[float, ...]
    exact: bool
    bound: float


def degree_of_error(
    plain: ArrayLike,
    y: ArrayLike,
    received: ArrayLike,
    y_received: ArrayLike,
    space: AnswerSpace,
    *,
    sizes: int = 3,
    work: int = WORK,
) -> DegreeOfError:
    """l_e of received bits against the plain answers (one-hot rows) that they stand for, with l_e(h) up to `sizes`.

    Of more than two classes every pair is taken, and the largest counts.
    """
    T, R = space.checked(plain), space.checked(received)
    classes, labels = np.unique(np.asarray(y)), (np.asarray(y), np.asarray(y_received))
    if labels[0].shape != (len(T),) or labels[1].shape != (len(R),) or not len(R):
        raise TableError("The degree of error needs plain and received rows, each with its class.")
    if len(classes) < 2:
        raise TableError("The degree of error compares classes, and there is only one.")
    if sizes < 0:
        raise UsageError(f"The 'sizes' parameter must be a whole number from 0. Got {sizes!r} instead.")
    searches = [_Search(T, R, labels, pair, space) for pair in itertools.combinations(classes.tolist(), 2)]
    by_size, exact = [], True
    for size in range(1, min(sizes, len(space.sizes)) + 1):
        found = [search.run(size, work, only=True) for search in searches]
        by_size.append(max(value for value, _ in found))
        exact = exact and all(left <= value + SAME for value, left in found)
    found = [search.run(len(space.sizes), work, start=max(by_size, default=0.0)) for search in searches]
    value = max(value for value, _ in found)
    bound = max(value, *(left for _, left in found))
    return DegreeOfError(value, tuple(by_size), exact and bound <= value + SAME, bound)


class _Search:
    """Depth first over sets of answers: at most one of every question, questions in their order."""

    def __init__(self, T: Bits, R: Bits, labels: tuple[Codes, Codes], pair: tuple[int, int], space: AnswerSpace):
        kinds = [(T, labels[0] == pair[0], 1.0), (R, labels[1] == pair[1], 1.0)]
        kinds += [(T, labels[0] == pair[1], -1.0), (R, labels[1] == pair[0], -1.0)]
        self.rows = [rows[chosen].astype(np.float32) for rows, chosen, _ in kinds]
        self.weights = [1 / len(rows) for rows, _, _ in kinds]
        self.slices = space.slices()

    def run(self, size: int, work: int, *, only: bool = False, start: float = 0.0) -> tuple[float, float]:
        """The largest error of sets up to `size` (`only` of that size), and a bound on those not looked at."""
        best, left = start, 0.0
        open_: list[tuple[int, int, list[Matrix]]] = [(0, 0, [np.ones(len(rows), np.float32) for rows in self.rows])]
        while open_:
            question, had, inside = open_.pop()
            shares = [  # counts are exact in single precision, up to sixteen million rows
                (mask @ rows).astype(np.float64) * weight
                for mask, rows, weight in zip(inside, self.rows, self.weights, strict=True)
            ]
            up, down = shares[0] + shares[1], shares[2] + shares[3]
            first = self.slices[question].start
            if not only or had + 1 == size:
                best = max(best, float(np.abs(up - down)[first:].max()))
            if had + 1 == size:
                continue
            if work <= 0:
                left = max(left, float(np.maximum(up, down)[first:].max()))
                continue
            work -= 1
            for place in range(len(self.slices) - 1, question - 1, -1):
                if place + 1 == len(self.slices) or (only and had + 1 + len(self.slices) - place - 1 < size):
                    continue  # too few questions are left
                for bit in range(self.slices[place].start, self.slices[place].stop):
                    if max(up[bit], down[bit]) > best + SAME:
                        narrowed = [mask * rows[:, bit] for mask, rows in zip(inside, self.rows, strict=True)]
                        open_.append((place + 1, had + 1, narrowed))
        return best, left
