"""Which departures from its card the rows of a release would have shown: the power of `bets`, for these very rows.

The table is taken to be what the rows suggest under the stated noise. Outcomes of such a table with a share of that
noise are drawn again and again, for as many rows, and bet on. What is found in 95 of 100 cases is said to be found;
what is not might have happened here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from sfumato.core.array_types import Floats, Matrix
from sfumato.core.wording import counted
from sfumato.release.bets import Bet, Bets, Laws, gains_after

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Of the stated noise."""
NO_NOISE = 1e-6
"""Stands for a share of 0."""
OFTEN = 0.95
DRAWS = 12
"""Per column: winnings of many columns add up, and mean and spread of their sum are what counts."""
SMOOTH = 8
"""Steps of deconvolution."""
MOST_COLUMNS = 16
"""So many columns stand for all, evenly chosen."""


@dataclass(frozen=True)
class Power:
    """`found` is the largest share of the stated noise that is often found in all columns together, with every smaller
    one; None if not even missing noise is. `alone`: in how many of `columns` missing noise is found by itself."""

    found: float | None
    alone: int
    columns: int

    @classmethod
    def of(cls, bets: Bets, false_alarms: float) -> Power:
        """Of bets that were placed; a pure function of them."""
        sure = math.log(4 / false_alarms)  # a half for bets, of which a half for columns that follow one another
        every = max(1, len(bets.placed) / MOST_COLUMNS)
        some = [bets.placed[int(place * every)] for place in range(min(len(bets.placed), MOST_COLUMNS))]
        laws = [bet.laws() for bet in some]
        tables = [_table(bet, law.coarse) for bet, law in zip(some, laws, strict=True)]
        rng = np.random.default_rng(0)

        def winnings(share: float) -> Floats:
            return np.array([_won(*one, share, rng) for one in zip(some, laws, tables, strict=True)])

        none = winnings(NO_NOISE)
        alone = sum(_often(mean, spread, sure + math.log(len(bets.placed))) for mean, spread in none)
        apart = np.array([bet.column.independent for bet in some], dtype=bool)

        def seen(share: float) -> bool:
            means, spreads = (none if share == 0 else winnings(share))[apart].T if apart.any() else np.zeros((2, 1))
            return _often(every * means.sum(), math.sqrt(every * (spreads**2).sum()), sure)

        found, low, high = None, 0, len(SHARES) - 1
        while low <= high:  # what is found is found with less noise too
            middle = (low + high) // 2
            if seen(SHARES[middle]):
                found, low = SHARES[middle], middle + 1
            else:
                high = middle - 1
        if alone and found is None:
            found = 0.0
        return cls(found, round(alone * every), len(bets.placed))

    def in_words(self, rows: int) -> str:
        """One or two sentences."""
        at = f"At {counted(rows, 'row')}"
        if self.found is None:
            return f"{at} less noise than is stated, even none, need not show."
        amount = "missing noise" if self.found == 0 else f"noise of {self.found:g} of what is stated, or less,"
        more = f"from {_next(self.found):g} of it on it need not show"
        return (
            f"{at} {amount} would be found in 95 of 100 cases; {more}. Missing in a single column it would be found in "
            f"{self.alone} of {counted(self.columns, 'column')}."
        )


def _table(bet: Bet, laws: Matrix) -> Floats:
    """How true values may be spread: a few steps of deconvolution from an even table, which stay on the smooth side. A
    table that is spread more widely hides more."""
    shown = bet.seen + bet.counts
    shares = np.full(laws.shape[1], 1.0 / laws.shape[1])
    for _ in range(SMOOTH):
        shares *= (shown / shown.sum() / np.maximum(laws @ shares, 1e-300)) @ laws
    return np.asarray(shares / shares.sum())


def _won(bet: Bet, laws: Laws, table: Floats, share: float, rng: np.random.Generator) -> tuple[float, float]:
    """Mean and spread of what a bet wins where there is so much of the noise."""
    chances = np.maximum(bet.laws(share).coarse @ table, 0.0)
    chances /= chances.sum()
    rows, others = int(bet.seen.sum()), int(bet.counts.sum())
    learned, later = rng.multinomial(rows, chances, DRAWS), rng.multinomial(others, chances, DRAWS)
    won = [float(counts @ gains_after(seen, laws)) for seen, counts in zip(learned, later, strict=True)]
    return float(np.mean(won)), float(np.std(won, ddof=1))


def _often(mean: float, spread: float, needed: float) -> bool:
    """Whether winnings of this mean and spread exceed what is needed often enough."""
    return bool(ndtr((mean - needed) / max(spread, 1e-9)) >= OFTEN)


def _next(share: float) -> float:
    return next((one for one in (*SHARES, 1.0) if one > share), 1.0)
