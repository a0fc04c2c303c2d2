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
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, Self

from sfumato.errors import UsageError
from sfumato.noise.grid import LARGEST_LOG2_SCALE

FINENESS = 32
"""Whole numbers of a pair, per column, on average: truncation is then far below the noise."""


@dataclass(frozen=True)
class NoisyMoments:
    """`pair`, `size`: how much one pair may add to the products and to the length; `log2_scale`: k of the noise."""

    log2_scale: int
    pair: int
    size: int

    def __post_init__(self) -> None:
        for value in (self.log2_scale, self.pair, self.size):
            if isinstance(value, bool) or not isinstance(value, int):
                raise ValueError("whole numbers are needed")
        if not (0 <= self.log2_scale <= LARGEST_LOG2_SCALE and 0 < self.pair < 1 << 45 and 0 < self.size < 1 << 45):
            raise ValueError("a scale or a sensitivity that cannot be")

    @classmethod
    def of(cls, epsilon: float, width: int) -> Self:
        """For a basis of `width` columns: the finest whole numbers of use whose epsilon is at most this one."""
        # products of whole numbers that add up to FINENESS * width, with 9/4 of that as the sensitivity
        products = FINENESS**2 * width**2 // 2
        scale = max(0, math.ceil(math.log2(9 / 4 * products / epsilon)))
        pair = math.floor(Fraction(epsilon) * (1 << scale) * Fraction(4, 9)) if scale <= LARGEST_LOG2_SCALE else 0
        if pair >= 1 << 45 or pair < products:
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

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, stated: Mapping[str, Any]) -> Self:
        if set(stated) != {"log2_scale", "pair", "size"}:
            raise ValueError("estimated")
        return cls(**stated)
