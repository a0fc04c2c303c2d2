"""Which release row belongs to whom, where no trace says so."""

from __future__ import annotations

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.metrics.privacy import row_codes

SHIFTS = tuple(shift for size in range(1, 11) for shift in (-size, size))
FAR_BEYOND_CHANCE = 6.0
"""Standard errors by which a row must be nearer to its own source than to the neighbours of its source."""


def same_order(E: Matrix, Z: Matrix) -> bool:
    """Whether row i of the release Z came from row i of E (original rows in the release's space).

    Compared with the rows just before and after, and not with random ones: two tables that are merely sorted alike
    have similar rows near each other, but not more similar at the same place than one place further.
    The statistic is the mean over rows of (mean distance to the shifted rows - distance to the own row), over its
    standard error; distances are sums of absolute differences in units of the column's spread.
    """
    if E.shape != Z.shape or len(E) < 3:
        return False
    spread = E.std(axis=0)
    varies = spread > 0
    if not varies.any():
        return False
    a, b = E[:, varies] / spread[varies], Z[:, varies] / spread[varies]
    if len(a) > 20_000:
        a, b = a[:20_000], b[:20_000]
    own = np.abs(a - b).sum(axis=1)
    others = np.mean([np.abs(np.roll(a, shift, axis=0) - b).sum(axis=1) for shift in SHIFTS], axis=0)
    gain = others - own
    error = float(gain.std(ddof=1)) / np.sqrt(len(gain))
    if error == 0:
        return bool(gain.mean() > 0)
    return bool(gain.mean() / error > FAR_BEYOND_CHANCE)


def identical_rows(X: Matrix, Z: Matrix, rng: np.random.Generator) -> Codes | None:
    """For each release row the original row that is identical to it (-1: none), if too many are for chance.

    Chance is judged by a release whose columns were shuffled one by one. Of several identical originals, each is
    given to one release row as long as they last.
    """
    found = _matched(X, Z)
    share = float(np.mean(found >= 0))
    shuffled = np.column_stack([rng.permutation(column) for column in Z.T])
    by_chance = float(np.mean(_matched(X, shuffled) >= 0))
    return found if share >= 0.5 and by_chance < share / 2 else None


def _matched(X: Matrix, Z: Matrix) -> Codes:
    keys = row_codes(np.vstack([X, Z]))
    originals, wanted = keys[: len(X)], keys[len(X) :]
    order = np.argsort(originals, kind="stable")
    ordered = originals[order]
    low = np.searchsorted(ordered, wanted, "left")
    count = np.searchsorted(ordered, wanted, "right") - low
    # The r-th release row of a kind takes the r-th original of that kind, the last one when they run out.
    sequence = np.argsort(wanted, kind="stable")
    starts = np.searchsorted(wanted[sequence], wanted[sequence], "left")
    rank = np.empty(len(wanted), dtype=np.int64)
    rank[sequence] = np.arange(len(wanted)) - starts
    place = low + np.minimum(rank, np.maximum(count - 1, 0))
    return np.where(count > 0, order[np.minimum(place, len(order) - 1)], -1)
