"""Folders of releases in, the distribution of columns out: density.parquet, density.csv, density.svg of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.array_types import Floats
from sfumato.errors import CardError, SchemaError, UsageError
from sfumato.files import new_folder, write_whole
from sfumato.jobs.release import Release
from sfumato.metrics.information import information_loss
from sfumato.reconstruction import Density, Shares, reconstruct
from sfumato.reconstruction.described import Described, describe
from sfumato.reconstruction.evidence import Method
from sfumato.reconstruction.reconstruct import make_method
from sfumato.table import open_table, write_table
from sfumato.table.arrays import day_numbers, numbers, plain

BLOCK = 1 << 18
_LONGEST_NAME = 80
Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Reconstructed:
    """The distribution, the files it was written to, and (for the owner) how far it is from the original."""

    found: Density | Shares
    files: tuple[str, ...]
    information_loss: float | None

    def summary(self) -> dict[str, Any]:
        told = {**self.found.summary(), "files": list(self.files)}
        return told if self.information_loss is None else {**told, "information_loss": self.information_loss}


def reconstruct_column(folders: Sequence[Path], column: str, out: Path, **words: Any) -> Reconstructed:
    """One column, with its files directly in `out`; words as for `reconstruct_columns`."""
    return reconstruct_columns(folders, [column], out, **words)[0]


def reconstruct_columns(
    folders: Sequence[Path],
    columns: Sequence[str],
    out: Path,
    *,
    method: str = "parzen-program",
    penalty: float | str | None = None,
    original: Any = None,
    force: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> list[Reconstructed]:
    """Reconstruct each of `columns` from the releases in `folders`, each a part with its own noise, read as streams.

    One column's files lie in `out`, those of several in a folder for each. All are written, or none.
    """
    if len({Path(folder).resolve() for folder in folders}) < len(folders):
        raise UsageError("A release is given twice: its values would count twice. Give each folder once.")
    if not columns or len(set(columns)) < len(columns):
        raise UsageError("Name at least one column, and each of them once.")
    releases = [Release.public(folder) for folder in folders]
    described = {column: [describe(release.card, column) for release in releases] for column in columns}
    chosen = make_method(method, penalty)
    truths = {column: None if original is None else _original(original, described[column][0]) for column in columns}
    places = [""] if len(columns) == 1 else folder_names(columns)
    done = []
    with new_folder(out, force=force) as folder:  # a place that is taken is found before the work, not after
        for number, (column, place) in enumerate(zip(columns, places, strict=True)):
            found = reconstruct_from(releases, column, chosen, **options)
            truth = truths[column]
            loss = None if truth is None else information_loss(truth, found)
            done.append(Reconstructed(found, write_found(found, folder, place), loss))
            if progress is not None:
                progress("Columns", number + 1, len(columns))
    return done


def reconstruct_from(releases: Sequence[Release], column: str, method: Method, **options: Any) -> Density | Shares:
    """One column of releases that are open, in folders or in memory; nothing is written."""
    if not releases or len(set(map(id, releases))) < len(releases):
        raise UsageError("Give at least one release, and each of them once: values would count twice.")
    values = [_values(release, describe(release.card, column)) for release in releases]
    return reconstruct(values, [release.card for release in releases], column=column, method=method, **options)


def folder_names(columns: Sequence[str]) -> list[str]:
    """A folder for each column: its name, made fit for a path, with a number where that is not yet its own."""
    names: list[str] = []
    for column in columns:
        plain_name = re.sub(r"[^\w -]", "_", column).strip()[:_LONGEST_NAME] or "_"
        name, number = plain_name, 1
        while name.casefold() in {taken.casefold() for taken in names}:
            number += 1
            name = f"{plain_name}-{number}"
        names.append(name)
    return names


def write_found(found: Density | Shares, folder: Path, place: str) -> tuple[str, ...]:
    """The files of one column in `folder`/`place`; returns them as seen from `folder`."""
    inside = folder / place
    inside.mkdir(exist_ok=True)
    table = found.table()
    write_table(table, inside / "density.parquet")
    write_table(table, inside / "density.csv")
    write_whole(inside / "density.svg", found.plot())
    return tuple(sorted(path.relative_to(folder).as_posix() for path in inside.iterdir()))


def _values(release: Release, one: Described) -> Iterator[Any]:
    """The released column, block by block."""
    return _blocks(release.blocks(one.name, BLOCK), one, release)


def _blocks(batches: Iterator[pa.RecordBatch], one: Described, release: Release) -> Iterator[Any]:
    met = 0
    for batch in batches:
        met += batch.num_rows
        yield batch.column(0).to_pylist() if one.is_categorical else as_numbers(batch.column(0), one)
    if met != release.card.rows:
        raise CardError(f"The card of {release.folder} speaks of {release.card.rows} rows, the release has {met}.")


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
