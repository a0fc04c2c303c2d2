"""Whether a release is what its card says: checks that need nothing but the release.

A site makes them before anything leaves it, the coordinator makes them with every push, and `verify` makes them for
anybody. First what the file holds besides rows, then the rows, block by block: every cell is a finite number or a known
category that the stated noise could have made of some value, and all of them together vary as that noise makes them.
Cells are told by row and column, never by what they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.channels import Recipe, Staged
from sfumato.channels.recipe import FALSE_ALARMS, Reach
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import CardError, SfumatoError, TableError
from sfumato.guarantee import Card
from sfumato.guarantee.card import from_json
from sfumato.mechanisms.staged_release import OutcomeCounts, ReleasedRows, guides_fit
from sfumato.release.noise_evidence import FALSE_ALARMS as NOISE_ALARMS
from sfumato.release.noise_evidence import NoiseEvidence
from sfumato.release.release import card_inside, carries_more, matrix_of

UNREADABLE = (SfumatoError, pa.ArrowException, OSError, ValueError, TypeError, LookupError, ArithmeticError)
"""What reading a file or a card can raise that anybody may have made."""
BLOCK = 1 << 16
MOST_NAMED = 5
EARLY = 1e-6
"""Judging before all rows are read takes so much surer evidence, and so adds nothing to the false alarms."""
OWN_OPERATOR = (
    "The release was made with its owner's own operator. Nobody else can tell what it does to a value, and one "
    "forged cell could ruin a model. Use an operator that has a name."
)
WRONG_GUIDES = (
    "The stages of the release were guided by something else than its own released rows, and nobody knows what that "
    "tells of others. Take the release as `sfumato sanitize` wrote it."
)
TYPES = (
    pa.types.is_floating,
    pa.types.is_integer,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_boolean,
    pa.types.is_null,
)
"""What Arrow calls the cells of a release; in a CSV file those of a column that is empty have no type."""
OTHER_ROWS = "The card states another number of rows than the release has: one of them was edited."


def read_card(text: bytes | str) -> Card:
    """A card as it is embedded in a release, from anybody: no NaN, no duplicate meaning, and the published schema."""

    try:
        data = from_json(text)
    except ValueError:
        raise CardError("The card inside the release is not valid JSON: it was edited or is damaged.") from None
    if not isinstance(data, Mapping):
        raise CardError("The card inside the release is not a card: it was edited or is damaged.")
    try:
        return Card.from_dict(data, where="The card inside the release")
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError):
        raise CardError("The card inside the release cannot be understood: it was edited or is damaged.") from None


def embedded_card(file: pq.ParquetFile, most_bytes: int) -> Card:
    """The card inside a file that anybody may have made."""
    text = card_inside(file)
    if text is None:
        raise CardError("The file contains no card. Take what `sfumato sanitize` wrote.")
    if len(text) > most_bytes:
        raise CardError(f"The card inside the release has more than {most_bytes} bytes.")
    return read_card(text)


def check_content(file: pq.ParquetFile, card: Card) -> None:
    """Columns that no card speaks of might hold anything; so might unexpected types, and words beside them."""
    if card.rows != file.metadata.num_rows:
        raise CardError(OTHER_ROWS)
    if carries_more(file):
        raise TableError("The file contains more than rows and card: another program has written to it. Release again.")
    check_columns(file.schema_arrow, card)


def check_columns(schema: pa.Schema, card: Card) -> None:
    """The card's columns in its order, of types that a release has."""
    columns = [column["name"] for column in card.release_schema["columns"]]
    label, target = card.release_schema["label"], card.target
    if schema.names != [*columns, *([label["name"]] if label else []), *([target] if target else [])]:
        raise TableError("The release's columns are not those of its card, in the same order: one of them was edited.")
    for one in schema:
        if not any(known(one.type) for known in TYPES):
            raise TableError(f"Column {one.name[:60]!r} of the release has a type that no release has.")


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
        "model. Take the release as `sfumato sanitize` wrote it."
    )


@dataclass
class RowChecks:
    """All checks of rows, as blocks come in. `evidence` is what all rows together say about their noise."""

    card: Card
    cells: CellCheck
    evidence: NoiseEvidence
    rows: int = 0
    guides: OutcomeCounts | None = field(default=None, init=False)

    @classmethod
    def of(cls, card: Card, false_alarms: float = NOISE_ALARMS) -> RowChecks:
        return cls(card, CellCheck.of(card), NoiseEvidence.of(card, false_alarms))

    def add(self, table: pa.Table) -> tuple[Matrix, Codes | None]:
        """Check one block cell by cell, and give it back as numbers."""
        self.cells.check_written(table, self.rows)
        matrix, codes = matrix_of(table, self.card, self.rows)
        self.cells.check_matrix(matrix, self.rows)
        self.evidence.add(matrix, codes)
        recipe = self.cells.recipe
        if isinstance(recipe.map, Staged):
            found = OutcomeCounts.of(recipe.map, recipe.channels, ReleasedRows(matrix))
            self.guides = found if self.guides is None else self.guides + found
        self.rows += len(matrix)
        return matrix, codes

    def finish(self) -> None:
        """What only all rows can show; raises what contradicts the card."""
        if self.rows != self.card.rows:
            raise CardError(OTHER_ROWS)
        if self.guides is not None and not guides_fit(self.cells.recipe, self.guides):
            raise TableError(WRONG_GUIDES)
        if wrong := self.evidence.against():
            raise TableError(wrong)


def check_rows(
    blocks: Iterable[pa.Table],
    card: Card,
    also: Callable[[Matrix, Codes | None], None] | None = None,
    false_alarms: float = NOISE_ALARMS,
) -> RowChecks:
    """Go through all rows, and raise what contradicts the card; `also` is shown every block."""
    checks = RowChecks.of(card, false_alarms)
    for number, block in enumerate(blocks, start=1):
        matrix, codes = checks.add(block)
        if also is not None:
            also(matrix, codes)
        # After blocks 1, 2, 4, 8, ...: who sends millions of equal rows is refused for the first of them.
        if number & (number - 1) == 0 and (wrong := checks.evidence.against(surer=EARLY)):
            raise TableError(wrong)
    checks.finish()
    return checks


def parquet_blocks(file: pq.ParquetFile) -> Iterator[pa.Table]:
    """The rows of a file, block by block, on one thread."""
    for batch in file.iter_batches(batch_size=BLOCK, use_threads=False):
        yield pa.Table.from_batches([batch])


def wrong_rows(path: Path, card: Card) -> str | None:
    """What is wrong with the rows of a release file, or None."""
    try:
        with pq.ParquetFile(path) as file:
            check_rows(parquet_blocks(file), card)
    except SfumatoError as error:
        return str(error)
    except (pa.ArrowException, OSError):
        return f"{path} cannot be read as Parquet: it is damaged. Release again."
    return None


def _first(wrong: pa.ChunkedArray, first_row: int, name: str) -> str:
    return _place(first_row + int(np.argmax(wrong.to_numpy())), name)


def _place(row: int, name: str) -> str:
    return f"row {row + 1}, column {name[:60]!r}"
