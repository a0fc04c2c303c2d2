"""A release as its readers take it: card, matrix and labels; the owner also has the trace and the key."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sfumato.errors import CardError, TableError
from sfumato.guarantee import Card, Key
from sfumato.table import Encoding, open_table
from sfumato.table.arrays import checked, numbers
from sfumato.table.recoding import recode, unstated
from sfumato.wording import counted

Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]

CARD_METADATA = b"sfumato.card"
_FORMAT_METADATA = {b"ARROW:schema", b"PARQUET:field_id"}


@dataclass(frozen=True, repr=False)
class Release:
    """What lies in the folder that `sanitize` wrote.

    `Z` is the release matrix: encoded source columns for column-wise releases, c000... for mixing ones.
    `source` (the private trace) and `key` are there only in the owner's folder.
    """

    card: Card
    encoding: Encoding
    Z: Matrix
    y: Codes | None
    source: Codes | None = None
    key: Key | None = None

    @classmethod
    def open(cls, folder: Path | str, key: Path | None = None) -> Release:
        """Read a release, and its private files where they are present."""
        folder = Path(folder)
        card = Card.load(folder)
        table = read_release(folder)
        if table.num_rows != card.rows:
            raise CardError(f"The card of {folder} speaks of {card.rows} rows, the release has {table.num_rows}.")
        check_embedded_card(folder, card)
        Z, y = matrix_of(table, card)
        trace, key_path = folder / "trace.parquet", key or folder / "key.json"
        source = open_table(trace).read()["source"].to_numpy() if trace.exists() else None
        if source is not None and len(source) != len(Z):
            raise CardError(f"The trace of {folder} does not belong to its release: the numbers of rows differ.")
        loaded = Key.load(key_path) if key is not None or key_path.exists() else None
        if loaded is not None and loaded.commitment() != card.transform.get("commitment"):
            raise CardError(f"The key {key_path} is not the one that the release in {folder} was made with.")
        return cls(card, card.source_encoding(), Z, y, source, loaded)

    def __repr__(self) -> str:
        rows, columns = self.Z.shape
        owner = " with its owner's files" if self.source is not None or self.key is not None else ""
        return f"<Release of {counted(rows, 'row')} x {columns} by {self.card.mechanism['name']}{owner}>"

    def affine(self) -> tuple[Matrix, Matrix] | None:
        """(A, c) of the map from encoded source rows, as far as card and key tell."""
        return self.card.made_by().map.affine() if self.key is None else self.key.affine()


def check_embedded_card(folder: Path, card: Card) -> None:
    """A Parquet release carries its card too: one that was edited only beside it is found out."""
    path = folder / "release.parquet"
    if not path.is_file():
        return
    try:
        with pq.ParquetFile(path) as file:
            embedded = card_inside(file)
    except (pa.ArrowException, OSError):
        raise TableError(f"{path} cannot be read as Parquet: it is damaged, truncated or of another format.") from None
    if embedded is not None and not card.says_the_same(embedded):
        raise CardError(f"The card beside the release in {folder} is not the one inside it: one of them was edited.")


def card_inside(file: pq.ParquetFile) -> bytes | None:
    """The card that a release carries. A file holds such words twice, for Parquet and for Arrow: two cards are none."""
    card: bytes | None = (file.metadata.metadata or {}).get(CARD_METADATA)
    if card != (file.schema_arrow.metadata or {}).get(CARD_METADATA):
        raise CardError("The file carries two cards, and they differ: it was edited. Sanitize again.")
    return card


def carries_more(file: pq.ParquetFile) -> bool:
    """Whether another program has written something beside card and rows, which nobody would look at."""
    words = [file.metadata.metadata, file.schema_arrow.metadata, *(field.metadata for field in file.schema_arrow)]
    return any((found or {}).keys() - _FORMAT_METADATA - {CARD_METADATA} for found in words)


def read_release(folder: Path) -> pa.Table:
    """The released table, whatever its format."""
    for name in ("release.parquet", "release.csv"):
        if (folder / name).is_file():
            return open_table(folder / name).read()
    raise TableError(f"There is no release.parquet or release.csv in {folder}.")


def matrix_of(table: pa.Table, card: Card, first_row: int = 0) -> tuple[Matrix, Codes | None]:
    """Released rows as the matrix that learners and attackers work on, and class codes.

    Cells that are infinite, no numbers, or empty without a word on the card are refused; one that its channel leaves
    out is NaN. `first_row` is the number of rows before this block, for messages.
    """
    label = card.release_schema["label"]
    encoding = card.source_encoding()
    names = [column["name"] for column in card.release_schema["columns"]]
    there = set(table.column_names)
    absent = [name for name in names if name not in there]
    if absent:
        raise TableError(f"The release lacks the column {absent[0]!r} that its card names.")
    codes = encoding.encode_label(table, first_row=first_row) if label and label["name"] in there else None
    left_out = card.made_by().left_out
    if card.is_columnwise:
        ranks = card.post_processing is None
        return recode(encoding, table, ranks=ranks, unreported=left_out, first_row=first_row), codes
    columns = [_component(table[name], name, first_row, left_out=name in left_out) for name in names]
    return np.column_stack(columns), codes


def _component(cells: pa.ChunkedArray, name: str, first_row: int, *, left_out: bool) -> Matrix:
    """A column of a mixing release: numbers all of them, but for those that are not reported."""
    found, empty = checked(numbers(cells, name, first_row), name, first_row)
    if empty is None or not empty.any():
        return found
    if not left_out:
        raise unstated(name, first_row + int(empty.argmax()) + 1)
    return np.where(empty, np.nan, found)
