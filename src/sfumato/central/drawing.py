"""Draw rows from a fitted model: class, then every column given the class and the column it depends on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.array_types import Codes, Floats


@dataclass(frozen=True)
class Alias:
    """Walker's alias tables: one draw from row `state` of a table of probabilities costs two look-ups."""

    keep: Floats
    other: Codes
    width: int

    @classmethod
    def of(cls, probabilities: Floats) -> Alias:
        """One table for each row of (states, outcomes)."""
        states, width = probabilities.shape
        keep, other = np.ones((states, width)), np.tile(np.arange(width), (states, 1))
        for state in range(states):
            _fill(probabilities[state] * width, keep[state], other[state])
        return cls(keep.ravel(), other.ravel(), width)

    def draw(self, states: Codes, rng: np.random.Generator) -> Codes:
        u = rng.random(len(states))
        u *= self.width
        cell = u.astype(np.int64)
        np.minimum(cell, self.width - 1, out=cell)
        u -= cell
        place = states * self.width + cell
        return np.where(u < self.keep[place], cell, self.other[place])


def _fill(scaled: Floats, keep: Floats, other: Codes) -> None:
    small = [j for j, value in enumerate(scaled) if value < 1.0]
    large = [j for j, value in enumerate(scaled) if value >= 1.0]
    scaled = scaled.copy()
    while small and large:
        low, high = small.pop(), large[-1]
        keep[low], other[low] = scaled[low], high
        scaled[high] -= 1.0 - scaled[low]
        if scaled[high] < 1.0:
            small.append(large.pop())
    for rest in (*small, *large):
        keep[rest] = 1.0
