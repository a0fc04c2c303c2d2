"""Folders of releases in, the distribution of one column out: density.parquet, density.csv, density.svg."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.errors import CardError, SchemaError, TableError, UsageError
from sfumato.files import new_folder, write_whole
from sfumato.guarantee import Card
from sfumato.jobs.release import check_embedded_card
from sfumato.metrics.information import information_loss
from sfumato.reconstruction import Density, Shares, reconstruct
from sfumato.reconstruction.described import Described, describe
from sfumato.reconstruction.reconstruct import make_method
from sfumato.table import open_table, write_table
from sfumato.table.arrays import day_numbers, numbers, plain

Floats = NDArray[np.float64]

BLOCK = 1 << 18


@dataclass(frozen=True)
class Reconstructed:
    """The distribution, the files it was written to, and (for the owner) how far it is from the original."""

    found: Density | Shares
    files: tuple[str, ...]
    information_loss: float | None

    def summary(self) -> dict[str, Any]:
        told = {**self.found.summary(), "files": list(self.files)}
        return told if self.information_loss is None else {**told, "information_loss": self.information_loss}


def reconstruct_column(
    folders: Sequence[Path],
    column: str,
    out: Path,
    *,
    method: str = "parzen-program",
    penalty: float | str | None = None,
    original: Any = None,
    force: bool = False,
    **options: Any,
) -> Reconstructed:
    """Reconstruct `column` from the releases in `folders`, each a part with its own noise, read as streams."""
    if len({Path(folder).resolve() for folder in folders}) < len(folders):
        raise UsageError("A release is given twice: its values would count twice. Give each folder once.")
    cards = [Card.load(folder) for folder in folders]
    described = [describe(card, column) for card in cards]
    values = [_values(Path(folder), card, one) for folder, card, one in zip(folders, cards, described, strict=True)]
    for folder, card in zip(folders, cards, strict=True):
        check_embedded_card(Path(folder), card)
    chosen = make_method(method, penalty)
    truth = None if original is None else _original(original, described[0])
    with new_folder(out, force=force) as folder:  # a place that is taken is found before the work, not after
        found = reconstruct(values, cards, column=column, method=chosen, **options)
        loss = None if truth is None else information_loss(truth, found)
        table = found.table()
        write_table(table, folder / "density.parquet")
        write_table(table, folder / "density.csv")
        write_whole(folder / "density.svg", found.plot())
        files = tuple(sorted(path.name for path in folder.iterdir()))
    return Reconstructed(found, files, loss)


def _values(folder: Path, card: Card, one: Described) -> Iterator[Any]:
    """The released column, block by block."""
    path = next((folder / name for name in ("release.parquet", "release.csv") if (folder / name).is_file()), None)
    if path is None:
        raise TableError(f"There is no release.parquet or release.csv in {folder}.")
    return _blocks(open_table(path, columns=[one.name]).blocks(BLOCK), one, card.rows, folder)


def _blocks(batches: Iterator[pa.RecordBatch], one: Described, rows: int, folder: Path) -> Iterator[Any]:
    met = 0
    for batch in batches:
        met += batch.num_rows
        yield batch.column(0).to_pylist() if one.is_categorical else as_numbers(batch.column(0), one)
    if met != rows:
        raise CardError(f"The card of {folder} speaks of {rows} rows, the release has {met}.")


def as_numbers(array: Any, one: Described) -> Floats:
    """Cells as raw numbers, empty ones as NaN; dates as days."""
    read = day_numbers if one.kind == "date" else numbers
    found, empty = read(plain(array), one.name)
    return found if empty is None else np.where(empty, np.nan, found)


def _original(table: Any, one: Described) -> Any:
    opened = open_table(table)
    if one.name not in opened.names:
        raise SchemaError(
            f"The original table has no column {one.name!r}. Only source columns can be compared with an original."
        )
    column = open_table(table, columns=[one.name]).read().column(0)
    return column.to_pylist() if one.is_categorical or one.kind == "ordinal" else as_numbers(column, one)
