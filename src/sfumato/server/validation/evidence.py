"""Do rows look as the card says they were made? What noise alone brings cannot be missing.

Independent noise adds its variance to a column's. It lets no more of a column's values lie close together than of its
own [Levy's concentration function], which tells also where a law has no variance. And a category is reported at least
as often as randomized response reports it by chance. A release that varies less was not made with the noise that its
card states. This finds who edited noise and guarantee together, not who takes the trouble of forging rows; and it
accuses nobody by chance: the threshold lies eight standard errors away. Where noise differs between classes, as kernels
do, the least of it counts: most rows may be of the class that has it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.guarantee import RANDOMIZED_RESPONSE, Card
from sfumato.mechanisms import KernelResampling
from sfumato.noise import Law

SIGMAS = 8.0
CLOSE = 0.8
"""Share of a law's values around its middle, and so the largest share of rows that any interval as wide may hold."""
WRONG = (
    "Its rows vary less than the noise that its card states: the release was not made as the card says. "
    "Push the release and card that `sfumato sanitize` wrote."
)

Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass
class Evidence:
    """Sums over rows, and the least that each column's variance and each category's share can be."""

    variance: Matrix
    fourth: Matrix
    reach: Matrix
    floors: list[tuple[slice, float]]
    classes: int
    label_floor: float
    rows: int = 0

    @classmethod
    def of(cls, card: Card) -> Evidence:
        laws = [None if left_out else law for law, left_out in zip(card.laws(), _left_out(card), strict=True)]
        keep, classes, narrowest = card.label_keep, len(card.classes), _narrowest(card)
        return cls(
            variance=np.array([law.variance if law else 0.0 for law in laws]) * narrowest**2,
            fourth=np.array([law.fourth_moment if law else 0.0 for law in laws]) * narrowest**4,
            reach=np.array([_reach(law) if law else 0.0 for law in laws]) * narrowest,
            floors=_floors(card),
            classes=classes,
            label_floor=(1 - keep) / max(classes - 1, 1),
        )

    def __post_init__(self) -> None:
        width = len(self.variance)
        self._sum, self._squares, self._counts = np.zeros(width), np.zeros(width), np.zeros(width)
        self._labels = np.zeros(max(self.classes, 1), dtype=np.int64)
        self._close = np.zeros(width)
        self._origin: Matrix | None = None

    def add(self, matrix: Matrix, codes: Codes | None) -> None:
        """One block of the release matrix; sums are taken around its first row, which keeps their digits."""
        if len(matrix) == 0:
            return
        if self._origin is None:
            self._origin = matrix[0].copy()
        centred = matrix - self._origin
        self._sum += centred.sum(axis=0)
        self._squares += (centred**2).sum(axis=0)
        self._close += (np.abs(centred) <= self.reach).sum(axis=0)
        self._counts += (matrix > 0.5).sum(axis=0)
        self.rows += len(matrix)
        if codes is not None:
            self._labels += np.bincount(codes, minlength=len(self._labels))

    def against(self) -> str | None:
        """What contradicts the card, or None."""
        n = self.rows
        if n < 2:
            return None
        spread = (self._squares - self._sum**2 / n) / (n - 1)
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.sqrt(np.maximum(self.fourth - self.variance**2, 0.0) / n)
            missing = np.isfinite(error) & (self.variance > 0) & (spread < self.variance - SIGMAS * error)
        most = n * CLOSE + SIGMAS * math.sqrt(n * CLOSE * (1 - CLOSE)) + 1  # and the row that they are close to
        crowded = (self.reach > 0) & (self._close > most)
        if missing.any() or crowded.any() or any(_rare(self._counts[part], floor, n) for part, floor in self.floors):
            return WRONG
        return WRONG if self.classes and _rare(self._labels, self.label_floor, n) else None


def _reach(law: Law) -> float:
    """Half of the interval that holds `CLOSE` of the law's values: all laws here have one peak, in their middle."""
    low, high = law.ppf([(1 - CLOSE) / 2, (1 + CLOSE) / 2])
    return float(high - low) / 2


def _rare(counts: NDArray[Any], floor: float, n: int) -> bool:
    """Whether some category is reported less often than chance alone reports it."""
    slack = SIGMAS * math.sqrt(n * floor * (1 - floor)) if 0 < floor < 1 else 0.0
    return bool(np.any(counts < n * floor - slack - 1e-9))


def _narrowest(card: Card) -> Matrix:
    """The narrowest class's noise as a share of the stated one, which is the widest's; 1 without classes."""
    if not card.is_columnwise:
        return np.ones(len(card.laws()))
    shares = []
    for group, column in zip(card.source_encoding().groups, card.release_schema["columns"], strict=True):
        widths = _by_class(card, column["noise"], "scale_by_class")
        shares += [min(widths) / column["noise"]["scale"] if widths else 1.0] * group.width
    return np.array(shares)


def _by_class(card: Card, noise: Mapping[str, Any] | None, name: str) -> list[float]:
    """What a kernel's card says of every class. Others have no such thing: an epsilon depends on theirs."""
    if noise is None or card.mechanism["name"] != KernelResampling.name:
        return []
    return [float(value) for value in noise.get(name, ()) if value is not None]


def _left_out(card: Card) -> list[bool]:
    """Encoded columns where empty cells or the calendar's ends take variance away again."""
    if not card.is_columnwise:
        return [False] * len(card.laws())
    groups = card.source_encoding().groups
    return [group.has_indicator or group.column.kind == "date" for group in groups for _ in range(group.width)]


def _floors(card: Card) -> list[tuple[slice, float]]:
    """Encoded columns of every category, and the share that each has by chance at least."""
    if not card.is_columnwise:
        return []
    floors = []
    for group, column in zip(card.source_encoding().groups, card.release_schema["columns"], strict=True):
        noise = column["noise"] or {}
        if group.is_onehot and noise.get("law") == RANDOMIZED_RESPONSE and group.width > 1:
            kept = max([noise["keep"], *_by_class(card, noise, "keep_by_class")])
            floors.append((group.slice, (1 - kept) / (group.width - 1)))
    return floors
