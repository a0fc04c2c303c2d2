"""Rows to try settings on: those that are released in a trial, those that test it, and what plain rows would give.

A choice is made on one half of the table, or of released rows, and confirmed on the other.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import SfumatoError, TableError
from sfumato.learn.classifiers.auto import AS_THEY_ARE
from sfumato.learn.classifiers.factory import CLASSIFIERS, make_classifier
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.training import fit_on_parts
from sfumato.release.strength import TABLE
from sfumato.table import Encoding, Schema

QUICK = tuple(name for name in AS_THEY_ARE if name != "boosting")
"""Enough to compare settings with; the forecast is measured against all of them."""
TEST_SHARE = 0.3
MOST_TRAINED = 4_000
"""Rows that the learners of the ceiling get: more would take long, and change little."""
FEWEST = 40
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
        for name in (one for one in learners if one in CLASSIFIERS):
            with contextlib.suppress(SfumatoError, ValueError):  # rows that it cannot learn from: others can
                fitted = fit_on_parts(make_classifier(name), [part])
                found.append(float(np.mean(np.asarray(fitted.predict(queries)) == truth)))
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
    if rows.num_rows < FEWEST:
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
    model: what released rows were drawn from, where the owner's ledger charged them and their proof; without it a
    choice here tells something of private rows that no ledger has counted.
    """

    looked_at: str
    choosing: tuple[Ground, ...]
    confirming: tuple[Ground, ...]
    besides: pa.Table | None
    rows: int
    model: str | None = None


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
