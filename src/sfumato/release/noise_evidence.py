"""Do rows look as the card says they were made? What noise alone brings cannot be missing.

Noise that has one peak, in its middle, puts no more of a column's values close to any point than of its own close to
that middle [Anderson 1955; Levy's concentration function], whatever was noised; and a category is reported at least
as often as randomized response reports it by chance. A release that is more crowded, or in which categories are
rarer, was not made with the noise that its card states. This finds who edited noise and guarantee together, not who
takes the trouble of forging rows, nor what a few rows cannot show. It accuses hardly anybody by chance: counts of
independent rows exceed a share `p` by so much with probability at most ``exp(-n KL(share, p))`` [Chernoff 1952], and
all comparisons of one release together do so less often than `FALSE_ALARMS`. Where noise differs between classes, as
kernels do, the least of it counts: most rows may be of the class that has it. Where not every row reports a column,
the rows that do are looked at, and they are as many as the card says, give or take chance.

What intervals cannot show, bets do: see `bets`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.channels import Channel, Recipe
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.guarantee import Card
from sfumato.release.bets import Bets

FALSE_ALARMS = 1e-12
"""Honest releases that are accused, at most: of one in each of a thousand studies' pushes, less than 1e-9 in all."""
CLOSE = (1e-4, 0.01, 0.1, 0.3, 0.5, 0.65, 0.8, 0.9)
"""Shares of a law's values around its middle, and so the largest shares of rows that intervals as wide may hold. Small
ones reveal whole numbers without noise, large ones a narrow column."""
ROUNDING = 1e-3
"""What grids and doubles can add to such a share: intervals that are not a thousand steps of them wide are left out."""
CENTRE_ROWS = 101
"""The first rows, at most a quarter of all, say where to look; the others are counted, and know nothing of them."""
WRONG = (
    "Its rows vary less than the noise that its card states: the release was not made as the card says. "
    "Take release and card as `sfumato sanitize` wrote them."
)

WRONG_GAPS = (
    "Its rows leave out more or fewer cells than its card states: the release was not made as the card says. "
    "Take release and card as `sfumato sanitize` wrote them."
)


@dataclass
class NoiseEvidence:
    """Counts over rows: how many lie how close to the centre, and how often each category is reported."""

    reach: Matrix
    """For every share of `CLOSE` and every encoded column, half of the interval; 0 where there is no noise to miss."""
    floors: list[tuple[slice, float]]
    classes: int
    label_floor: float
    stated_rows: int
    reported: Matrix
    """The share of rows that report each encoded column."""
    false_alarms: float = FALSE_ALARMS
    """Honest releases that are accused, at most: half of it for the counts, half for the bets."""
    bets: Bets = field(default_factory=lambda: Bets([], 1))
    rows: int = 0

    @classmethod
    def of(cls, card: Card, false_alarms: float = FALSE_ALARMS) -> NoiseEvidence:
        recipe, classes = card.made_by(), len(card.classes)
        return cls(
            reach=_reaches(recipe),
            floors=_floors(recipe),
            classes=classes,
            label_floor=(1 - card.label_keep) / max(classes - 1, 1),
            stated_rows=card.rows,
            reported=_reported(recipe),
            false_alarms=false_alarms,
            bets=Bets.of(card),
        )

    def __post_init__(self) -> None:
        self._close = np.zeros(self.reach.shape, dtype=np.int64)
        self._counts = np.zeros(self.reach.shape[1], dtype=np.int64)
        self._labels = np.zeros(max(self.classes, 1), dtype=np.int64)
        self._noised = np.flatnonzero(self.reach.any(axis=0))
        self._centre: Matrix | None = None
        self._looked, self._there = (np.zeros(self.reach.shape[1], dtype=np.int64) for _ in range(2))

    def add(self, matrix: Matrix, codes: Codes | None) -> None:
        """One block of the release matrix."""
        if len(matrix) == 0:
            return
        self.rows += len(matrix)
        self.bets.add(matrix, codes)
        there = ~np.isnan(matrix)
        self._there += there.sum(axis=0)
        self._counts += (matrix > 0.5).sum(axis=0)
        if codes is not None:
            self._labels += np.bincount(codes, minlength=len(self._labels))
        if self._centre is None:
            first = max(1, min(CENTRE_ROWS, self.stated_rows // 4))
            self._centre, matrix = _medians(matrix[:first]), matrix[first:]
            there = there[first:]
        self._looked += there.sum(axis=0)
        for column in self._noised:  # one at a time: it stays in the cache for all shares
            distance = np.abs(matrix[:, column] - self._centre[column])
            self._close[:, column] += [int(np.count_nonzero(distance <= reach)) for reach in self.reach[:, column]]

    def against(self, surer: float = 1.0) -> str | None:
        """What contradicts the card, or None; with `surer` below 1, false alarms are rarer by that factor."""
        sampled = self.reported < 1
        comparisons = self.reach.size + sum(part.stop - part.start for part, _ in self.floors) + self.classes
        comparisons += 2 * int(sampled.sum())
        doubt = math.log(2 * comparisons / (self.false_alarms * surer))
        most = np.array(CLOSE)[:, None] * (1 + ROUNDING)
        crowded = exceeds(self._close, self._looked, most, doubt) & (self.reach > 0)
        rare = [_rare(self._counts[part], self._there[part], floor, doubt) for part, floor in self.floors]
        if self.classes:
            rare.append(_rare(self._labels, self.rows, self.label_floor, doubt))
        often = exceeds(self._there, self.rows, self.reported, doubt) & sampled
        seldom = exceeds(self.rows - self._there, self.rows, 1 - self.reported, doubt) & sampled
        if often.any() or seldom.any():
            return WRONG_GAPS
        lost = self.bets.log_won > math.log(2 / (self.false_alarms * surer))
        return WRONG if lost or crowded.any() or any(rare) else None


def _rare(counts: Codes, rows: Any, floor: float, doubt: float) -> bool:
    """Whether some category is reported less often than chance alone reports it: others are, more often."""
    return bool(exceeds(rows - counts, rows, 1 - floor, doubt).any())


def exceeds(counts: Codes, n: Any, most: Any, doubt: float) -> Flags:
    """Whether counts of `n` independent rows, each in with probability `most` or less, are likelier a lie than chance:
    whether they exceed it, and ``exp(-n KL(counts / n, most)) < exp(-doubt)``."""
    share = counts / np.maximum(n, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = np.where(share > 0, share * np.log(share / most), 0.0)
        outside = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - np.minimum(most, 1.0))), 0.0)
        return np.asarray((share > most) & (n * (inside + outside) > doubt))


def _medians(matrix: Matrix) -> Matrix:
    """Of the cells that are reported; the middle of the range where none is."""
    found = np.full(matrix.shape[1], 0.5)
    for column, cells in enumerate(matrix.T):
        there = cells[~np.isnan(cells)]
        found[column] = np.median(there) if len(there) else 0.5
    return found


def _reported(recipe: Recipe) -> Matrix:
    shares = np.ones(recipe.width)
    for place, channel in zip(recipe.places, recipe.channels, strict=True):
        shares[place] = channel.reported
    return shares


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
