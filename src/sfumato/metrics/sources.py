"""What released rows tell of the rows they were drawn from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.metrics.privacy import Interval, proportion_interval, same_rows
from sfumato.neighbours import nearest


class Hits(NamedTuple):
    """Source-hit rate and its interval."""

    rate: float
    interval: Interval


def source_hit_rate(released: Matrix, originals: Matrix, source: Codes) -> Hits:
    """Share of released rows whose nearest original row is the one they were drawn from; lower is safer.

    Distances are Euclidean over all columns as they are given; an identical twin of the source counts as the source.
    """
    _, index = nearest(np.ascontiguousarray(released), np.ascontiguousarray(originals), k=1)
    right = same_rows(originals[index[:, 0]], originals[source])
    return Hits(float(right.mean()), proportion_interval(float(right.sum()), len(right)))


class HardInterval(NamedTuple):
    """Where a source row lies for certain (people x columns), and how many released rows say so."""

    low: Matrix
    high: Matrix
    draws: Codes

    @property
    def widths(self) -> Matrix:
        """Width of every interval; NaN for people who were never drawn."""
        return self.high - self.low


def hard_interval(released: Matrix, source: Codes, people: int, widths: Matrix) -> HardInterval:
    """The box in which each person's row lies *with certainty*, by a kernel of half-widths h; wider is safer.

    One draw z leaves [z - h, z + h]; draws that are known to come from the same person leave the intersection,
    [max z - h, min z + h], which shrinks with their number. `widths` is h per column, or per released row and column.
    People of whom no row was drawn have NaN: nothing is known for certain of them.
    """
    low, high = np.full((people, released.shape[1]), -np.inf), np.full((people, released.shape[1]), np.inf)
    np.maximum.at(low, source, released - widths)
    np.minimum.at(high, source, released + widths)
    draws = np.bincount(source, minlength=people)
    low[draws == 0], high[draws == 0] = np.nan, np.nan
    return HardInterval(low, high, draws.astype(np.int64))
