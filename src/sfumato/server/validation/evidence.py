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
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.channels import Channel, Recipe
from sfumato.guarantee import Card

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
        recipe, classes = card.made_by(), len(card.classes)
        return cls(
            reach=_reaches(recipe),
            floors=_floors(recipe),
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
            self._centre, matrix = _middle(matrix[:first]), matrix[first:]
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


def _middle(matrix: Matrix) -> Matrix:
    """Medians of what is reported; where nothing is, no cell counts as close."""
    found = np.full(matrix.shape[1], np.nan)
    reported = ~np.isnan(matrix).all(axis=0)
    found[reported] = np.nanmedian(matrix[:, reported], axis=0)
    return found


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


def _reaches(recipe: Recipe) -> Matrix:
    """Half of the interval that holds each share of a column's values, by the class whose noise is narrowest.

    Left out where empty cells or the calendar's ends take variance away again, and where the interval is not much wider
    than the steps in which values differ.
    """
    reaches = np.zeros((len(CLOSE), recipe.width))
    kinds = dict.fromkeys(range(recipe.width), "")
    if recipe.is_columnwise:
        kinds = {group.start: group.column.kind for group in recipe.encoding.groups}
    for place, channel in enumerate(recipe.channels):
        column = recipe.places[place].start
        if channel.width > 1 or kinds[column] == "date":
            continue
        narrow = [some[place] for some in recipe.by_class.values()] or [channel]
        found = np.array([min(one.central(share) for one in narrow) for share in CLOSE])
        reaches[:, column] = np.where(found * ROUNDING > _step(recipe, column, channel), found, 0.0)
    return reaches


def _step(recipe: Recipe, column: int, channel: Channel) -> float:
    """How finely values can differ: by the noise's grid, or by what a double tells apart."""
    if not recipe.is_columnwise:
        return max(channel.step, 8 * float(np.spacing(float(recipe.width))))
    group = next(group for group in recipe.encoding.groups if group.start == column)
    low, high = group.column.bounds
    finest = 8 * float(np.spacing(max(abs(low), abs(high))))
    return max(channel.step, finest / (high - low)) if high > low else 1.0


def _floors(recipe: Recipe) -> list[tuple[slice, float]]:
    """Encoded columns of every category, and the share that each has by chance at least."""
    floors = []
    for place, channel in enumerate(recipe.channels):
        least = min(one.least_share for one in [channel, *(some[place] for some in recipe.by_class.values())])
        if least > 0:
            floors.append((recipe.places[place], least))
    return floors
