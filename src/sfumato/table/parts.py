"""A table in parts: a folder, a glob or a list of files with the same columns, read one after the other."""

from __future__ import annotations

import glob
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from sfumato.core.errors import TableError
from sfumato.table.csv_table import RANKS, CsvTable
from sfumato.table.tables import Table, bare

MARKS = frozenset("*?[")
WHOLE = re.compile("-?(0|[1-9][0-9]{0,17})")
"""A whole number of a path; codes with leading zeros are text."""
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""How Hive and Spark write an empty cell into a path."""


def is_pattern(given: str) -> bool:
    """Whether a glob was given and not a path."""
    return not MARKS.isdisjoint(given) and not Path(given).exists()


def files_of_pattern(pattern: str) -> list[Path]:
    """Files and folders that a glob names, in the order of their names; ** stands for folders at any depth."""
    found = sorted(Path(name) for name in glob.glob(pattern, recursive=True))  # noqa: PTH207 - absolute ones too
    if not found:
        raise TableError(f"No file matches {pattern}. Check the pattern, and quote it so that the shell leaves it.")
    return found


def fixed_start(pattern: str) -> Path:
    """The folder up to the first step that is a pattern: partitions are the steps below it."""
    return Path(*takewhile(lambda step: MARKS.isdisjoint(step), Path(pattern).parts))


def files_of_folder(folder: Path, endings: dict[str, tuple[str, ...]]) -> list[Path]:
    """The parts in a folder, in the order of their paths: files of one kind, by their endings.

    Names that begin with a point or an underscore are no parts, as Hadoop has it; nor is what has no known ending.
    """
    kinds: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        hidden = any(step.startswith((".", "_")) for step in path.relative_to(folder).parts)
        kind = next((kind for kind, known in endings.items() if path.name.lower().endswith(known)), None)
        if kind is not None and not hidden and path.is_file():
            kinds.setdefault(kind, []).append(path)
    if not kinds:
        raise TableError(f"{folder} is a folder without CSV, Parquet or Arrow files. Give the path of a table.")
    if len(kinds) > 1:
        raise TableError(
            f"{folder} holds files of several kinds ({', '.join(kinds)}). Name those that are the table by a pattern, "
            f'for example "{folder}/*.parquet".'
        )
    return next(iter(kinds.values()))


def partition_values(part: Path, root: Path) -> dict[str, str | None]:
    """What the folders between root and part say of all rows in it: year=2024/month=5."""
    values: dict[str, str | None] = {}
    for step in part.relative_to(root).parts[:-1]:
        name, equals, value = step.partition("=")
        if equals and name:
            values[unquote(name)] = None if value == NO_VALUE else unquote(value)
    return values


class PartsTable(Table):
    """Files with the same columns as one table; columns may come in another order, and whole numbers may be wider.

    `values` are the cells that the path of each part states (hive partitions): they become columns, the last ones.
    """

    def __init__(
        self,
        where: str,
        parts: Sequence[Table],
        values: Sequence[dict[str, str | None]] | None = None,
        columns: Sequence[str] | None = None,
        folders: Sequence[Path] = (),
    ) -> None:
        super().__init__(where, columns)
        self.parts = list(parts)
        self._values = list(values or [{} for _ in parts])
        self.folders = tuple(folders)
        self.files = tuple(file for part in parts for file in part.files)
        self.missing = parts[0].missing
        self._check_alike()
        self._stated = {}  # whole numbers where every path states one, else text; codes with leading zeros stay text
        for name in self._values[0]:
            cells = [cell for stated in self._values if (cell := stated[name]) is not None]
            self._stated[name] = pa.int64() if cells and all(map(WHOLE.fullmatch, cells)) else pa.string()
        self._selected = self._select([*self.parts[0].names, *self._stated])
        self._schema: pa.Schema | None = None
        self._starts: list[int] = []

    def _check_alike(self) -> None:
        first, stated = self.parts[0], self._values[0]
        for part, values in zip(self.parts, self._values, strict=True):
            missing = [name for name in first.names if name not in part.names]
            further = [name for name in part.names if name not in first.names]
            if missing or further:
                what = f"no column {missing[0]!r}" if missing else f"a column {further[0]!r}"
                has = "has it" if missing else "has not"
                raise TableError(
                    f"{part.where} has different columns from {first.where}: it has {what}, and {first.where} {has}. "
                    "All files of a table must have the same columns."
                )
            if list(values) != list(stated):
                raise TableError(
                    f"The folders around {part.where} state other columns than those around {first.where}. All parts "
                    "must be partitioned alike (year=2024/month=5)."
                )
            if twice := [name for name in values if name in part.names]:
                raise TableError(
                    f"{part.where} has a column {twice[0]!r}, and the folder that it lies in states one as well. "
                    "Rename or remove one of them."
                )

    @property
    def rows(self) -> int | None:
        counts = [count for part in self.parts if (count := part.rows) is not None]
        return sum(counts) if len(counts) == len(self.parts) else None

    @property
    def arrow_schema(self) -> pa.Schema:
        if self._schema is None:
            types = {name: self._type_of(name) for name in self._selected}
            for part in self.parts:
                if isinstance(part, CsvTable):  # its cells are text until the caller says otherwise
                    part.read_as({name: kind for name, kind in types.items() if name in part.names})
            self._schema = pa.schema([pa.field(name, kind) for name, kind in types.items()])
        return self._schema

    def _type_of(self, name: str) -> pa.DataType:
        if name in self._stated:
            return self._stated[name]
        found, at = self.parts[0].arrow_schema.field(name).type, self.parts[0].where
        for part in self.parts[1:]:
            kind = part.arrow_schema.field(name).type
            if kind == found:
                continue
            common = None  # where a column means different things in them
            if isinstance(part, CsvTable):
                common = RANKS[max(RANKS.index(found), RANKS.index(kind))]
            else:
                with suppress(pa.ArrowException, TypeError):
                    fields = [pa.schema([pa.field("", one)]) for one in (found, kind)]
                    common = bare(pa.unify_schemas(fields, promote_options="permissive")).field(0).type
            if common is None:
                raise TableError(
                    f"Column {name!r} changes its type: it is {found} in {at} and {kind} in {part.where}. "
                    "Write all parts with the same types."
                )
            found, at = common, part.where if common == kind else at
        return found

    def _batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        row, self._starts = 0, []
        for place in range(len(self.parts)):
            self._starts.append(row)
            for batch in self.of_part(place, rows):
                row += batch.num_rows
                yield batch

    def told_where(self, message: str) -> str:
        found = re.search(r"\brow (\d+)\b", message)
        if found is None or not self._starts:
            return message
        row = int(found[1])
        place = bisect_right(self._starts, row - 1) - 1
        return f"{message} (It is row {row - self._starts[place]} of {self.parts[place].where}.)"

    def of_part(self, place: int, rows: int, groups: Sequence[int] | None = None) -> Iterator[pa.RecordBatch]:
        """Batches of one part; of a Parquet file, of some row groups only."""
        schema, part = self.arrow_schema, self.parts[place]
        batches = part._batches(rows) if groups is None else part.of_groups(rows, groups)
        for batch in batches:
            cells = [self._cells(batch, field, self._values[place]) for field in schema]
            yield pa.RecordBatch.from_arrays(cells, schema=schema)

    def _cells(self, batch: pa.RecordBatch, field: pa.Field, values: dict[str, str | None]) -> pa.Array:
        if field.name in self._stated:
            stated: Any = values[field.name]
            return pa.repeat(pa.scalar(stated, pa.string()).cast(field.type), batch.num_rows)
        column = batch.column(field.name)
        return column if column.type == field.type else column.cast(field.type)
