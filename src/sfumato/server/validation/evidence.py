"""Do rows look as the card says they were made? What noise alone brings cannot be missing.

Noise that has one peak, in its middle, puts no more of a column's values close to any point than of its own close to
that middle [Anderson 1955; Levy's concentration function], whatever was noised; and a category is reported at least as
often as randomized response reports it by chance. A release that is more crowded, or in which categories are rarer, was
not made with the noise that its card states. This finds who edited noise and guarantee together, not who takes the
trouble of forging rows, nor what a few rows cannot show. It accuses hardly anybody by chance: counts of independent
rows exceed a share `p` by so much with probability at most ``exp(-n KL(share, p))`` [Chernoff 1952], and all
comparisons of one release together do so less often than `FALSE_ALARMS`. Where noise differs between classes, as
kernels do, the least of it counts: most rows may be of the class that has it.
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

FALSE_ALARMS = 1e-12
"""Honest releases that are accused, at most: of one in each of a thousand studies' pushes, less than 1e-9 in all."""
CLOSE = (1e-4, 0.01, 0.1, 0.3, 0.5, 0.65, 0.8, 0.9)
"""Shares of a law's values around its middle, and so the largest shares of rows that intervals as wide may hold. Small
ones tell whole numbers that nobody noised, large ones a narrow column."""
ROUNDING = 1e-3
"""What grids and doubles can add to such a share: intervals that are not a thousand steps of them wide are left out."""
CENTRE_ROWS = 101
"""The first rows, at most a quarter of all, say where to look; the others are counted, and know nothing of them."""
WRONG = (
    "Its rows vary less than the noise that its card states: the release was not made as the card says. "
    "Push the release and card that `sfumato sanitize` wrote."
)

Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]


@dataclass
class Evidence:
    """Counts over rows: how many lie how close to the centre, and how often each category is reported."""

    reach: Matrix
    """For every share of `CLOSE` and every encoded column, half of the interval; 0 where there is no noise to miss."""
    floors: list[tuple[slice, float]]
    classes: int
    label_floor: float
    stated_rows: int
    rows: int = 0

    @classmethod
    def of(cls, card: Card) -> Evidence:
        laws = [None if left_out else law for law, left_out in zip(card.laws(), _left_out(card), strict=True)]
        classes = len(card.classes)
        return cls(
            reach=_reaches(laws, _narrowest(card), _steps(card)),
            floors=_floors(card),
            classes=classes,
            label_floor=(1 - card.label_keep) / max(classes - 1, 1),
            stated_rows=card.rows,
        )

    def __post_init__(self) -> None:
        self._close = np.zeros(self.reach.shape, dtype=np.int64)
        self._counts = np.zeros(self.reach.shape[1], dtype=np.int64)
        self._labels = np.zeros(max(self.classes, 1), dtype=np.int64)
        self._noised = np.flatnonzero(self.reach.any(axis=0))
        self._centre: Matrix | None = None
        self._looked = 0

    def add(self, matrix: Matrix, codes: Codes | None) -> None:
        """One block of the release matrix."""
        if len(matrix) == 0:
            return
        self.rows += len(matrix)
        self._counts += (matrix > 0.5).sum(axis=0)
        if codes is not None:
            self._labels += np.bincount(codes, minlength=len(self._labels))
        if self._centre is None:
            first = max(1, min(CENTRE_ROWS, self.stated_rows // 4))
            self._centre, matrix = np.median(matrix[:first], axis=0), matrix[first:]
        self._looked += len(matrix)
        for column in self._noised:  # one at a time: it stays in the cache for all shares
            distance = np.abs(matrix[:, column] - self._centre[column])
            self._close[:, column] += [int(np.count_nonzero(distance <= reach)) for reach in self.reach[:, column]]

    def against(self, surer: float = 1.0) -> str | None:
        """What contradicts the card, or None; with `surer` below 1, false alarms are rarer by that factor."""
        comparisons = self.reach.size + sum(part.stop - part.start for part, _ in self.floors) + self.classes
        doubt = math.log(comparisons / (FALSE_ALARMS * surer))
        most = np.array(CLOSE)[:, None] * (1 + ROUNDING)
        crowded = exceeds(self._close, self._looked, most, doubt) & (self.reach > 0)
        rare = [self._rare(self._counts[part], floor, doubt) for part, floor in self.floors]
        if self.classes:
            rare.append(self._rare(self._labels, self.label_floor, doubt))
        return WRONG if crowded.any() or any(rare) else None

    def _rare(self, counts: NDArray[np.int64], floor: float, doubt: float) -> bool:
        """Whether some category is reported less often than chance alone reports it: others are, more often."""
        return bool(exceeds(self.rows - counts, self.rows, 1 - floor, doubt).any())


def exceeds(counts: NDArray[np.int64], n: int, most: Any, doubt: float) -> NDArray[np.bool_]:
    """Whether counts of `n` independent rows, each in with probability `most` or less, are likelier a lie than chance:
    whether they exceed it, and ``exp(-n KL(counts / n, most)) < exp(-doubt)``."""
    if n == 0:
        return np.zeros(np.broadcast_shapes(counts.shape, np.shape(most)), dtype=bool)
    share = counts / n
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(share > 0, share * np.log(share / most), 0.0)
        outside = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - np.minimum(most, 1.0))), 0.0)
        return np.asarray((share > most) & (n * (inside + outside) > doubt))


def _reaches(laws: list[Law | None], narrowest: Matrix, steps: Matrix) -> Matrix:
    """Half of the interval that holds each share of the law's values: all laws here have one peak, in their middle."""
    reaches, shares = np.zeros((len(CLOSE), len(laws))), np.array(CLOSE)
    for column, law in enumerate(laws):
        if law is not None:
            found = (law.ppf((1 + shares) / 2) - law.ppf((1 - shares) / 2)) / 2 * narrowest[column]
            reaches[:, column] = np.where(found * ROUNDING > steps[column], found, 0.0)
    return reaches


def _steps(card: Card) -> Matrix:
    """How finely values can differ in every encoded column: by the noise's grid, or by what a double tells apart."""
    grids = [float((column["noise"] or {}).get("grid", 0.0)) for column in card.release_schema["columns"]]
    if not card.is_columnwise:
        return np.array([max(grid, 8 * float(np.spacing(float(len(grids))))) for grid in grids])
    steps = []
    for group, grid in zip(card.source_encoding().groups, grids, strict=True):
        low, high = (0.0, 1.0) if group.is_onehot else group.column.bounds
        finest = max(grid, 8 * float(np.spacing(max(abs(low), abs(high)))))
        steps += [finest / (high - low) if high > low else 1.0] * group.width
    return np.array(steps)


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
