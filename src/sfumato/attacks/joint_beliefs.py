"""What is believed of a column by somebody who has seen two releases of the same person.

The noise of two releases is independent given the person, so what their channels say of a value is multiplied. For
normal noise that is averaging by inverse variance; the product holds for every channel whose law is known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sfumato.attacks.base import KnownNoise
from sfumato.attacks.column_beliefs import ColumnBeliefs
from sfumato.attacks.like_people import Likely
from sfumato.core.array_types import Codes, Matrix
from sfumato.table import Encoding

TINY = 1e-300


class JointBeliefs(ColumnBeliefs):
    """Rows are those of the first release with those of the second beside them: [Z1 | Z2].

    `translate` says how people's rows look to the second release, which may have other columns and bounds: an encoded
    row of the first becomes one of the second, where columns that the first lacks are anything. Without `first_tells`
    only the second release is listened to: what it says alone, about the same columns and with the same prior.
    """

    def __init__(
        self,
        noises: tuple[KnownNoise, KnownNoise],
        encodings: tuple[Encoding, Encoding],
        people: Likely,
        cells: int,
        translate: Callable[[Matrix], Matrix],
        first_tells: bool = True,
    ) -> None:
        first, second = encodings
        self.first_tells = first_tells
        super().__init__(noises[0], first, people, cells)
        self.width, self.translate = first.width, translate
        self.other = ColumnBeliefs(noises[1], second, people._replace(X=translate(people.X)), cells)
        theirs = {group.column.name: number for number, (group, _, _) in enumerate(self.other.parts)}
        middle = np.concatenate([group.vertices.mean(axis=0) for group in first.groups])
        self.same: dict[int, tuple[int, Codes]] = {}
        for number, (group, _, _) in enumerate(self.parts):
            if group.column.name in theirs:
                rows = np.tile(middle, (len(self.supports[number].values), 1))
                rows[:, group.slice] = self.supports[number].values
                place = theirs[group.column.name]
                seen = translate(rows)[:, self.other.parts[place][0].slice]
                self.same[number] = place, self.other.supports[place].places(seen)

    def told(self, Z: Matrix) -> list[Any]:
        """What both channels say of every column's values."""
        found, others = super().told(Z[:, : self.width]), self.other.told(Z[:, self.width :])
        if not self.first_tells:
            found = [np.ones_like(one) for one in found]
        for number, (place, values) in self.same.items():
            found[number] = found[number] * others[place][:, values]
        return found

    def simulated(self, own: Codes, rng: np.random.Generator) -> Matrix:
        """These people of the list, released twice."""
        return np.hstack([super().simulated(own, rng), self.other.simulated(own, rng)])

    def copied(self, number: int) -> bool:
        """Only where somebody listens to the first release, whose column it is."""
        return self.first_tells and super().copied(number)

    def same_person(self, first: Matrix, second: Matrix) -> Matrix:
        """log of how much likelier each row of the first release (n) and each of the second (m) are of one person than
        of two: n x m. Columns are taken as independent, each with its spread among the people on the list."""
        mine, theirs = super().told(first), self.other.told(second)
        found = np.zeros((len(first), len(second)))
        for number, (place, values) in self.same.items():
            group, support = self.parts[number][0], self.supports[number]
            spread = np.bincount(support.places(self.X[:, group.slice]), minlength=len(support.values)) + 1.0
            spread /= spread.sum()
            one, two = mine[number].astype(np.float64), theirs[place][:, values].astype(np.float64)
            apart = np.outer(one @ spread, two @ spread)
            found += np.log(np.maximum((one * spread) @ two.T, TINY)) - np.log(np.maximum(apart, TINY))
        return found
