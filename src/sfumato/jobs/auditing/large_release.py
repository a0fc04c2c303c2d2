"""Releases of millions of rows: read as a sample of rows, in one pass, so that memory does not grow with the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.array_types import Codes, Matrix
from sfumato.jobs.auditing.alignment import same_order
from sfumato.jobs.auditing.evidence import People, read_people, sampled
from sfumato.table import Encoding, Table

LARGE = 1_000_000
"""Rows above which a release is not held in memory."""
HEAD = 20_000
"""Rows at the start of both tables that are compared to find out whether these are in the same order."""
SAMPLE = (
    "The release has {rows:,} rows: a random sample of {count:,} was read, and intervals are those of the sample. "
    "Crowds were counted over all rows."
)
TOO_LARGE = (
    "No private match file, and the rows are in another order. The table is too large to be matched: it is unknown "
    "which row is whose. Name an id that both tables carry with --match."
)


@dataclass(frozen=True)
class Reading:
    """Rows of a release that were read, their places in it, and which of them are the sample (the others: its head)."""

    table: pa.Table
    places: Codes
    chosen: Codes
    rows: int


class RenamedTable(Table):
    """A table under other names."""

    def __init__(self, table: Table, names: Mapping[str, str]) -> None:
        super().__init__(table.where)
        self._table = table
        self._names = [names.get(name, name) for name in table.names]

    @property
    def arrow_schema(self) -> pa.Schema:
        found = self._table.arrow_schema
        return pa.schema([field.with_name(name) for field, name in zip(found, self._names, strict=True)])

    @property
    def rows(self) -> int | None:
        return self._table.rows

    def _batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        for batch in self._table.blocks(rows):
            yield batch.rename_columns(self._names)


def row_count(table: Table) -> int:
    """Rows of a table, counted where nobody says."""
    return sum(batch.num_rows for batch in table.blocks()) if table.rows is None else table.rows


def read_sample(release: Table, rows: int, most: int, rng: np.random.Generator) -> Reading:
    """A random sample of the rows, and the first rows, in the order of the table."""
    wanted = sampled(rows, most, rng)
    places = np.union1d(wanted, np.arange(min(HEAD, rows)))
    parts, first = [], 0
    for batch in release.blocks():
        here = places[np.searchsorted(places, first) : np.searchsorted(places, first + batch.num_rows)]
        if len(here):
            parts.append(batch.take(pa.array(here - first)))
        first += batch.num_rows
    return Reading(pa.Table.from_batches(parts), places, np.flatnonzero(np.isin(places, wanted)), rows)


def in_same_order(reading: Reading, Z: Matrix, original: Table, encoding: Encoding, rows: int) -> bool:
    """Whether row i of the release came from row i of the original, by the first rows of both."""
    if rows != reading.rows:
        return False
    head = np.flatnonzero(reading.places < HEAD)
    return same_order(read_people(original, encoding, reading.places[head]).X, Z[head])


def some_people(original: Table, encoding: Encoding, rows: int, most: int, rng: np.random.Generator) -> People:
    """A random sample of the people, with their numbers in the table."""
    return read_people(original, encoding, sampled(rows, most, rng))
