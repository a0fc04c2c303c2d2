"""Which release row is whose, where somebody says so: an id that both tables carry, or a file of row numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.array_types import Codes
from sfumato.errors import TableError
from sfumato.table import Table, open_table
from sfumato.table.arrays import numbers, plain, text

LEAST_PAIRED = 2


def paired_by_id(original: Table, released: pa.Table, name: str, notes: list[str]) -> Codes:
    """The original row of every release row (-1: none), by a column that both tables have."""
    for where, names in (("The original", original.names), ("The release", released.column_names)):
        if name not in names:
            raise TableError(f"{where} has no column {name!r}, which --match names. Both tables must carry it.")
    theirs = pa.concat_arrays([text(plain(batch.column(name)), name) for batch in original.blocks()])
    if theirs.null_count or len(pc.unique(theirs)) < len(theirs):
        raise TableError(f"Column {name!r} of the original is empty or the same in several rows, so it says not whose.")
    found = pc.index_in(text(plain(released[name]), name), value_set=theirs).fill_null(-1)
    return _paired(np.asarray(found, dtype=np.int64), f"by the column {name!r}, which both tables carry", notes)


def paired_by_file(path: Path | str, release_rows: int, original: Table, notes: list[str]) -> Codes:
    """The same from a table with the columns `release` and `original`: row numbers, counted from 1.

    Without the column `release`, its rows are those of the release, in order.
    """
    table = open_table(path).read()
    if "original" not in table.column_names:
        raise TableError(f"{path} needs a column `original` (row numbers, from 1), and `release` unless rows are all.")
    theirs = _row_numbers(table, "original", path)
    if "release" in table.column_names:
        mine = _row_numbers(table, "release", path)
    elif len(theirs) == release_rows:
        mine = np.arange(release_rows)
    else:
        raise TableError(
            f"{path} has {len(theirs)} rows, but the release has {release_rows}. Give the column `release` too."
        )
    rows = sum(batch.num_rows for batch in original.blocks()) if original.rows is None else original.rows
    for what, found, count in (("release", mine, release_rows), ("original", theirs, rows)):
        if len(found) and (found.min() < 0 or found.max() >= count):
            raise TableError(f"{path}: a number in the column `{what}` is no row of it; its rows are 1 to {count:,}.")
    if len(np.unique(mine)) < len(mine):
        raise TableError(f"{path} names a row of the release twice.")
    source = np.full(release_rows, -1, dtype=np.int64)
    source[mine] = theirs
    return _paired(source, "by a file of row numbers", notes)


def _row_numbers(table: pa.Table, name: str, path: Path | str) -> Codes:
    values, empty = numbers(plain(table[name]), name)
    if empty is not None or (values % 1).any():
        raise TableError(f"{path}: the column `{name}` must hold whole numbers, and no empty cell.")
    return values.astype(np.int64) - 1


def _paired(source: Codes, how: str, notes: list[str]) -> Codes:
    share = float(np.mean(source >= 0)) if len(source) else 0.0
    if np.count_nonzero(source >= 0) < LEAST_PAIRED:
        raise TableError("Fewer than two rows of the release are paired with a row of the original: nothing to audit.")
    notes.append(f"Whose row is whose was told {how}; that is so for {share:.0%} of the release.")
    return source
