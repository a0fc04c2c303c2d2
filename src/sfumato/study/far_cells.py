"""Cells that no release has: empty where none may be, not finite, or further out than their noise can carry them.

One of them is enough to ruin a model, whatever the other rows say. The same check is made at the site, before anything
leaves it, and at the coordinator, which tells row and column to the site that sent them, and never the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.channels import Recipe, Staged
from sfumato.channels.recipe import FALSE_ALARMS, Reach
from sfumato.core.array_types import Matrix
from sfumato.core.errors import SfumatoError, TableError
from sfumato.guarantee import Card
from sfumato.mechanisms.stage_guide import OutcomeCounts, ReleasedRows
from sfumato.mechanisms.staged_release import guides_fit
from sfumato.release.release import matrix_of

BLOCK = 1 << 16
MOST_NAMED = 5
OWN_OPERATOR = (
    "The release was made with its owner's own operator. Nobody else can tell what it does to a value, and one "
    "forged cell could ruin a model. Use an operator that has a name."
)


WRONG_GUIDES = (
    "The stages of the release were guided by something else than its own released rows, and nobody knows what that "
    "tells of others. Push the release that `sfumato sanitize` wrote."
)


@dataclass(frozen=True)
class CellCheck:
    """What the cells of one release are held against.

    `may_be_empty` are columns whose schema expects empty cells, or that not every row reports.
    """

    recipe: Recipe
    reach: Reach
    may_be_empty: frozenset[str]

    @classmethod
    def of(cls, card: Card) -> CellCheck:
        recipe = card.made_by()
        groups, reach = recipe.encoding.groups if recipe.is_columnwise else (), Reach.of(recipe, card.rows)
        if np.isinf(reach.low).any():
            raise TableError(OWN_OPERATOR)
        missing = frozenset(group.column.name for group in groups if group.column.missing)
        return cls(recipe, reach, missing | recipe.left_out)

    def check_written(self, table: pa.Table, first_row: int) -> None:
        """Numbers are finite, and only a column whose schema has "missing" has empty cells."""
        for name in table.column_names:
            cells = table[name]
            if name not in self.may_be_empty and cells.null_count:
                where = _first(pc.is_null(cells), first_row, name)
                raise TableError(f"The release has an empty cell, which its schema does not allow: {where}.")
            if pa.types.is_floating(cells.type):
                finite = pc.fill_null(pc.is_finite(cells), True)
                if not pc.all(finite).as_py():
                    where = _first(pc.invert(finite), first_row, name)
                    raise TableError(f"The release has a cell that is not a finite number: {where}. It was changed.")

    def check_matrix(self, matrix: Matrix, first_row: int) -> None:
        """Every reported cell lies where the stated noise could have carried some value of the domain, and rows report
        as many as they should."""
        if far := self.reach.outside(matrix):
            raise TableError(far_in_words([(first_row + row, name) for row, name in far]))
        self.recipe.check_reports(matrix)


def far_in_words(cells: Sequence[tuple[int, str]]) -> str:
    """Which cells, numbered from 1 as people count, and what to do; never what they hold."""
    named = "; ".join(_place(row, name) for row, name in cells[:MOST_NAMED])
    more = f" and {len(cells) - MOST_NAMED} more" if len(cells) > MOST_NAMED else ""
    return (
        f"The release has cells that the noise on its card cannot have produced from any value: {named}{more}. "
        f"In an honest release that happens with a probability of {FALSE_ALARMS:g}, and one such cell can ruin a "
        "model. Push the release that `sfumato sanitize` wrote."
    )


def far_cells(path: Path, card: Card) -> str | None:
    """What is wrong with the cells of a release file, or None; rows are read block by block."""
    try:
        check, rows, recipe = CellCheck.of(card), 0, card.made_by()
        guides: OutcomeCounts | None = None
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=BLOCK):
                table = pa.Table.from_batches([batch])
                check.check_written(table, rows)
                matrix = matrix_of(table, card, rows)[0]
                check.check_matrix(matrix, rows)
                if isinstance(recipe.map, Staged):
                    found = OutcomeCounts.of(recipe.map, recipe.channels, ReleasedRows(matrix))
                    guides = found if guides is None else guides + found
                rows += table.num_rows
        if guides is not None and not guides_fit(recipe, guides):
            return WRONG_GUIDES
    except SfumatoError as error:
        return str(error)
    except (pa.ArrowException, OSError):
        return f"{path} cannot be read as Parquet: it is damaged. Release again."
    return None


def _first(wrong: pa.ChunkedArray, first_row: int, name: str) -> str:
    return _place(first_row + int(np.argmax(wrong.to_numpy())), name)


def _place(row: int, name: str) -> str:
    return f"row {row + 1}, column {name[:60]!r}"
