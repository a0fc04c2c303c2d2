"""The trade-off of a column of a release, for its owner: from the card's noise and the original table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sfumato.errors import UsageError
from sfumato.jobs.progress import Progress, silent
from sfumato.jobs.release import Release
from sfumato.jobs.released_values import as_numbers, reconstruct_from
from sfumato.jobs.trade_off import LEVELS, TradeOff, trade_off, where_it_stands
from sfumato.noise import OperatorNoise
from sfumato.reconstruction import Density, make_method
from sfumato.reconstruction.described import describe
from sfumato.table import open_table


def trade_off_of(
    release: Release,
    column: str,
    original: Any,
    *,
    levels: Sequence[float] = LEVELS,
    runs: int = 5,
    bins: int = 75,
    seed: int = 0,
    progress: Progress = silent,
) -> TradeOff:
    """Information loss against privacy loss, with the release itself as a mark."""
    one = describe(release.card, column)
    if not isinstance(one.noise, OperatorNoise):
        raise UsageError(f"Column {column!r} has no noise on numbers, so it has no such trade-off. Name a number.")
    opened = open_table(original, columns=[column])
    values = as_numbers(opened.read().column(0), one)
    found = reconstruct_from([release], column, make_method("parzen-program"), bins=bins, resamples=0, atoms=False)
    assert isinstance(found, Density)
    mark = where_it_stands(values, one.noise, found)
    return trade_off(
        values,
        column,
        (one.low, one.high),
        own=one.noise,
        mark=mark,
        levels=levels,
        runs=runs,
        bins=bins,
        seed=seed,
        progress=progress,
    )
