"""The rows that vote, part by part, and what a query hears from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.array_types import Codes, Floats
from sfumato.neighbours import Frame, Votes, nearest, radius_votes
from sfumato.neighbours.frame import pair_squares

ROUNDING = 1e-9
"""Of a vote that was taken back: what is left below this is not told from none."""
LEAST = 0.1
"""Of 0 to 1, .1 served best over six tables and five laws of factors; .01 to .5 nearly as well."""


@dataclass(frozen=True)
class Voters:
    """Released rows with classes and parts; `squared_radius` and `mean_noise` of every part, `row_noise` of every row.

    With `prior` (the share of every class) the votes of a circle are divided by it; None as published.
    """

    rows: Floats
    codes: Codes
    part: Codes
    squared_radius: Floats
    mean_noise: Floats
    row_noise: Floats
    classes: int
    prior: Floats | None
    neighbours: int
    frame: Frame
    workers: int | None = None

    def shares(self, queries: Floats, own: Codes | None = None) -> tuple[Floats, int]:
        """Votes of every class, normalised to one, and how many queries were left to the nearest rows.

        `own` names for every query a row that does not vote for it, nor count in the shares of the classes.
        """
        votes = np.zeros((len(queries), self.classes))
        exact = np.zeros(votes.shape, dtype=np.int64)
        for number, squared_radius in enumerate(self.squared_radius):
            if squared_radius > 0:
                heard = self._heard(queries, number, float(squared_radius))
                votes += heard.votes
                exact += heard.exact
        if own is not None:
            self._take_back(votes, exact, queries, own)
        if self.prior is not None:
            votes /= self.prior if own is None else self._prior_without(own)
        hit = exact.any(axis=1)
        votes[hit] = exact[hit]
        empty = ~votes.any(axis=1)
        if empty.any():
            votes[empty] = self._nearest_votes(queries[empty], None if own is None else own[empty])
        return np.asarray(votes / votes.sum(axis=1, keepdims=True)), int(empty.sum())

    def _take_back(self, votes: Floats, exact: Codes, queries: Floats, own: Codes) -> None:
        """The vote of its own row from every query."""
        every = np.arange(len(own))
        squares = pair_squares(queries, self.rows, every, own)
        mean, radius = self.mean_noise[self.part[own]], self.squared_radius[self.part[own]]
        equal = (squares < np.finfo(np.float64).tiny) & (mean == 0.0) & (radius > 0)
        exact[every[equal], self.codes[own[equal]]] -= 1
        squares = np.where(mean > 0.0, squares - self.row_noise[own] + mean, squares)
        voted = (radius > 0) & (squares <= radius) & ~equal
        weight = 1.0 / np.maximum(squares[voted], np.maximum(LEAST * mean[voted], np.finfo(np.float64).tiny))
        who, what = every[voted], self.codes[own[voted]]
        left = votes[who, what] - weight
        votes[who, what] = np.where(left > ROUNDING * weight, left, 0.0)

    def _prior_without(self, own: Codes) -> Floats:
        """Shares of the classes among the others, for every query; with its own row a class would be voted down."""
        counts = np.tile(np.bincount(self.codes, minlength=self.classes).astype(np.float64), (len(own), 1))
        counts[np.arange(len(own)), self.codes[own]] -= 1.0
        return np.maximum(counts, 1.0) / max(len(self.codes) - 1, 1)

    def _heard(self, queries: Floats, number: int, squared_radius: float) -> Votes:
        """Votes of one part."""
        mine = slice(None) if len(self.squared_radius) == 1 else self.part == number
        rows, codes, mean, own = self.rows[mine], self.codes[mine], self.mean_noise[number], self.row_noise[mine]
        if not len(rows):
            return Votes(np.zeros((len(queries), self.classes)), np.zeros((len(queries), self.classes), dtype=np.int64))
        if mean == 0.0:
            return radius_votes(
                queries, rows, codes, self.classes, squared_radius, frame=self.frame, workers=self.workers
            )
        # d^2 - own + mean is a squared distance less a constant: in one more column, at 0 for queries and at
        # sqrt(most - own) for rows, it is d^2 + most - own.
        most = own.max()
        rows = np.column_stack([rows, np.sqrt(most - own)])
        queries = np.column_stack([queries, np.zeros(len(queries))])
        less = float(most - mean)
        return radius_votes(
            queries,
            rows,
            codes,
            self.classes,
            squared_radius + less,
            less=less,
            least=LEAST * mean,
            workers=self.workers,
        )

    def _nearest_votes(self, queries: Floats, own: Codes | None = None) -> Floats:
        k = min(self.neighbours + (own is not None), len(self.rows))
        distances, indices = nearest(queries, self.rows, k, frame=self.frame, workers=self.workers)
        if own is not None:  # the own row, or where it is not among them the furthest, goes
            last = np.argsort(indices == own[:, None], axis=1, kind="stable")
            distances = np.take_along_axis(distances, last, axis=1)[:, : max(k - 1, 1)]
            indices = np.take_along_axis(indices, last, axis=1)[:, : max(k - 1, 1)]
        equal = distances == 0
        # Divided by the nearest distance first, so that no weight is infinite however small the distances.
        closest = np.maximum(distances[:, :1], np.finfo(np.float64).tiny)
        weights = (closest / np.maximum(distances, closest)) ** 2
        weights = np.where(equal.any(axis=1, keepdims=True), equal, weights)
        votes = np.zeros((len(queries), self.classes))
        np.add.at(votes, (np.arange(len(queries))[:, None], self.codes[indices]), weights)
        return votes
