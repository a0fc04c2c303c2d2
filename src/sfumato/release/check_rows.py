"""Whether a release is what its card says: checks that need nothing but the release.

A site makes them before anything leaves it, the coordinator makes them with every push, and `verify` makes them for
anybody. First what the file holds besides rows, then the rows, block by block: every cell is a finite number or a known
category that the stated noise could have made of some value, and all of them together vary as that noise makes them.
Cells are told by row and column, never by what they hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
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


def check_rows(
    blocks: Iterable[pa.Table],
    card: Card,
    also: Callable[[Matrix, Codes | None], None] | None = None,
    false_alarms: float = NOISE_ALARMS,
) -> NoiseEvidence:
    """Go through all rows, and raise what contradicts the card; `also` is shown every block. Returns what all rows
    together say about their noise."""
    recipe = card.made_by()
    reach, evidence = Reach.of(recipe, card.rows), NoiseEvidence.of(card, false_alarms)
    if np.isinf(reach.low).any():
        raise TableError(OWN_OPERATOR)
    guides: OutcomeCounts | None = None
    for number, block in enumerate(blocks, start=1):
        check_written(block, recipe, evidence.rows)
        matrix, codes = matrix_of(block, card, evidence.rows)
        check_reached(matrix, reach, evidence.rows)
        recipe.check_reports(matrix)
        evidence.add(matrix, codes)
        if isinstance(recipe.map, Staged):
            found = OutcomeCounts.of(recipe.map, recipe.channels, ReleasedRows(matrix))
            guides = found if guides is None else guides + found
        if also is not None:
            also(matrix, codes)
        # After blocks 1, 2, 4, 8, ...: who sends millions of equal rows is refused for the first of them.
        if number & (number - 1) == 0 and (wrong := evidence.against(surer=EARLY)):
            raise TableError(wrong)
    if evidence.rows != card.rows:
        raise CardError(OTHER_ROWS)
    if guides is not None and not guides_fit(recipe, guides):
        raise TableError(WRONG_GUIDES)
    if wrong := evidence.against():
        raise TableError(wrong)
    return evidence


def check_written(table: pa.Table, recipe: Recipe, first_row: int) -> None:
    """Numbers are finite, and cells are empty only in a column whose schema has "missing", or that not every row
    reports."""
    groups = recipe.encoding.groups if recipe.is_columnwise else ()
    may_be_empty = recipe.left_out | {group.column.name for group in groups if group.column.missing}
    for name in table.column_names:
        cells = table[name]
        if name not in may_be_empty and cells.null_count:
            where = _place(first_row + int(np.argmax(pc.is_null(cells).to_numpy())), name)
            raise TableError(f"The release has an empty cell, which its schema does not allow: {where}.")
        if pa.types.is_floating(cells.type):
            finite = pc.fill_null(pc.is_finite(cells), True)
            if not pc.all(finite).as_py():
                where = _place(first_row + int(np.argmin(finite.to_numpy())), name)
                raise TableError(f"The release has a cell that is not a finite number: {where}. It was changed.")


def check_reached(matrix: Matrix, reach: Reach, first_row: int) -> None:
    """Every reported cell lies where the stated noise could have carried some value of the domain. Those that do not
    are numbered from 1 as people count; what they hold is never told."""
    if not (far := reach.outside(matrix)):
        return
    named = "; ".join(_place(first_row + row, name) for row, name in far[:MOST_NAMED])
    more = f" and {len(far) - MOST_NAMED} more" if len(far) > MOST_NAMED else ""
    raise TableError(
        f"The release has cells that the noise on its card cannot have produced from any value: {named}{more}. "
        f"In an honest release that happens with a probability of {FALSE_ALARMS:g}, and one such cell can ruin a "
        "model. Take the release as `sfumato sanitize` wrote it."
    )


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


def _place(row: int, name: str) -> str:
    return f"row {row + 1}, column {name[:60]!r}"
