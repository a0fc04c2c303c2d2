"""Rows that report exactly so many of their columns: which ones, how they are drawn, and whether rows kept to it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.array_types import Flags, Matrix
from sfumato.channels.base import Channel
from sfumato.channels.maps import places
from sfumato.channels.sampled import Sampled
from sfumato.errors import TableError
from sfumato.table import Group


def choose(rows: int, columns: int, wanted: int, rng: np.random.Generator) -> Flags:
    """For every row a set of `wanted` columns, each set as likely (rows x columns); nothing is read of the rows.

    Floyd's algorithm: for j = columns - wanted, ... a place t of 0 .. j is taken, or j itself where t was taken before.
    """
    chosen = np.zeros((columns, rows), dtype=np.bool_)
    every = np.arange(rows)
    for last in range(columns - wanted, columns):
        place = rng.integers(0, last + 1, size=rows)
        place = np.where(chosen[place, every], last, place)
        chosen[place, every] = True
    return chosen.T


def draw_chosen(channels: Sequence[Channel], E: Matrix, chosen: Flags, rng: np.random.Generator) -> Matrix:
    """Send rows through their channels, those that leave cells out only where they are chosen."""
    out = np.empty((len(E), sum(channel.width for channel in channels)), order="F")
    column = 0
    for place, channel in zip(places(channels), channels, strict=True):
        if not isinstance(channel, Sampled):
            out[:, place] = channel.draw(np.array(E[:, place]), rng)
            continue
        rows = np.flatnonzero(chosen[:, column])
        out[:, place] = np.nan
        out[rows, place] = channel.inner.draw(E[rows, place], rng)
        column += 1
    return out


def check_counts(where: Sequence[slice], channels: Sequence[Channel], wanted: int, Z: Matrix) -> None:
    """Refuse rows that report more or fewer columns than their card says."""
    first = [place.start for place, channel in zip(where, channels, strict=True) if channel.leaves_out]
    told = np.zeros(len(Z), dtype=np.int64)
    for column in first:  # one by one: all at once would be a copy of the release
        told += ~np.isnan(Z[:, column])
    if (wrong := np.flatnonzero(told != wanted)).size:
        raise TableError(
            f"The card says that every row reports {wanted} of {len(first)} columns, and row {int(wrong[0]) + 1} "
            "reports more or fewer: the release was changed or damaged. Get it again from whoever made it."
        )


def tells(group: Group) -> bool:
    """Whether a cell of the column can show more than one value."""
    return len(group.column.categories or ()) > 1 if group.is_onehot else not group.is_constant
