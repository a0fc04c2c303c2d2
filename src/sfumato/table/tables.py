"""A table as a stream of Arrow blocks, wherever it lies; and the tables that are in memory already."""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.array_types import Codes
from sfumato.core.errors import TableError
from sfumato.table.arrays import is_text, plain
from sfumato.table.column import nearest

# Notice that a file changed between two looks at it: a table is read several times, and must be the same each time.


@dataclass(frozen=True)
class FileMark:
    """A file as it was when the table was opened."""

    path: Path
    size: int
    changed: int
    node: int
    touched: int = 0
    """When anything about it changed: whoever puts the time of change back cannot put this one back."""

    @classmethod
    def of(cls, path: Path) -> FileMark:
        """The file as it is now."""
        try:
            found = path.stat()
        except FileNotFoundError:
            raise TableError(f"{path} does not exist.") from None
        except OSError as error:
            raise TableError(f"{path} cannot be read: {error.strerror or type(error).__name__}.") from None
        return cls(path, found.st_size, found.st_mtime_ns, found.st_ino, found.st_ctime_ns)

    def check(self) -> None:
        """Refuse a file that vanished or was written to: half of the work would rest on the old one."""
        if not self.path.exists():
            raise TableError(
                f"{self.path} vanished while the table was read. Nothing was released. Start again when it is back."
            )
        if FileMark.of(self.path) != self:
            again = "Nothing was released. Start again when no program writes to it."
            raise TableError(f"{self.path} changed while the table was read. {again}")


BLOCK_ROWS = 65_536
Found = TypeVar("Found")


class Table(ABC):
    """A named source of rows that can be read block by block, as often as needed."""

    files: tuple[Path, ...] = ()
    """The files that it is read from, where it is read from files."""
    folders: tuple[Path, ...] = ()
    """The folders whose content is the table."""
    missing: tuple[str, ...] = ()
    """Words that are read as empty cells, beside those that every CSV file may have."""

    _selected: Sequence[str] = ()
    """The columns that are read, where they are known before their types."""

    def __init__(self, where: str, columns: Sequence[str] | None = None) -> None:
        self.where = where
        self._columns = None if columns is None else list(columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(self._selected or self.arrow_schema.names)

    @property
    @abstractmethod
    def arrow_schema(self) -> pa.Schema:
        """Arrow types of the columns; metadata of the source is left behind."""

    @property
    def rows(self) -> int | None:
        """Number of rows where that is known without reading the table."""
        return None

    @abstractmethod
    def _batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Batches of about `rows` rows, in the order of the source."""

    def of_groups(self, rows: int, groups: Sequence[int]) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """The same for some of the groups that a file keeps its rows in, where it has any."""
        raise TypeError(f"{self.where} has no row groups.")

    def blocks(self, rows: int = BLOCK_ROWS) -> Iterator[pa.RecordBatch]:
        """Blocks of exactly `rows` rows (the last one: what is left), so that block numbers mean the same rows."""
        if rows < 1:
            raise ValueError(f"The 'rows' parameter of blocks must be at least 1. Got {rows!r} instead.")
        return resized(self._batches(rows), rows)

    def told_where(self, message: str) -> str:
        """An error that names a row of this table, with the file that it stands in where there are several."""
        return message

    def gather(
        self,
        observe: Callable[[Iterator[pa.RecordBatch]], Found],
        merge: Callable[[Found, Found], Found],  # noqa: ARG002 - for tables that lie in several places
        finish: Callable[[Found], Found],
    ) -> Found:
        """What `observe` finds in all blocks. A table that lies in several places observes each, merges what was found
        in their order, and finishes there, so that `finish` can leave private things behind."""
        return finish(observe(self.blocks()))

    def read(self) -> pa.Table:
        """The whole table."""
        return pa.Table.from_batches(list(self._batches(BLOCK_ROWS * 16)), self.arrow_schema)

    def _select(self, names: Sequence[str]) -> list[str]:
        """The columns to read out of those there are; duplicate and nameless ones are refused."""
        # Refuse duplicate and empty names, for what is meant by them is anybody's guess, and names of several lines.
        seen: set[str] = set()
        for number, name in enumerate(names, start=1):
            if not str(name).strip():
                raise TableError(
                    f"Column {number} of {self.where} has no name. Name it; if it is an index that pandas wrote, "
                    "write the table again with index=False."
                )
            if any(unicodedata.category(character) in NO_NAME for character in str(name)):
                what = "a line break or another control character"
                raise TableError(f"The name of column {number} of {self.where} holds {what}. Rename it.")
            if name in seen:
                raise TableError(f"{self.where} has two columns named {name!r}. Rename or remove one of them.")
            seen.add(name)
        if not seen:
            raise TableError(f"{self.where} has no columns.")
        for name in self._columns or ():
            if name not in names:
                raise TableError(f"{self.where} has no column {name!r}.{nearest(name, list(names))}")
        return list(names) if self._columns is None else self._columns

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.where}>"


@runtime_checkable
class PicksRows(Protocol):
    """A table whose rows lie elsewhere, and of which single rows can be fetched."""

    def rows_at(self, wanted: Codes) -> tuple[pa.Table, int]:
        """The rows with these numbers (sorted), as far as there are such, and the number of all rows."""


class MemoryTable(Table):
    """An Arrow table, or what was read as one: a data frame, `files` that are read whole."""

    def __init__(
        self,
        table: pa.Table,
        where: str = "The table",
        columns: Sequence[str] | None = None,
        files: tuple[Path, ...] = (),
    ) -> None:
        super().__init__(where, columns)
        self.files = files
        selected = self._select(table.column_names)
        table = table if columns is None else table.select(selected)
        dressed = any(field.metadata or not field.nullable for field in table.schema)
        self._table = table.cast(bare(table.schema)) if dressed or table.schema.metadata else table

    @property
    def arrow_schema(self) -> pa.Schema:
        return self._table.schema

    @property
    def rows(self) -> int | None:
        return int(self._table.num_rows)

    def _batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        yield from self._table.to_batches(max_chunksize=rows)

    def read(self) -> pa.Table:
        return self._table


class View(Table):
    """Another table: some of its columns, or with some more words as empty cells."""

    def __init__(self, table: Table, columns: Sequence[str] | None = None, missing: tuple[str, ...] = ()) -> None:
        super().__init__(table.where, columns)
        self._table, self.missing = table, missing
        self.files, self.folders = table.files, table.folders
        self._selected = self._select(table.names)

    @property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema([self._table.arrow_schema.field(name) for name in self._selected])

    @property
    def rows(self) -> int | None:
        return self._table.rows

    def _batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        for batch in self._table._batches(rows):
            cells = [self._emptied(batch.column(name)) for name in self._selected]
            yield pa.RecordBatch.from_arrays(cells, schema=self.arrow_schema)

    def _emptied(self, column: pa.Array) -> pa.Array:
        words = plain(column)
        if not self.missing or not is_text(words.type):
            return column
        unsaid = pc.is_in(words, value_set=pa.array(self.missing, words.type))
        return pc.if_else(unsaid, pa.scalar(None, words.type), words).cast(column.type)


def bare(schema: pa.Schema) -> pa.Schema:
    """The schema without metadata: pandas indexes, field notes and the like do not travel."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])


NO_NAME = ("Cc", "Zl", "Zp")
"""Control characters and line breaks, as Unicode classes them."""


def resized(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Cut and join batches to exactly `rows` rows each; copies only where a block spans two batches."""
    waiting: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            piece = batch.slice(start, rows - held)
            start += piece.num_rows
            held += piece.num_rows
            waiting.append(piece)
            if held == rows:
                yield joined(waiting)
                waiting, held = [], 0
    if waiting:
        yield joined(waiting)


def joined(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Several batches as one."""
    if len(pieces) == 1:
        return pieces[0]
    whole = pa.Table.from_batches(pieces)
    return pa.RecordBatch.from_arrays([column.combine_chunks() for column in whole.columns], schema=whole.schema)
