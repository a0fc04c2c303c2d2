"""What later stages of a release take from earlier ones: how columns are spread, found in released rows alone.

The functions here are given `ReleasedRows`, a type that only released matrices are put into. Counts of outcomes add up
over blocks in any order, so a resumed run, another engine and the coordinator find the same guides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.channels import Channel
from sfumato.channels.staged import CELLS, RANKS, WAVE, Marginals, Staged, cells_of, values_in
from sfumato.core.array_types import Floats, Matrix
from sfumato.table import Group

OUTCOMES = 64
"""Cells of a released number."""
PRIOR = 16.0
"""How strongly a column's shares are drawn towards the average of all columns, in rows."""
STEPS = 200
_ROUNDED = 12
"""Digits of a share: sums over blocks come in any order."""


@dataclass(frozen=True)
class ReleasedRows:
    """Rows as they were released; a guide never sees others."""

    Z: Matrix


@dataclass(frozen=True)
class OutcomeCounts:
    """How often every outcome was released, column by column, in the first two stages."""

    counts: tuple[tuple[Floats, ...], ...]

    @classmethod
    def of(cls, staged: Staged, channels: Sequence[Channel], released: ReleasedRows) -> OutcomeCounts:
        found = []
        for stage in (WAVE, RANKS):
            start, columns = staged.parts[stage].start, []
            for group, channel in zip(staged.groups, staged.of_stages(channels)[stage], strict=True):
                cells = released.Z[:, start : start + group.width]
                columns.append(_counted(group, channel, cells[~np.isnan(cells[:, 0])]))
                start += group.width
            found.append(tuple(columns))
        return cls(tuple(found))

    def __add__(self, other: OutcomeCounts) -> OutcomeCounts:
        pairs = zip(self.counts, other.counts, strict=True)
        return OutcomeCounts(tuple(tuple(a + b for a, b in zip(*two, strict=True)) for two in pairs))


def guide(staged: Staged, channels: Sequence[Channel], counts: OutcomeCounts, stages: int) -> Marginals:
    """How columns are spread, by the released rows of the first `stages` stages."""
    groups = staged.groups
    known: list[list[tuple[Matrix, Floats]]] = []
    for place, group in enumerate(groups):
        parts = []
        for stage in range(stages):
            channel = staged.of_stages(channels)[stage][place]
            parts.append((_transition(staged, stage, place, group, channel), counts.counts[stage][place]))
        known.append(parts)
    numbers = [place for place, group in enumerate(groups) if not group.is_onehot and cells_of(group) == CELLS]
    average = np.full(CELLS, 1.0 / CELLS)
    if numbers:  # all columns as if they were one
        average = _estimate([part for place in numbers for part in known[place]], CELLS, average)
    shares = []
    for place, group in enumerate(groups):
        size = len(group.column.categories or ()) if group.is_onehot else cells_of(group)
        prior = average if place in numbers else np.full(size, 1.0 / size)
        shares.append(np.round(_estimate(known[place], size, prior), _ROUNDED))
    return Marginals(tuple(shares))


def _edges(channel: Channel) -> Floats:
    low, high, _ = channel.reach(0.0, 1.0, 0.0)
    return np.linspace(low, high, OUTCOMES + 1)


def _counted(group: Group, channel: Channel, cells: Matrix) -> Floats:
    if group.is_onehot:
        return np.asarray(cells[:, : len(group.column.categories or ())].sum(axis=0))
    edges = _edges(channel)
    return np.histogram(np.clip(cells[:, 0], edges[0], edges[-1]), edges)[0].astype(np.float64)


def _transition(staged: Staged, stage: int, place: int, group: Group, channel: Channel) -> Matrix:
    """P(outcome | cell or category of the truth), and last of a missing cell where there are such."""
    if group.is_onehot:
        size = len(group.column.categories or ())
        told = np.eye(group.width)[:size]
        found = np.exp(channel.log_likelihood(told, np.eye(group.width)))
        return np.asarray(found / found.sum(axis=0))  # of those who report it
    values = values_in(cells_of(group))
    values = values if stage == WAVE else staged.ranks.rank(place, values)
    x = np.column_stack([values, *[np.zeros(len(values))] * (group.width - 1)])
    found = channel.transition(_edges(channel), x).reshape(OUTCOMES, cells_of(group), -1).mean(axis=2)
    if group.has_indicator:
        missing = channel.transition(_edges(channel), np.array([[0.5, 1.0]]))
        found = np.hstack([found, missing])
    return np.asarray(found)


def _estimate(parts: Sequence[tuple[Matrix, Floats]], size: int, prior: Floats) -> Floats:
    """Expectation-maximization through the known channels, with a Dirichlet prior; without what is missing."""
    width = max(matrix.shape[1] for matrix, _ in parts)
    shares = np.full(width, 1.0 / width)
    pseudo = np.zeros(width)
    pseudo[:size] = PRIOR * prior
    for _ in range(STEPS):
        gained = pseudo.copy()
        for matrix, counts in parts:
            cells = matrix.shape[1]
            expected = np.maximum(matrix @ shares[:cells], 1e-300)
            gained[:cells] += shares[:cells] * (matrix.T @ (counts / expected))
        shares = gained / gained.sum()
    found = np.maximum(shares[:size], 1e-9)
    return np.asarray(found / found.sum())
