"""Shares of categories behind randomized response, by the inverse of the response matrix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from sfumato.core.array_types import Floats
from sfumato.core.errors import TableError, UsageError
from sfumato.core.wording import counted
from sfumato.reconstruction.picture import WIDE, Band, Size, bars_picture


@dataclass(frozen=True, repr=False)
class Shares:
    """Estimated shares of the categories; `low` and `high` are their pointwise bootstrap band, if there is one."""

    name: str
    categories: tuple[str, ...]
    mass: Floats
    low: Floats | None
    high: Floats | None
    confidence: float
    rows: int

    def __repr__(self) -> str:
        return f"<Shares of {self.name!r}: {len(self.mass)} categories from {self.rows:,} rows>"

    @property
    def band(self) -> Band | None:
        return None if self.low is None or self.high is None else Band(self.low, self.high, self.confidence)

    def table(self) -> pa.Table:
        columns: dict[str, Any] = {"category": list(self.categories), "probability": self.mass}
        if self.band is not None:
            columns |= {"probability_low": self.low, "probability_high": self.high}
        return pa.table(columns)

    def summary(self) -> dict[str, Any]:
        return {
            "column": self.name,
            "rows": self.rows,
            "shares": dict(zip(self.categories, map(float, self.mass), strict=True)),
            "confidence": None if self.band is None else self.confidence,
            "method": "response-inverse",
        }

    def shares_of(self, values: Sequence[Any]) -> Floats:
        """Shares of given categories."""
        return counts_of(values, self.categories) / max(1, len(values))

    def plot(self, size: Size = WIDE) -> str:
        """The shares with their band, as an SVG picture."""
        return bars_picture(f"Shares of {self.name}", self.categories, self.mass, self.band, size)


def counts_of(values: Iterable[Any], categories: Sequence[str], *, left_out: bool = False) -> Floats:
    """How often each category occurs; empty cells are the last category where there is one for them.

    Where cells can be `left_out`, empty ones do not count.

    `values` are categories, or an iterator over blocks of them, which is read once in constant memory.
    """
    if isinstance(values, Iterator):
        blocks = (counts_of(block, categories, left_out=left_out) for block in values)
        return np.asarray(sum(blocks, np.zeros(len(categories))))
    place = {category: number for number, category in enumerate(categories)}
    counts = np.zeros(len(categories))
    for value, count in Counter(values).items():
        if value is None and left_out:
            continue
        code = place.get("(missing)" if value is None else str(value))
        if code is None and value is None:
            raise TableError(
                f"The column has {counted(count, 'empty cell')}, and its card does not say that cells can be "
                "missing there: the release was changed or damaged. Get it again from whoever made it."
            )
        if code is None:
            raise TableError("The column contains categories that the card does not name. Card and release disagree.")
        counts[code] += count
    return counts


def invert_response(counts: Sequence[ArrayLike], keeps: Sequence[float]) -> Floats:
    """Shares s with R s = observed, R_ij = keep if i = j else (1 - keep) / (k - 1); then the nearest possible ones.

    R = a I + b 1 1' with b = (1 - keep) / (k - 1), a = keep - b; on shares that sum to 1, s = (observed - b) / a.
    Parts with different `keeps` weigh by n a^2, about the precision of their inverses. Shares below 0 are chance; the
    Euclidean projection on the simplex takes them out.
    """
    parts = [np.asarray(one, dtype=np.float64) for one in counts]
    k = len(parts[0])
    if k < 2:
        return np.ones(k)
    total, weight = np.zeros(k), 0.0
    for observed, keep in zip(parts, keeps, strict=True):
        other = (1.0 - keep) / (k - 1)
        if not 0 < keep <= 1 or abs(keep - other) < 1e-12:
            raise UsageError(
                f"Answers kept with probability {keep:g} among {k} categories say nothing about the truth."
            )
        total += (keep - other) * (observed - other * observed.sum())
        weight += (keep - other) ** 2 * observed.sum()
    return onto_simplex(total / weight)


def onto_simplex(points: ArrayLike) -> Floats:
    """The nearest point of the probability simplex, for every line: what lies above the threshold that leaves 1."""
    v = np.asarray(points, dtype=np.float64)
    descending = -np.sort(-v, axis=-1)
    excess = (np.cumsum(descending, axis=-1) - 1.0) / np.arange(1, v.shape[-1] + 1)
    last = np.count_nonzero(descending > excess, axis=-1, keepdims=True) - 1
    nearest = np.maximum(v - np.take_along_axis(excess, last, axis=-1), 0.0)
    return np.asarray(nearest / nearest.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class Resampling:
    """How a band is drawn: its confidence, how many draws it is made of (0: no band), and their seed."""

    confidence: float = 0.9
    draws: int = 100
    seed: int = 0


def reconstruct_shares(
    name: str, counts: Sequence[Floats], categories: Sequence[str], keeps: Sequence[float], band: Resampling
) -> Shares:
    """Shares with their band from counts of randomized answers, one estimate for all parts."""
    rows = [int(one.sum()) for one in counts]
    mass = invert_response(counts, keeps)
    if band.draws == 0:
        return Shares(name, tuple(categories), mass, None, None, band.confidence, sum(rows))
    rng = np.random.default_rng(band.seed)
    draws = [rng.multinomial(n, one / max(1, n), band.draws) for n, one in zip(rows, counts, strict=True)]
    again = np.array([invert_response(draw, keeps) for draw in zip(*draws, strict=True)])
    tail = (1.0 - band.confidence) / 2.0
    low, high = np.quantile(again, [tail, 1.0 - tail], axis=0)
    return Shares(name, tuple(categories), mass, low, high, band.confidence, sum(rows))
