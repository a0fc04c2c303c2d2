"""A basis that was estimated from the rows under an epsilon of its own: what that epsilon is.

Rows are paired in a public order. The difference u of a pair is stretched to whole numbers q whose products
``|q_j q_k|, j <= k`` add up to at most `pair`. Beside them, the length of u is counted in at most `size` steps. The
sums of q_j q_k and of the lengths over all pairs get independent discrete Laplace noise of scale 2^k, and the basis is
computed from the noisy sums alone. Who changes one record changes one pair, hence the products by at most 2 `pair` and
the length by at most `size`, all sums together by `sensitivity`. The noise hides that with epsilon
``sensitivity / 2^k``, a quotient of integers.

The rows are then released given the basis. For two tables that differ in one record, the likelihood of *all* that is
seen, basis and released rows, differs by at most this epsilon times what the released record itself allows: every other
row depends on that record through the basis alone. So the two epsilons add up, for the record and for its parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Self

import numpy as np

from sfumato.core.accepted import Whole
from sfumato.core.array_types import Matrix
from sfumato.core.errors import UsageError
from sfumato.core.records import Record
from sfumato.noise.grid import LARGEST_LOG2_SCALE

# Bases that owe nothing to anybody's rows: the columns themselves, cosines, and Haar's wavelets.
#
# They are functions of the number of columns alone, the same to the last digit on every machine, so that sites which
# name one share a space. Whoever reads a card recognises them by their entries and asks for no reason. Both follow the
# order of the columns, and pay where neighbours are alike: spectra, time series, dose levels.


SAME = 1e-12
"""How far an entry may lie from the built-in one, which was computed by another program."""
_BITS = 160
_PI = 0x3243F6A8885A308D313198A2E03707344A4093822
"""pi times 2^160."""


def columns_themselves(components: int, width: int) -> Matrix:
    """Unit vectors: no column is mixed with another."""
    return np.eye(width)[:components]


def cosines(components: int, width: int) -> Matrix:
    """The slowest of the orthonormal cosines: row k is ``sqrt(2 / d) cos(pi k (2 j + 1) / (2 d))``, row 0 is flat.

    Cosines come from integer arithmetic: libraries differ in the last digit, and a digit would make another space.
    """
    turns = np.outer(np.arange(components), 2 * np.arange(width) + 1) % (4 * width)
    rows = math.sqrt(2 / width) * _cosine_table(width)[np.minimum(turns, 4 * width - turns)]
    rows[:1] = math.sqrt(1 / width)
    return np.asarray(rows)


def _cosine_table(width: int) -> Matrix:
    """cos(pi m / (2 d)) for m = 0 .. 2 d, by cos((m+1) t) = 2 cos t cos(m t) - cos((m-1) t) with 160 bits."""
    one = 1 << _BITS
    angle = _PI // (2 * width)
    term = first = one
    for step in range(2, 80, 2):  # Taylor: the angle is below 1.6, and 1.6^80 / 80! below 2^-160
        term = -((term * angle * angle) >> (2 * _BITS)) // ((step - 1) * step)
        first += term
    found = [one, first]
    for _ in range(2 * width - 1):
        found.append(((2 * first * found[-1]) >> _BITS) - found[-2])
    return np.array([value / one for value in found])


def wavelets(components: int, width: int) -> Matrix:
    """Haar's wavelets, widest first: the flat row, then each stretch of columns, one half of it against the other.

    A stretch of an odd number of columns is split into halves that differ by one; rows stay orthonormal.
    """
    rows = np.zeros((min(components, width), width))
    rows[0] = math.sqrt(1 / width)
    stretches, place = [(0, width)], 1
    while stretches and place < len(rows):
        start, stop = stretches.pop(0)
        if stop - start < 2:
            continue
        middle = (start + stop + 1) // 2
        left, right = middle - start, stop - middle
        rows[place, start:middle] = math.sqrt(right / (left * (left + right)))
        rows[place, middle:stop] = -math.sqrt(left / (right * (left + right)))
        place += 1
        stretches += [(start, middle), (middle, stop)]
    return rows


BUILT_IN: dict[str, Callable[[int, int], Matrix]] = {
    "identity": columns_themselves,
    "dct": cosines,
    "haar": wavelets,
}
"""Bases by name; each takes the number of components and of encoded columns."""


def is_built_in(matrix: Matrix) -> bool:
    """Whether the rows are those of a built-in basis, from its first one on, or only pick columns."""
    picks = ((matrix == 0) | (matrix == 1)).all() and ((matrix != 0).sum(axis=1) <= 1).all()
    components, width = matrix.shape
    if picks or components > width:
        return bool(picks)
    return any(np.abs(matrix - make(components, width)).max() <= SAME for make in BUILT_IN.values())


MOST_OF_A_PAIR = (1 << 45) - 1
FINENESS = 32
"""Whole numbers of a pair, per column, on average: truncation is then far below the noise."""


@dataclass(frozen=True)
class NoisyMoments(Record):
    """`pair`, `size`: how much one pair may add to the products and to the length; `log2_scale`: k of the noise."""

    log2_scale: Annotated[int, Whole(0, LARGEST_LOG2_SCALE)]
    pair: Annotated[int, Whole(1, MOST_OF_A_PAIR)]
    size: Annotated[int, Whole(1, MOST_OF_A_PAIR)]
    takes_more = False

    @classmethod
    def of(cls, epsilon: float, width: int) -> Self:
        """For a basis of `width` columns: the finest whole numbers of use whose epsilon is at most this one."""
        # products of whole numbers that add up to FINENESS * width, with 9/4 of that as the sensitivity
        products = FINENESS**2 * width**2 // 2
        scale = max(0, math.ceil(math.log2(9 / 4 * products / epsilon)))
        pair = math.floor(Fraction(epsilon) * (1 << scale) * Fraction(4, 9)) if scale <= LARGEST_LOG2_SCALE else 0
        if pair > MOST_OF_A_PAIR or pair < products:
            raise UsageError(
                f"A basis of {width} encoded columns cannot be estimated with an epsilon of {epsilon:g}: the noise "
                "would not fit whole numbers. Give it a larger share, or drop columns."
            )
        return cls(scale, pair, pair // 4)

    @property
    def sensitivity(self) -> int:
        """The most by which one record changes all sums together."""
        return 2 * self.pair + self.size

    @property
    def epsilon(self) -> float:
        """Of the basis; never rounded down."""
        exact = Fraction(self.sensitivity, 1 << self.log2_scale)
        rounded = float(exact)
        return rounded if Fraction(rounded) >= exact else math.nextafter(rounded, math.inf)
