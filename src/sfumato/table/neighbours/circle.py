"""A circle whose rows vote, what a query hears from them, and how measured pairs are counted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.core.array_types import Codes, Floats


class Votes(NamedTuple):
    """What every query heard: votes by class, and how many rows of each class lie exactly on it."""

    votes: Floats
    exact: Codes


class Circle(NamedTuple):
    """Rows with d^2 <= `squared_radius` vote 1 / d^2, or with a `least` above 0, 1 / max(d^2 - less, least)."""

    squared_radius: float
    less: float = 0.0
    least: float = 0.0

    def add_measured(self, heard: Votes, query_at: Codes, code: Codes, squares: Floats) -> None:
        """Votes of pairs whose squared distances were measured; those at distance zero are counted apart."""
        # A subnormal square would weigh infinitely much: it counts as equal.
        equal = squares < (np.finfo(np.float64).tiny if self.least == 0 else 0.0)
        inside = (squares <= self.squared_radius) & ~equal
        if self.least > 0:
            squares = np.maximum(squares - self.less, self.least)
        add_weights(heard.votes, query_at[inside], code[inside], 1.0 / squares[inside])
        np.add.at(heard.exact, (query_at[equal], code[equal]), 1)


def add_weights(votes: Floats, query_at: Codes, code: Codes, weight: Floats) -> None:
    """Add every weight to its query's votes for its class, in place."""
    slot = query_at * votes.shape[1] + code
    votes += np.bincount(slot, weights=weight, minlength=votes.size).reshape(votes.shape)
