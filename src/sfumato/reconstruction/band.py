"""The band: between which shares of the table's people the true one lies in each cell, whatever the column is like.

Every column that the released values allow (see `atoms`) gives a pointwise interval from draws of its posterior, in
which chance and the bias of smoothing are one: a draw is a table that could be the true one. The band spans the
intervals of all of them. A point mass may lie in each cell that its standard error reaches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from sfumato.array_types import Floats
from sfumato.reconstruction.atoms import Column
from sfumato.reconstruction.draws import draw_masses, draw_shares
from sfumato.reconstruction.kernel import Cells
from sfumato.reconstruction.log_density import Fitted, log_sum

_LIKELY = 0.02
"""Chance from which on a kind of curve counts: what is seldom true is true of some columns, so only what the released
values rule out is left out."""
_NARROWED = 0.95
"""The span of several intervals covers more than each of them, so that each is taken narrower by this.

It was chosen on the columns of benchmarks/bench_coverage.py --chosen-on, `_LIKELY` on two skewed columns of real
tables: docs/reconstruction.md says which, and what others show.
"""


def band_of(
    columns: Sequence[Column], cells: Cells, *, confidence: float, draws: int, seed: int
) -> tuple[Floats, Floats]:
    """Lower and upper ends for every cell; less than one of the released rows is not told from none."""
    rng = np.random.default_rng(seed)
    found = [
        _interval(column, fits, cells, confidence, draws, rng) for column in columns for fits in _alike(column.fits)
    ]
    low = np.min([ends[0] for ends in found], axis=0)
    high = np.max([ends[1] for ends in found], axis=0)
    one_row = 1.0 / float(columns[0].model.counts.sum())
    low[low < one_row] = 0.0
    return low, np.maximum(high, one_row)


def _alike(fits: Sequence[Fitted]) -> list[Sequence[Fitted]]:
    """Smooth curves, those between, and rough ones: of each kind that is likely, its fits.

    Strong noise hides whether a column has one hump or two. Averaged over all, the smooth ones would speak loudest, and
    the band be far too narrow where they are wrong.
    """
    third = -(-len(fits) // 3)
    kinds = [fits[start : start + third] for start in range(0, len(fits), third)]
    evidence = np.array([log_sum([fit.log_evidence for fit in kind]) for kind in kinds])
    chances = np.exp(evidence - log_sum(list(evidence)))
    return [kind for kind, chance in zip(kinds, chances, strict=True) if chance >= _LIKELY]


def _interval(
    column: Column, fits: Sequence[Fitted], cells: Cells, confidence: float, draws: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    reach = _NARROWED * float(norm.ppf(0.5 * (1.0 + confidence)))
    tails = [float(norm.cdf(-reach)), float(norm.cdf(reach))]
    drawn = draw_shares(column.model, draw_masses(column.model, fits, draws, rng), rng)
    smooth, shares = drawn[:, : cells.count].copy(), drawn[:, cells.count :].T
    lines = np.arange(draws)
    for atom, share in zip(column.atoms, shares, strict=True):
        if atom.width:
            centre = atom.place + atom.error * rng.standard_normal(draws)
            for distance, weight in zip(*atom.spread(), strict=True):
                smooth[lines, cells.holding(centre + distance)] += weight * share
    low, high = np.quantile(smooth, tails, axis=0)
    for atom, share in zip(column.atoms, shares, strict=True):
        if not atom.width:
            ends = cells.holding(
                np.array([atom.place - reach * atom.error, atom.place + reach * atom.error, atom.value])
            )
            there = np.arange(ends.min(), ends.max() + 1)
            with_it = np.quantile(smooth[:, there] + share[:, None], tails, axis=0)
            high[there] = np.maximum(high[there], with_it[1])
            if len(there) == 1:
                low[there] = with_it[0]
    return low, high
