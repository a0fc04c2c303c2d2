"""What privacy costs: information loss against privacy loss for one column [density-reconstruction, Fig. 3].

The owner's own values are perturbed with noise of several strengths, each with a stated privacy loss (Eq. 19), and
reconstructed; the information loss (Eq. 20) is what that lost. Nothing of it leaves the owner: it shows a trade-off of
private values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.attacks.metrics.information import calibrate, information_loss, privacy_loss
from sfumato.core.array_types import Floats
from sfumato.core.asked import asks
from sfumato.core.errors import TableError, UsageError
from sfumato.core.files import write_whole
from sfumato.core.progress import Progress, silent
from sfumato.learn.asked import TradeOffAsked
from sfumato.learn.reconstruct import as_numbers, reconstruct_from
from sfumato.noise import OperatorNoise, Uniform, make_operator
from sfumato.reconstruction.density import Density
from sfumato.reconstruction.evidence import Method
from sfumato.reconstruction.picture import Point, trade_off_picture
from sfumato.reconstruction.reconstruct import Described, describe, make_method, reconstruct
from sfumato.release.release import Release, opened
from sfumato.table import open_table, write_table

MOST_ROWS = 20_000
_COARSE = 40
"""Cells on which noise is fitted to a privacy loss: half a hundredth of it is near enough."""
PROGRAMME, ITERATION = "parzen-program", "expectation-maximization"
NO_PUBLISHED_EM = (
    "EM is left out: the paper does not say where it stopped. Name its rounds to see it, as in --rounds 50."
)


@dataclass(frozen=True, repr=False)
class TradeOff:
    """Mean information loss and its standard deviation at each privacy loss, for each way; `mark` is the release.

    `published`: the programme as its paper has it; `left_out` says what then had no published form.
    """

    column: str
    lines: Mapping[str, Sequence[Point]]
    runs: int
    rows: int
    mark: tuple[float, float] | None = field(default=None)
    published: bool = False
    left_out: str = ""

    def __repr__(self) -> str:
        return f"<TradeOff of {self.column!r}: {len(self.lines)} ways, {self.runs} runs each>"

    def table(self) -> pa.Table:
        """One row for each way and privacy loss."""
        found = [(way, *point) for way, points in self.lines.items() for point in points]
        names = ("way", "privacy_loss", "information_loss", "standard_deviation")
        return pa.table({name: [one[place] for one in found] for place, name in enumerate(names)})

    def summary(self) -> dict[str, Any]:
        """Plain figures, for JSON."""
        keys = ("privacy_loss", "information_loss", "standard_deviation")
        lines = {way: [dict(zip(keys, point, strict=True)) for point in points] for way, points in self.lines.items()}
        mark = None if self.mark is None else dict(zip(keys[:2], self.mark, strict=True))
        told = {"column": self.column, "rows": self.rows, "runs": self.runs, "ways": lines, "release": mark}
        told |= {"as_published": True} if self.published else {}
        return told | ({"left_out": self.left_out} if self.left_out else {})

    def plot(self) -> str:
        """The trade-off as an SVG picture."""
        title = f"What privacy costs: {self.column}{', as published' if self.published else ''}"
        return trade_off_picture(title, self.lines, self.mark)

    def save(self, folder: Path) -> None:
        """Write trade-off.csv and trade-off.svg, for the owner alone: they are made from private values."""
        write_table(self.table(), folder / "trade-off.csv", private=True)
        write_whole(folder / "trade-off.svg", self.plot(), private=True)


def _measured(
    x: Floats, one: Described, programme: Method, options: TradeOffAsked, progress: Progress
) -> tuple[dict[str, list[Point]], str]:
    """The lines of a column's values, added and multiplied uniform noise, as in the paper, and the release's; and what
    has no published form."""
    if options.runs < 1 or not options.levels or not all(0 < level < 1 for level in options.levels):
        raise UsageError("A trade-off needs at least one run, and privacy losses between 0 and 1.")
    rng = np.random.default_rng(options.seed)
    if len(x) > MOST_ROWS:
        x = rng.choice(x, MOST_ROWS, replace=False)
    named = {} if options.rounds is None else {"rounds": options.rounds}
    em = None if options.published and not named else make_method(ITERATION, named, published=options.published)
    lines, ways = {}, _ways(one, programme, em)
    for number, (name, way) in enumerate(ways.items(), start=1):
        if points := _line(x, way, one, options, rng):
            lines[name] = points
        progress("Measuring trade-off", number, len(ways))
    return lines, "" if em else NO_PUBLISHED_EM


def _line(
    x: Floats, way: tuple[OperatorNoise, Method], one: Described, options: TradeOffAsked, rng: np.random.Generator
) -> list[Point]:
    """Information loss at every privacy loss that this noise reaches."""
    (noise, method), points = way, list[Point]()
    how: dict[str, Any] = {"support": (one.low, one.high), "bins": options.bins, "resamples": 0, "atoms": False}
    for level in options.levels:
        try:
            fitted = calibrate(noise, x, level, bins=_COARSE, points=10 * _COARSE)
        except UsageError:  # this noise cannot hide so much, or so little
            continue
        losses = []
        for _ in range(options.runs):
            found = reconstruct(fitted.sample(x, rng), fitted, method=method, **how)
            assert isinstance(found, Density)
            losses.append(information_loss(x, found))
        spread = float(np.std(losses, ddof=1)) if options.runs > 1 else 0.0
        points.append((float(level), float(np.mean(losses)), spread))
    return points


def _ways(one: Described, programme: Method, em: Method | None) -> dict[str, tuple[OperatorNoise, Method]]:
    own = one.noise
    assert isinstance(own, OperatorNoise)  # as the column was chosen
    added = OperatorNoise(make_operator("additive"), Uniform(scale=0.2 * (one.high - one.low)))
    ways = {"added, programme": (added, programme)} | ({"added, EM": (added, em)} if em else {})
    if not one.low <= 0.0 <= one.high:
        factor = OperatorNoise(make_operator("multiplicative", {"base": 0.0}), Uniform(low=1.0, high=3.0))
        ways["multiplied, programme"] = (factor, programme)
    if not (own.operator.is_additive and isinstance(own.law, Uniform)):
        ways["this noise, programme"] = (own, programme)
    return ways


@asks(TradeOffAsked)
def trade_off(release: Release | Path | str, column: str, original: Any, options: TradeOffAsked) -> TradeOff:
    """Information loss against privacy loss of one column [density-reconstruction, Fig. 3]; for the owner only.

    Parameters
    ----------
    release : Release or path
        What `sanitize` returned, or its folder.
    column : str
        A column of numbers.
    original : DataFrame, Arrow table or path
        The table that the release was made from. What is shown comes from its private values: keep it.
    {options}

    Returns
    -------
    TradeOff
        `table()`, `summary()` and `plot()` (SVG); `mark` is where the release itself stands.
    """
    return trade_off_of(release, column, original, options)


def trade_off_of(
    release: Release | Path | str, column: str, original: Any, options: TradeOffAsked, progress: Progress = silent
) -> TradeOff:
    """The same, saying how far it is."""
    (opened_release,) = opened(release, public=True)
    one = describe(opened_release.card, column)
    if not isinstance(one.noise, OperatorNoise):
        raise UsageError(f"Column {column!r} has no noise on numbers, so it has no such trade-off. Name a number.")
    values = as_numbers(open_table(original, columns=[column]).read().column(0), one)
    programme = make_method(PROGRAMME, published=options.published)
    found = reconstruct_from([opened_release], column, programme, bins=options.bins, resamples=0, atoms=False)
    assert isinstance(found, Density)
    shown = values[np.isfinite(values)]
    told = privacy_loss(one.noise, shown)
    mark = (told, information_loss(values, found)) if math.isfinite(told) else None  # where the one can be computed
    x = np.clip(shown, one.low, one.high)
    if len(x) < 10 or x.min() == x.max():
        raise TableError(f"Column {column!r} has too few different values to show a trade-off.")
    lines, left_out = _measured(x, one, programme, options, progress)
    return TradeOff(column, lines, options.runs, min(len(x), MOST_ROWS), mark, options.published, left_out)
