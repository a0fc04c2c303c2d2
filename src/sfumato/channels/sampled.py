"""A column that only some rows report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.channels.base import Around, Channel, OnLine, passes_on
from sfumato.channels.maps import places
from sfumato.core.array_types import Flags, Matrix
from sfumato.core.errors import TableError
from sfumato.table import Group


@passes_on("fits", "hides_missing", "width", "epsilons", "moved", "interval", "rounding", "steepness")
@passes_on("transition", "line", "central", "least_share")  # of the cells that are reported
@dataclass(frozen=True)
class Sampled(Around):
    """Each row reports the column with probability `rate`, whatever its value; else the cell is not reported (NaN).

    Which cells are reported is public and says nothing, so the guarantee is that of the channel inside: sampling costs
    nothing, and amplifies nothing since the set of reported cells is released. A mechanism that must report exactly so
    many columns of each row chooses them itself and draws with `inner`; `rate` is then each column's share of rows.
    """

    rate: float
    tag = "sampled"
    leaves_out = True

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1 or self.inner.leaves_out:
            raise ValueError("rate")

    @property
    def reported(self) -> float:
        return self.rate

    def draw(self, x: Matrix, rng: np.random.Generator) -> Matrix:
        reported = rng.random(len(x)) < self.rate
        out = np.full((len(x), self.width), np.nan)
        out[reported] = self.inner.draw(np.ascontiguousarray(x[reported]), rng)
        return out

    def log_likelihood(self, z: Matrix, x: Matrix) -> Matrix:
        """A cell that is not reported is as likely for everybody."""
        found = np.full((len(z), len(x)), math.log1p(-self.rate) if self.rate < 1 else 0.0)
        reported = ~np.isnan(z).any(axis=1)
        found[reported] = math.log(self.rate) + self.inner.log_likelihood(z[reported], x)
        return found

    def on_line(self, z: Matrix, x: Matrix) -> OnLine | None:
        line = self.inner.on_line(z, x)
        if line is None:
            return None
        seen = np.where(np.isnan(z).any(axis=1), np.inf, line.seen)
        silent, told = math.log1p(-self.rate) if self.rate < 1 else 0.0, math.log(self.rate)
        return line._replace(seen=seen, high=told + line.high, low=told + line.low, silent=silent)

    def possible(self, z: Matrix) -> tuple[Matrix, Matrix]:
        low, high = super().possible(z)
        reported = ~np.isnan(z).any(axis=1)
        low[reported], high[reported] = self.inner.possible(z[reported])
        return low, high


CERTAIN = 1 - 1e-9
"""A chance that is as good as 1."""


def rates_fit(rates: Sequence[float], wanted: float) -> bool:
    """Whether columns can be reported this often by rows that report `wanted` of them each."""
    return all(0 < rate <= 1 for rate in rates) and abs(math.fsum(rates) - wanted) < 1e-9


def choose(rows: int, rates: Sequence[float], wanted: int, rng: np.random.Generator) -> Flags:
    """For every row a set of `wanted` columns, each column with its rate (rows x columns); nothing is read of the rows.

    The rates add up to `wanted`. Where they are all the same, each set is as likely, by Floyd's algorithm: for
    j = columns - wanted, ... a place t of 0 .. j is taken, or j where t was taken before. Else by systematic sampling:
    rates are laid end to end on a line, in an order that every row draws anew. Marks lie 1 apart, the first one at
    random; a column is chosen where a mark falls on it [Madow 1949].
    """
    if max(rates) - min(rates) < 1e-12:
        any_set, every = np.zeros((len(rates), rows), dtype=np.bool_), np.arange(rows)
        for last in range(len(rates) - wanted, len(rates)):
            place = rng.integers(0, last + 1, size=rows)
            any_set[np.where(any_set[place, every], last, place), every] = True
        return any_set.T
    chances = np.asarray(rates)
    chosen = np.tile(chances >= CERTAIN, (rows, 1))
    if (open_to := np.flatnonzero(chances < CERTAIN)).size:
        order = np.argsort(rng.random((rows, len(open_to))), axis=1)
        ends = np.cumsum(chances[open_to][order], axis=1)
        ends[:, -1] = wanted - (len(chances) - len(open_to))  # but for rounding it is
        hit = np.diff(np.ceil(ends - rng.random((rows, 1))), axis=1, prepend=0.0) > 0
        some = np.empty_like(hit)
        np.put_along_axis(some, order, hit, axis=1)
        chosen[:, open_to] = some
    return chosen


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
