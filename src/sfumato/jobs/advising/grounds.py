"""The rows that a choice is made on, and others that it is confirmed on: of the private table, or released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.array_types import Codes
from sfumato.classifiers.auto import AS_THEY_ARE
from sfumato.errors import TableError
from sfumato.jobs.advising.ground import QUICK, TEST_SHARE, Ground, split, trial_schema
from sfumato.jobs.config import RELEASED, TABLE
from sfumato.table import Schema

FEWEST = 40
MOST_ROWS = 20_000
"""Of a larger table a sample is looked at."""
FOLDS = 2
LARGE, WIDE = 1_000, 100
"""From this many rows or columns on one split is enough, or all that there is time for."""


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
        """Whether a choice here tells something of private rows that nobody has accounted for."""
        return self.looked_at == TABLE or (self.looked_at == RELEASED and self.model is None)

    @property
    def cells(self) -> int:
        """Of the table that one trial releases."""
        train = self.choosing[0].train
        return int(train.num_rows * train.num_columns)


def of_table(rows: pa.Table, schema: Schema, seed: int, looked_at: str = TABLE) -> Grounds:
    """Half of the people to choose on, the others to confirm on; of the private table, or of released rows."""
    if rows.num_rows < FEWEST:
        raise TableError(
            f"A choice needs at least {FEWEST} rows, to choose on one part and confirm on another. This table has "
            f"{rows.num_rows}: no accuracy that is measured on so few means anything."
        )
    rng, shown = np.random.default_rng(seed), trial_schema(schema)
    whole = rows.num_rows
    if whole > MOST_ROWS:
        rows = rows.take(np.sort(rng.choice(whole, MOST_ROWS, replace=False)))
    person = None if schema.person is None else schema.person.name
    first, second = (rows.take(part) for part in split(_people(rows, person), rows.num_rows, (0.5, 0.5), rng))
    once = second.num_rows >= LARGE or len(shown.columns) >= WIDE
    repeats = 1 if once else 2
    choosing = []
    for _ in range(repeats):
        parts = split(_people(first, person), first.num_rows, (1.0 - TEST_SHARE, TEST_SHARE), rng)
        choosing.append(_ground(shown, first, parts, QUICK))
    shares = (TEST_SHARE, 1.0 - TEST_SHARE) if once else (1.0 / FOLDS,) * FOLDS
    folds = split(_people(second, person), second.num_rows, shares, rng)
    tested = folds[:1] if once else folds
    confirming = []
    for fold in tested:
        others = np.setdiff1d(np.arange(second.num_rows), fold)
        confirming.append(_ground(shown, second, (others, fold)))
    return Grounds(looked_at, tuple(choosing), tuple(confirming), first.select(shown.names), whole)


def _people(rows: pa.Table, person: str | None) -> Sequence[object] | None:
    return None if person is None else rows[person].to_pylist()


def _ground(schema: Schema, rows: pa.Table, parts: Sequence[Codes], learners: Sequence[str] = AS_THEY_ARE) -> Ground:
    train, test = (rows.take(part).select(schema.names) for part in parts)
    return Ground.of(schema, train, test, learners)
