"""Write tables: Parquet, CSV, Arrow, files of statistics programs and sheets; whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.errors import OutputError
from sfumato.files import new_file
from sfumato.table.csv_writer import write_lines
from sfumato.table.spreadsheet import SheetWriter
from sfumato.table.statistical import StatisticalWriter
from sfumato.table.tables import BLOCK_ROWS, bare

PAGE_CELLS = 1 << 14
"""Cells of a column that Parquet encodes and writes at a time."""


class BlockWriter(Protocol):
    """Takes the blocks of a table one after the other."""

    def write(self, block: pa.RecordBatch | pa.Table) -> None:
        """Append one block."""


def write_table(
    table: pa.Table | Iterable[pa.RecordBatch],
    path: Path | str,
    schema: pa.Schema | None = None,
    metadata: Mapping[str, str | bytes] | None = None,
    *,
    private: bool = False,
) -> int:
    """Write a table, or a stream of blocks, as its path's ending says; returns the number of rows.

    `metadata` goes into the file where the format has room for it (Parquet, Arrow). Nothing of a source's own metadata
    is written. With `private` only the owner can read the file.
    """
    blocks: Iterator[Any]
    if isinstance(table, pa.Table):
        schema, blocks = table.schema, iter(table.to_batches(max_chunksize=BLOCK_ROWS))
    else:
        blocks = iter(table)
    first = None
    if schema is None:
        first = next(blocks, None)
        if first is None:
            raise OutputError(f"{path}: a stream without blocks has no columns, so there is nothing to write.")
        schema = first.schema
    rows = 0
    with table_writer(path, schema, metadata, private=private) as writer:
        if first is not None:
            writer.write(first)
            rows += first.num_rows
        for block in blocks:
            writer.write(block)
            rows += block.num_rows
    return rows


@contextmanager
def table_writer(
    path: Path | str,
    schema: pa.Schema,
    metadata: Mapping[str, str | bytes] | None = None,
    *,
    private: bool = False,
) -> Iterator[BlockWriter]:
    """A writer for blocks; the file appears under its name when the block of code ends well, else never."""
    path = Path(path)
    kind = _kind(path)
    fields = [found.with_nullable(field.nullable) for found, field in zip(bare(schema), schema, strict=True)]
    schema = pa.schema(fields, metadata=dict(metadata) if metadata else None)
    with new_file(path, private=private) as file, kind(file, schema) as writer:
        yield writer


class _Parquet:
    """Floats without compression and dictionary: noise does not compress, and trying costs more than the disk.

    Arrow writes to the file itself: through Python's every page would be copied once more. Pages stay in the cache.
    """

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        compression = {f.name: "none" if pa.types.is_floating(f.type) else "zstd" for f in schema}
        self._schema = schema
        self._file = pa.OSFile(file.name, "wb")
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression=compression,
            use_dictionary=False,
            write_statistics=False,
            write_batch_size=PAGE_CELLS,
            data_page_size=8 * PAGE_CELLS,
        )

    def write(self, block: pa.RecordBatch | pa.Table) -> None:
        self._writer.write_table(_fitted(block, self._schema))

    def __enter__(self) -> _Parquet:
        return self

    def __exit__(self, *_: object) -> None:
        with self._file:
            self._writer.close()


class _Ipc:
    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pa.ipc.new_file(file, schema)

    def write(self, block: pa.RecordBatch | pa.Table) -> None:
        self._writer.write_table(_fitted(block, self._schema))

    def __enter__(self) -> _Ipc:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()


class _Csv:
    """Cells as text: floats read back exactly, and an empty cell is a missing one."""

    def __init__(self, file: IO[bytes], schema: pa.Schema, separator: str = ",") -> None:
        self._file, self._schema, self._separator = file, schema, separator
        self._first = True

    def write(self, block: pa.RecordBatch | pa.Table) -> None:
        table = _fitted(block, self._schema.remove_metadata())
        write_lines(table, self._file, header=self._first, separator=self._separator)
        self._first = False

    def __enter__(self) -> _Csv:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._first and kind is None:
            self.write(self._schema.empty_table())


class _Tsv(_Csv):
    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        super().__init__(file, schema, separator="\t")


KINDS: dict[str, Any] = {
    ".parquet": _Parquet,
    ".pq": _Parquet,
    ".csv": _Csv,
    ".tsv": _Tsv,
    ".arrow": _Ipc,
    ".feather": _Ipc,
    ".ipc": _Ipc,
    **{ending: partial(StatisticalWriter, ending=ending) for ending in (".sav", ".zsav", ".dta", ".xpt")},
    **{ending: partial(SheetWriter, ending=ending) for ending in (".xlsx", ".ods")},
}
RELEASE_FORMATS = ("parquet", "csv", "sav", "zsav", "dta", "xpt", "xlsx", "ods")
"""What a release can be written as. Only Parquet carries the card inside."""


def _kind(path: Path) -> Any:
    try:
        return KINDS[path.suffix.lower()]
    except KeyError:
        raise OutputError(f"{path} has an ending that sfumato cannot write. It can write {', '.join(KINDS)}.") from None


def _fitted(block: pa.RecordBatch | pa.Table, schema: pa.Schema) -> pa.Table:
    """The block with the file's columns and metadata."""
    table = pa.Table.from_batches([block]) if isinstance(block, pa.RecordBatch) else block
    return table.select(schema.names).cast(schema)
