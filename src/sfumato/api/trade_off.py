"""trade_off: what privacy costs, for the owner of a release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato.learn.trade_off import LEVELS, TradeOff, trade_off_of
from sfumato.release.release import Release


def trade_off(
    release: Release | Path | str,
    column: str,
    original: Any,
    *,
    levels: Sequence[float] = LEVELS,
    runs: int = 5,
    bins: int = 75,
    seed: int = 0,
    published: bool = False,
    rounds: int | None = None,
) -> TradeOff:
    """Information loss against privacy loss of one column [density-reconstruction, Fig. 3]; for the owner only.

    Parameters
    ----------
    release : Release or path
        What `sanitize` returned, or its folder.
    column : str
        A column of numbers.
    original : DataFrame, Arrow table or path
        The table that the release was made from. What is shown comes from its private values: keep it.
    levels : sequence of float, default (0.1, 0.2, 0.33, 0.5, 0.7, 0.85)
        Privacy losses (1 - 2^-I) at which noise is tried.
    runs : int, default 5
        How often the values are perturbed and reconstructed at each.
    bins : int, default 75
        Cells of the density.
    seed : int, default 0
        Seed of the noise that is tried.
    published : bool, default False
        The paper's own programme: no penalty and the rectangle rule. Expectation-maximization is then shown only with
        its `rounds`, since the paper does not say where it stopped.
    rounds : int, optional
        Rounds of expectation-maximization, in place of our stopping rule.

    Returns
    -------
    TradeOff
        `table()`, `summary()` and `plot()` (SVG); `mark` is where the release itself stands.
    """
    opened = release if isinstance(release, Release) else Release.public(release)
    return trade_off_of(
        opened,
        column,
        original,
        levels=levels,
        runs=runs,
        bins=bins,
        seed=seed,
        published=published,
        rounds=rounds,
    )
