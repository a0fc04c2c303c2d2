"""A number to predict that is released as it is: it follows its row through noise, draws and shuffling."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from sfumato.array_types import Floats
from sfumato.errors import CardError, TableError
from sfumato.guarantee import Card
from sfumato.jobs.write_release import Laid
from sfumato.table import Column, Table
from sfumato.table.arrays import checked, numbers
from sfumato.wording import counted

BLOCK = 1 << 16


def with_target(laid: Iterator[Laid], table: Table, target: Column | None) -> Iterator[Laid]:
    """Released rows with their number beside them, last. One column of the table is held in memory for it."""
    if target is None:
        yield from laid
        return
    values = target_values(table, target.name)
    for rows, source in laid:
        assert source is not None  # rows that belong to nobody were refused
        yield rows.append_column(target.name, _as_it_was(values[source], target)), source


def _as_it_was(values: Floats, target: Column) -> pa.Array:
    return pa.array(np.rint(values).astype(np.int64) if target.kind == "integer" else values)


def target_values(table: Table, name: str) -> Floats:
    """All of them; an empty cell cannot be predicted from."""
    found, first, empty, where = [], 0, 0, 0
    for batch in table.blocks(BLOCK):
        cells, missing = checked(numbers(batch.column(name), name, first), name, first)
        if missing is not None and missing.any():
            where = where or first + int(missing.argmax()) + 1
            empty += int(missing.sum())
        found.append(cells)
        first += batch.num_rows
    if empty:
        raise TableError(
            f"The target {name!r} is missing in {counted(empty, 'row')}, first in row {where}. Remove rows without it "
            "first."
        )
    return np.concatenate(found)


def released_target(rows: pa.Table, card: Card) -> Floats:
    """The number to predict of released rows."""
    name = card.target
    if name is None:
        raise CardError("The release has no number to predict (sanitize --target).")
    if name not in rows.column_names:
        raise TableError(f"The release lacks the column {name!r} that its card names.")
    found, empty = checked(numbers(rows[name], name), name)
    if empty is not None and empty.any():
        raise TableError(f"Column {name!r} of the release has empty cells: it was changed or damaged.")
    return found


def alone(values: Floats) -> int:
    """Rows whose value no other row has: whoever knows it has found the row."""
    return int((np.unique(values, return_counts=True)[1] == 1).sum())
