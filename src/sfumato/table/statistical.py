"""Tables of statistics programs: SPSS (.sav, .zsav, .por), Stata (.dta) and SAS (.sas7bdat, .xpt), by pyreadstat.

Labels are what the cells mean, so a column all of whose values have one is read as its labels; user-missing codes are
empty cells. Such files are read whole: their readers have no blocks that labels could be judged in.
"""

from __future__ import annotations

import math
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.errors import OutputError, TableError, UsageError
from sfumato.table.arrays import is_text, plain
from sfumato.table.tables import MemoryTable

READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
NEEDED = "install sfumato with the extra `statistics`: pip install 'sfumato[statistics]'"


def needed(module: str, what: str) -> Any:
    """A package of the extra; says what to install where it is missing."""
    from importlib import import_module

    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise UsageError(f"{what} needs the package {name}, which is not there. Please {NEEDED}.") from None


def unreadable(path: Path, error: Exception) -> TableError:
    """The reader's own words may quote a cell, so only their kind is repeated."""
    kind = type(error).__name__
    return TableError(
        f"{path} cannot be read as a {path.suffix.lower()} file ({kind}): it is damaged or of another format."
    )


class StatisticalTable(MemoryTable):
    """A file of a statistics program, with labels for codes and empty cells for user-missing values."""

    def __init__(self, path: Path, columns: Sequence[str] | None = None) -> None:
        super().__init__(read_statistical(path), str(path), columns)
        self.files = (path,)


def read_statistical(path: Path) -> pa.Table:
    """The file as an Arrow table. SAS keeps labels in a catalogue, which is read where it lies beside the file."""
    ending = path.suffix.lower()
    reader = getattr(needed("pyreadstat", f"Reading {ending} files"), READERS[ending])
    more: dict[str, Any] = {}
    catalogue = path.with_suffix(".sas7bcat")
    if ending == ".sas7bdat" and catalogue.is_file():
        more["catalog_file"] = str(catalogue)
    try:
        cells, about = reader(str(path), output_format="dict", **more)
    except Exception as error:
        raise unreadable(path, error) from None
    labels = about.variable_value_labels or {}
    arrays = [_array(cells[name], labels.get(name) or {}, name, path) for name in about.column_names]
    return pa.Table.from_arrays(arrays, names=list(about.column_names))


def _array(cells: Sequence[Any], labels: Mapping[Any, str], name: str, path: Path) -> pa.Array:
    """Labels where every value has one; whole numbers as integers; an empty text is an empty cell."""
    here = {cell for cell in cells if _there(cell)}
    if labels and here and here <= set(labels):
        return pa.array([labels[cell] if _there(cell) else None for cell in cells], pa.string())
    try:
        array = pa.array([cell if _there(cell) else None for cell in cells])
    except (pa.ArrowException, TypeError, ValueError):
        raise TableError(f"{path}: column {name!r} holds cells of several kinds.") from None
    if pa.types.is_floating(array.type):
        whole = pc.all(pc.and_(pc.equal(pc.trunc(array), array), pc.less(pc.abs(array), 2.0**53))).as_py()
        return array.cast(pa.int64()) if whole is True else array
    return array


def _there(cell: Any) -> bool:
    return cell is not None and cell != "" and not (isinstance(cell, float) and math.isnan(cell))


class WholeWriter(ABC):
    """Takes blocks, and writes the file when all are there: writers of such files know no blocks."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, ending: str) -> None:
        self._file, self._schema, self._ending = file, schema.remove_metadata(), ending
        self._blocks: list[pa.Table] = []

    def write(self, block: pa.RecordBatch | pa.Table) -> None:
        table = pa.Table.from_batches([block]) if isinstance(block, pa.RecordBatch) else block
        self._blocks.append(table.select(self._schema.names).cast(self._schema))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            return
        whole = pa.concat_tables(self._blocks) if self._blocks else self._schema.empty_table()
        try:
            content = self._content(whole)
        except Exception as error:
            # The writer's own words may quote a cell, so only their kind is repeated.
            raise OutputError(
                f"The table cannot be written as {self._ending} ({type(error).__name__}): the format may not take its "
                "cells or a column's name (SPSS, Stata and SAS: letters, digits, _; at most 32 characters). Choose "
                "another --format."
            ) from None
        self._file.write(content)

    @abstractmethod
    def _content(self, table: pa.Table) -> bytes:
        """The file's bytes."""


class StatisticalWriter(WholeWriter):
    """A file of a statistics program.

    Text is written as codes 1, 2, ... in alphabetical order with the words as value labels (SPSS, Stata), or as text
    (SAS transport files, which have no labels).
    """

    def __init__(self, file: IO[bytes], schema: pa.Schema, ending: str) -> None:
        super().__init__(file, schema, ending)
        needed("pyreadstat", f"Writing {ending} files")
        needed("pandas", f"Writing {ending} files")

    def _content(self, table: pa.Table) -> bytes:
        """The file's bytes, made in a folder that only the owner can read, beside where they go."""
        pyreadstat = needed("pyreadstat", f"Writing {self._ending} files")
        frame, labels = _as_frame(table, labelled=self._ending != ".xpt")
        beside = Path(str(self._file.name)).parent
        with tempfile.TemporaryDirectory(dir=beside, prefix=".sfumato-") as folder:
            path = Path(folder) / f"table{self._ending}"
            if self._ending == ".dta":
                pyreadstat.write_dta(frame, str(path), variable_value_labels=labels)
            elif self._ending == ".xpt":
                pyreadstat.write_xport(frame, str(path), file_format_version=8)
            else:
                pyreadstat.write_sav(frame, str(path), compress=self._ending == ".zsav", variable_value_labels=labels)
            return path.read_bytes()


def _as_frame(table: pa.Table, *, labelled: bool) -> tuple[Any, dict[str, dict[int | float, str]]]:
    """A pandas frame of numbers, dates and text, and the labels of columns whose words became codes."""
    pandas = needed("pandas", "Writing files of statistics programs")
    labels: dict[str, dict[int | float, str]] = {}
    columns: dict[str, Any] = {}
    for name in table.column_names:
        array = plain(table[name])
        if pa.types.is_boolean(array.type):
            array = array.cast(pa.string())
        if is_text(array.type) and labelled:
            words = sorted(pc.unique(array.drop_null()).to_pylist())
            labels[name] = {float(code): word for code, word in enumerate(words, 1)}
            array = pc.add(pc.index_in(array, value_set=pa.array(words, array.type)), 1)
            array = array.cast(pa.float64())
        if pa.types.is_integer(array.type) or pa.types.is_decimal(array.type):
            array = array.cast(pa.float64())
        if is_text(array.type):
            array = array.fill_null("")
        columns[name] = array.to_pandas(date_as_object=True)
    return pandas.DataFrame(columns), labels
