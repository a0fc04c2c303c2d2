"""Groups of near rows: a random row with its k - 1 nearest, again and again; leftovers join the nearest group."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.neighbours import nearest

CANDIDATES = 4
"""Neighbours looked up at once, as a multiple of k."""

ENOUGH = 256
"""Centres looked up at once, at least."""


def nearest_groups(X: Matrix, k: int, rng: np.random.Generator) -> list[Codes]:
    """Positions of the rows of each group; every group has at least k rows if there are k rows at all."""
    count = len(X) // k
    if count < 2:
        return [np.arange(len(X))]
    groups = list(_full_groups(X, k, count, rng))
    left = np.setdiff1d(np.arange(len(X)), np.concatenate(groups))
    if len(left):
        centres = np.array([X[group].mean(axis=0) for group in groups])
        _, home = nearest(X[left], centres)
        for row, group in zip(left, home[:, 0], strict=True):
            groups[group] = np.append(groups[group], row)
    return groups


def _full_groups(X: Matrix, k: int, count: int, rng: np.random.Generator) -> Iterator[Codes]:
    """Static condensation: the free rows in random order, each taking its k - 1 nearest free rows with it.

    The nearest rows of many centres are looked up at once, among the rows that are free by then. Groups taken in the
    meantime only shorten such a list, so its first k free rows are still the k nearest; a centre whose list was
    used up is looked up again, alone. The groups are those of one search after another.
    """
    free = np.ones(len(X), dtype=bool)
    order = rng.permutation(len(X))
    made = 0
    while made < count:
        rows = np.flatnonzero(free)
        order = order[free[order]]
        batch = order[: max(ENOUGH, len(rows) // (CANDIDATES * k))]
        _, found = nearest(X[batch], X[rows], k=min(len(rows), CANDIDATES * k))
        for centre, line in zip(batch, rows[found], strict=True):
            if made == count:
                return
            if not free[centre]:
                continue
            usable = line[free[line]][:k]
            if len(usable) < k:
                rest = np.flatnonzero(free)
                usable = rest[nearest(X[centre : centre + 1], X[rest], k=k)[1][0]]
            if centre not in usable:  # rows equal to the centre may crowd it out
                usable[-1] = centre
            free[usable] = False
            made += 1
            yield usable
