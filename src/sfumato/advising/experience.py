"""What public tables kept under each method: how useful a release will be, told before any row is read.

The file beside this one is made by `papers/advice/run.py` from public tables alone: each released at several sizes
and epsilons, learned from by `auto`, and tested on other rows as they are. Beside that stands how far the shares of
one column, and of two together, are off: total variation, of which every point is a row of 100 in a wrong place. A
forecast for a table is what public tables of about its size kept; it never looks at the table itself, so that it
proves nothing about it and costs nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from scipy.special import stdtrit

from sfumato.core.wording import right_of_100

LEARNER, TESTED_ON = "auto", "rows left out of them"
NOTHING_LEARNED = 0.02
"""A table that stays within this of its own commonest class taught nothing."""
ALIKE = 3.0
"""Tables are like one that has at most so many times as many rows, or at least one so-manieth."""
FEWEST = 6
"""Of fewer tables nothing is said: those of the next sizes join."""
SIZES = (60, 120, 250, 500, 1_000, 2_500, 6_000, 15_000, 40_000)
MOST_CATEGORIES = 10
"""Of any column of the public tables (credit_g's purpose of a loan, pendigits' digits)."""
STRENGTHS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True)
class Seen:
    """One public table of one size. `right`, `one_column` and `two_columns`: by method, then by epsilon."""

    table: str
    rows: int
    columns: int
    numbers: int
    classes: int
    commonest: float
    originals: float
    right: Mapping[str, Mapping[str, float]]
    one_column: Mapping[str, Mapping[str, float]]
    two_columns: Mapping[str, Mapping[str, float]]

    def at(self, method: str, epsilon: float, figure: str = "right") -> float | None:
        """A figure between the epsilons that were tried, on their logarithm; None below them, and where none was."""
        known = getattr(self, figure).get(method)
        if not known:
            return None
        tried = sorted(map(float, known))
        if epsilon < tried[0] * (1 - 1e-9):
            return None
        values = [known[f"{one:g}"] for one in tried]
        return float(np.interp(math.log(epsilon), np.log(tried), values))


@dataclass(frozen=True)
class Forecast:
    """Of so many public tables like one: mean accuracy, where 9 in 10 tables are, and what is beside it."""

    accuracy: float
    interval: tuple[float, float]
    majority: float
    originals: float
    lost: tuple[float, float]
    """The least and the most that a table lost against its originals."""
    tables: int
    taught_nothing: int
    rows: tuple[int, int]
    one_column: float | None = None
    two_columns: float | None = None
    one_column_interval: tuple[float, float] | None = None
    two_columns_interval: tuple[float, float] | None = None

    @property
    def lost_on_average(self) -> float:
        return self.originals - self.accuracy

    @property
    def useless(self) -> bool:
        """Whether more than half of them taught nothing."""
        return 2 * self.taught_nothing > self.tables

    def words(self) -> str:
        """One sentence, with figures that were not measured on the table asked about."""
        return (
            f"On {self.tables} public tables of {self._sizes()} rows: "
            f"{right_of_100(self.accuracy, LEARNER, TESTED_ON, self.majority, self.originals)}; it lost between "
            f"{100 * self.lost[0]:.0f} and {100 * self.lost[1]:.0f} points."
        )

    def words_of_shares(self) -> str:
        """The same where there is no column to predict."""
        if self.one_column is None or self.two_columns is None:
            return "How far shares of columns are off was not tried on public tables at such an epsilon."
        one = _points(self.one_column, self.one_column_interval)
        two = _points(self.two_columns, self.two_columns_interval)
        return (
            f"On {self.tables} public tables of {self._sizes()} rows: shares of one column were off by {one}, of two "
            f"columns by {two}; so many rows of 100 are counted in a wrong place."
        )

    def _sizes(self) -> str:
        low, high = self.rows
        return f"{low:,}" if low == high else f"{low:,} to {high:,}"

    def to_dict(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}


@lru_cache(maxsize=1)
def everything() -> tuple[Seen, ...]:
    """All that was seen."""
    found = json.loads(files(__package__).joinpath("experience.json").read_text(encoding="utf-8"))
    return tuple(Seen(**entry) for entry in found["seen"])


def alike(rows: int, without: str | None = None) -> list[Seen]:
    """Of every public table the size nearest to this one, where that is near; the largest stand for what is larger."""
    nearest: dict[str, Seen] = {}
    rows = min(max(rows, SIZES[0]), SIZES[-1])

    def apart(one: Seen) -> float:
        return abs(math.log(one.rows / rows))

    for one in everything():
        if one.table != without and (one.table not in nearest or apart(one) < apart(nearest[one.table])):
            nearest[one.table] = one
    ordered = sorted(nearest.values(), key=apart)
    return [one for place, one in enumerate(ordered) if place < FEWEST or apart(one) <= math.log(ALIKE)]


def forecast(method: str, epsilon: float, rows: int, without: str | None = None) -> Forecast:
    """What tables of about so many rows kept; below the least epsilon that was tried, nothing."""
    tables = alike(rows, without)
    known = ((one.at(method, epsilon), one.commonest) for one in tables)
    right = np.array([usual if value is None else value for value, usual in known])
    majority = np.array([one.commonest for one in tables])
    originals = np.array([one.originals for one in tables])
    lost = originals - right
    shares: dict[str, Any] = {}
    for figure in ("one_column", "two_columns"):
        off = [value for one in tables if (value := one.at(method, epsilon, figure)) is not None]
        if len(off) == len(tables):
            shares |= {figure: float(np.mean(off)), f"{figure}_interval": _one_more(off)}
    return Forecast(
        float(right.mean()),
        _one_more(right),
        float(majority.mean()),
        float(originals.mean()),
        (float(lost.min()), float(lost.max())),
        len(tables),
        int((right <= majority + NOTHING_LEARNED).sum()),
        (min(one.rows for one in tables), max(one.rows for one in tables)),
        **shares,
    )


def _one_more(values: Any) -> tuple[float, float]:
    """Where one more table lies, nine times in ten (a prediction interval by Student's t)."""
    middle, count, half = float(np.mean(values)), len(values), 0.0
    if count > 1:
        half = float(stdtrit(count - 1, 0.95) * np.std(values, ddof=1)) * math.sqrt(1 + 1 / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def _points(value: float, ends: tuple[float, float] | None) -> str:
    low, high = ends or (value, value)
    return f"{100 * value:.0f} points ({100 * low:.0f} to {100 * high:.0f})"
