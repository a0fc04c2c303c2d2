"""No cell of the pool weighs more than noise can make it: what lies further out is taken at the end of the reach.

A site states its own noise, and might state a thousand times more than the others to carry a single cell as far. So
every site has one vote on where each column ends, and the median counts: fewer than half of the sites cannot move it
beyond what the others state. Heavy tails, and releases that were received before such cells were refused at the
door, end there too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from sfumato.array_types import Matrix
from sfumato.channels.reach import Reach
from sfumato.classifiers.training import Part
from sfumato.guarantee import Card

Ends = tuple[Matrix, Matrix]


def ends_of(cards: Mapping[str, Sequence[Card]]) -> Ends:
    """Lowest and highest value of every column: the median over sites, the narrower of two in the middle."""
    lows, highs = [], []
    for mine in cards.values():
        reaches = [Reach.of(card.made_by(), card.rows) for card in mine]
        lows.append(np.min([reach.low for reach in reaches], axis=0))
        highs.append(np.max([reach.high for reach in reaches], axis=0))
    return np.quantile(lows, 0.5, axis=0, method="higher"), np.quantile(highs, 0.5, axis=0, method="lower")


def within(part: Part, ends: Ends) -> tuple[Part, int]:
    """The part with its far cells taken at the ends, and how many these were."""
    low, high = ends
    taken = np.clip(part.Z, low, high)
    far = int(np.count_nonzero((taken != part.Z) & ~np.isnan(part.Z)))
    return (replace(part, Z=taken), far) if far else (part, 0)


def far_note(cells: int) -> list[str]:
    if not cells:
        return []
    were = "1 cell lies" if cells == 1 else f"{cells:,} cells lie"
    return [f"{were} further out than the noise of most sites can move any value; training used that distance."]
