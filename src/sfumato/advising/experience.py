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
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import stdtrit

from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import SfumatoError, TableError
from sfumato.core.wording import right_of_100
from sfumato.learn.classifiers.auto import AS_THEY_ARE
from sfumato.learn.classifiers.factory import CLASSIFIERS, make_classifier
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.training import fit_on_parts
from sfumato.release.config import TABLE
from sfumato.table import Encoding, Schema

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
        one, two = (
            _points(self.one_column, self.one_column_interval),
            _points(self.two_columns, self.two_columns_interval),
        )
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
    right = np.array([_or(one.at(method, epsilon), one.commonest) for one in tables])
    majority = np.array([one.commonest for one in tables])
    originals = np.array([one.originals for one in tables])
    lost = originals - right
    shares: dict[str, Any] = {}
    for figure in ("one_column", "two_columns"):
        known = [value for one in tables if (value := one.at(method, epsilon, figure)) is not None]
        if len(known) == len(tables):
            shares |= {figure: float(np.mean(known)), f"{figure}_interval": _one_more(known)}
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


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


# Rows to try settings on: those that are released in a trial, those that test it, and what plain rows would give.


QUICK = tuple(name for name in AS_THEY_ARE if name != "boosting")
"""Enough to compare settings with; the forecast is measured against all of them."""
TEST_SHARE = 0.3
MOST_TRAINED = 4_000
"""Rows that the learners of the ceiling get: more would take long, and change little."""
FEWEST_ROWS = 40
MOST_ROWS = 20_000
"""Of a larger table a sample is looked at."""
FOLDS = 2
LARGE, WIDE = 1_000, 100
"""From this many rows or columns on one split is enough."""


@dataclass(frozen=True)
class Ground:
    """train: the rows that a trial releases. test: others, who are the control of attacks and the queries of learners.

    majority: how often the commonest class is right about them. ceiling: what the best usual learner reaches that was
    trained on the rows as they are. numbers: of the rows of `train` in the private table, where they are wanted.
    """

    schema: Schema
    train: pa.Table
    test: pa.Table
    majority: float
    ceiling: float
    numbers: Codes | None = None

    @classmethod
    def of(cls, schema: Schema, train: pa.Table, test: pa.Table, learners: Sequence[str] = AS_THEY_ARE) -> Ground:
        """Measure majority and ceiling, the latter by these learners."""
        encoding = Encoding(schema)
        y, truth = encoding.encode_label(train), encoding.encode_label(test)
        assert y is not None
        assert truth is not None
        if len(np.unique(y)) < 2:
            raise TableError(
                "All rows are of the same class: there is nothing to learn. At least two classes are needed."
            )
        majority = float(np.mean(truth == np.bincount(y).argmax()))
        reached = _reached(encoding.encode(train).X, y, encoding.encode(test).X, truth, learners)
        return cls(schema, train, test, majority, max([majority, *reached]))


def _reached(X: Matrix, y: Codes, queries: Matrix, truth: Codes, learners: Sequence[str]) -> list[float]:
    rows = np.random.default_rng(0).permutation(len(y))[:MOST_TRAINED]
    part = Part(X[rows], y[rows])
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in learners:
            if name not in CLASSIFIERS:
                continue
            try:
                fitted = fit_on_parts(make_classifier(name), [part])
                found.append(float(np.mean(np.asarray(fitted.predict(queries)) == truth)))
            except (SfumatoError, ValueError):  # rows that it cannot learn from: others can
                continue
    return found


def trial_schema(schema: Schema) -> Schema:
    """The columns that are released, without identifiers: who a row belongs to matters for the split alone."""
    return Schema(tuple(column for column in schema.columns if column.role in ("private", "label")))


def split(people: Sequence[object] | None, rows: int, shares: Sequence[float], rng: np.random.Generator) -> list[Codes]:
    """Row numbers in parts of about these shares; rows of one person stay together."""
    if people is None:
        unit = np.arange(rows)
    else:
        unit = np.unique(np.array([str(one) for one in people]), return_inverse=True)[1]
    order = rng.permutation(int(unit.max()) + 1 if rows else 0)
    place = np.empty(len(order))
    place[order] = (np.arange(len(order)) + 0.5) / max(1, len(order))
    ends = np.concatenate([[0.0], np.cumsum(shares)])
    ends[-1] = 1.0
    where = place[unit]
    return [np.flatnonzero((low <= where) & (where < high)) for low, high in pairwise(ends)]


def sampled(rows: pa.Table, most: int, rng: np.random.Generator) -> Codes:
    """Numbers of the rows to look at: all of them, or so many; too few are refused."""
    if rows.num_rows < FEWEST_ROWS:
        raise TableError(
            f"Trials need at least {FEWEST} rows: no accuracy that is measured on fewer means anything. This table has "
            f"{rows.num_rows}."
        )
    if rows.num_rows <= most:
        return np.arange(rows.num_rows)
    return np.sort(rng.choice(rows.num_rows, most, replace=False))


def people_of(rows: pa.Table, schema: Schema) -> Sequence[object] | None:
    """Whose row each is, where the schema says so."""
    return None if schema.person is None else rows[schema.person.name].to_pylist()


@dataclass(frozen=True)
class Grounds:
    """choosing: where settings are compared. confirming: where the chosen one is measured, with the rows that learners
    get besides. `looked_at`: the private table, or released rows. rows: how many the real release has.
    model: what released rows were drawn from, where the owner's ledger charged them and their proof.
    """

    looked_at: str
    choosing: tuple[Ground, ...]
    confirming: tuple[Ground, ...]
    besides: pa.Table | None
    rows: int
    model: str | None = None

    @property
    def private(self) -> bool:
        """Whether a choice here tells something of private rows that no ledger has counted."""
        return self.model is None

    @property
    def cells(self) -> int:
        """Of the table that one trial releases."""
        train = self.choosing[0].train
        return int(train.num_rows * train.num_columns)


def of_table(rows: pa.Table, schema: Schema, seed: int, looked_at: str = TABLE) -> Grounds:
    """Half of the people to choose on, the others to confirm on; of the private table, or of released rows."""
    rng, shown, whole = np.random.default_rng(seed), trial_schema(schema), rows.num_rows
    rows = rows.take(sampled(rows, MOST_ROWS, rng))

    def parts_of(some: pa.Table, *shares: float) -> list[Codes]:
        return split(people_of(some, schema), some.num_rows, shares, rng)

    def ground(some: pa.Table, parts: Sequence[Codes], learners: Sequence[str] = AS_THEY_ARE) -> Ground:
        train, test = (some.take(part).select(shown.names) for part in parts)
        return Ground.of(shown, train, test, learners)

    first, second = (rows.take(part) for part in parts_of(rows, 0.5, 0.5))
    once = second.num_rows >= LARGE or len(shown.columns) >= WIDE
    again = range(1 if once else 2)
    choosing = [ground(first, parts_of(first, 1.0 - TEST_SHARE, TEST_SHARE), QUICK) for _ in again]
    folds = parts_of(second, TEST_SHARE, 1.0 - TEST_SHARE)[:1] if once else parts_of(second, *(1.0 / FOLDS,) * FOLDS)
    confirming = [ground(second, (np.setdiff1d(np.arange(second.num_rows), fold), fold)) for fold in folds]
    return Grounds(looked_at, tuple(choosing), tuple(confirming), first.select(shown.names), whole)
