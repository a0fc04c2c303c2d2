"""Write tables: Parquet, CSV, Arrow, files of statistics programs and sheets; whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.errors import OutputError
from sfumato.core.files import new_file, write_back
from sfumato.table.spreadsheet import MOST_ROWS, SHEETS, ods_content, rows_of, xlsx_content
from sfumato.table.statistical import needed, statistical_content
from sfumato.table.tables import BLOCK_ROWS, bare

# Write CSV: by polars where it is installed, which is quicker, and by Arrow elsewhere; both files read back alike.


@cache
def has_polars() -> bool:
    """Whether the extra `polars` is installed; importing it is left to the first block that is written."""
    return find_spec("polars") is not None


def write_lines(table: pa.Table, file: IO[bytes], *, header: bool, separator: str) -> None:
    """Append a table's rows to a CSV file: a cell is quoted where it must be, and an empty one is missing."""
    if has_polars():
        import polars

        frame: Any = polars.from_arrow(table)
        frame.write_csv(file, include_header=header, separator=separator)
        return
    if header:
        names = (pa.array([name], pa.large_string()) for name in table.schema.names)
        file.write(_joined([_quoted(name, separator) for name in names], separator))
    if table.num_rows:
        file.write(_joined([_printed(column, separator) for column in table.columns], separator))


def _joined(columns: list[Any], separator: str) -> bytes:
    """The lines of a block. Columns of printed cells come in, none of them missing."""
    rows = pc.binary_join_element_wise(*columns, pa.scalar(separator, pa.large_string()))
    rows = rows.combine_chunks() if isinstance(rows, pa.ChunkedArray) else rows
    lines = pa.LargeListArray.from_arrays(pa.array([0, len(rows)], pa.int64()), rows)
    text: bytes = pc.binary_join(lines, pa.scalar("\n", pa.large_string()))[0].as_buffer().to_pybytes()
    return text + b"\n"


def _printed(column: pa.ChunkedArray, separator: str) -> Any:
    """A column's cells as they stand in the file. A float keeps its point, so that it is read as a float again."""
    cells = column.cast(pa.large_string())
    if pa.types.is_floating(column.type):
        whole = pc.equal(pc.floor(column), column)
        if pc.any(whole).as_py():
            cells = pc.replace_substring_regex(cells, r"^(-?\d+)$", r"\1.0")
    elif pa.types.is_timestamp(column.type):
        cells = pc.replace_substring(cells, " ", "T")
    elif not pa.types.is_primitive(column.type):
        cells = _quoted(cells, separator)
    return pc.fill_null(cells, "")


def _quoted(cells: Any, separator: str) -> Any:
    """Text between quotes where it holds what a reader would take for the end of a cell, and where it is empty."""
    needed = pc.or_(pc.match_substring_regex(cells, f'[{separator}"\\n\\r]'), pc.equal(pc.binary_length(cells), 0))
    if not pc.any(needed).as_py():
        return cells
    mark, nothing = pa.scalar('"', pa.large_string()), pa.scalar("", pa.large_string())
    wrapped = pc.binary_join_element_wise(mark, pc.replace_substring(cells, '"', '""'), mark, nothing)
    return pc.if_else(needed, wrapped, cells)


PAGE_CELLS = 1 << 14
"""Cells of a column that Parquet encodes and writes at a time."""
Write = Callable[[pa.Table], object]
"""Appends one block to a file."""


def write_table(
    table: pa.Table | Iterable[pa.RecordBatch],
    path: Path | str,
    metadata: Mapping[str, str | bytes] | None = None,
    *,
    private: bool = False,
) -> int:
    """Write a table, or a stream of blocks, as its path's ending says; returns the number of rows. `metadata` goes into
    the file where the format has room for it (Parquet, Arrow). Nothing of a source's own metadata is written. With
    `private` only the owner can read the file."""
    if isinstance(table, pa.Table):
        schema, blocks = table.schema, iter(table.to_batches(max_chunksize=BLOCK_ROWS))
    else:
        stream = iter(table)
        if (first := next(stream, None)) is None:
            raise OutputError(f"{path}: a stream without blocks has no columns, so there is nothing to write.")
        schema, blocks = first.schema, chain([first], stream)
        del first  # blocks are let go of as they are written
    rows = 0
    with table_writer(path, schema, metadata, private=private) as writer:
        for block in blocks:
            writer(block)
            rows += block.num_rows
    return rows


@contextmanager
def table_writer(
    path: Path | str, schema: pa.Schema, metadata: Mapping[str, str | bytes] | None = None, *, private: bool = False
) -> Iterator[Write]:
    """What appends a block; the file appears under its name when the block of code ends well, else never."""
    path = Path(path)
    if (kind := KINDS.get(path.suffix.lower())) is None:
        raise OutputError(f"{path} has an ending that sfumato cannot write. It can write {', '.join(KINDS)}.")
    fields = [found.with_nullable(field.nullable) for found, field in zip(bare(schema), schema, strict=True)]
    schema = pa.schema(fields, metadata=dict(metadata) if metadata else None)
    with new_file(path, private=private) as file, kind(file, schema) as append:

        def write(block: pa.RecordBatch | pa.Table) -> None:
            """With the file's columns and metadata."""
            table = pa.Table.from_batches([block]) if isinstance(block, pa.RecordBatch) else block
            table = table.select(schema.names)
            alike = table.schema.types == schema.types  # nearly always, and then nothing is converted
            append(pa.Table.from_arrays(table.columns, schema=schema) if alike else table.cast(schema))

        yield write


@contextmanager
def _parquet(file: IO[bytes], schema: pa.Schema) -> Iterator[Write]:
    """Floats without compression and dictionary: noise does not compress, and trying costs more than the disk. Arrow
    writes to the file itself: through Python's every page would be copied once more. Pages stay in the cache."""
    import pyarrow.parquet as pq  # slow to load, and a card is read without a table

    compression = {f.name: "none" if pa.types.is_floating(f.type) else "zstd" for f in schema}
    with (
        pa.OSFile(file.name, "wb") as opened,
        pq.ParquetWriter(
            opened,
            schema,
            compression=compression,
            use_dictionary=False,
            write_statistics=False,
            write_batch_size=PAGE_CELLS,
            data_page_size=8 * PAGE_CELLS,
        ) as writer,
    ):

        def write(table: pa.Table) -> None:
            writer.write_table(table)
            write_back(file)

        yield write


@contextmanager
def _ipc(file: IO[bytes], schema: pa.Schema) -> Iterator[Write]:
    with pa.ipc.new_file(file, schema) as writer:
        yield writer.write_table


@contextmanager
def _csv(file: IO[bytes], schema: pa.Schema, separator: str = ",") -> Iterator[Write]:
    """Cells as text: floats read back exactly, and an empty cell is a missing one."""
    headed = False

    def write(table: pa.Table) -> None:
        nonlocal headed
        write_lines(table, file, header=not headed, separator=separator)
        headed = True

    yield write
    if not headed:
        write(schema.empty_table())


@contextmanager
def _whole(file: IO[bytes], schema: pa.Schema, ending: str) -> Iterator[Write]:
    """The file is written when all blocks are there: writers of such files know no blocks."""
    if sheet := ending in SHEETS:
        needed("odf.opendocument" if ending == ".ods" else "openpyxl", f"Writing {ending} files")
    else:
        needed("pyreadstat", f"Writing {ending} files")
        needed("pandas", f"Writing {ending} files")
    blocks: list[pa.Table] = []

    def write(table: pa.Table) -> None:
        blocks.append(table.replace_schema_metadata())
        if sheet and sum(block.num_rows for block in blocks) >= MOST_ROWS:
            raise OutputError(f"A sheet holds at most {MOST_ROWS - 1:,} rows. Choose --format parquet or csv.")

    yield write
    whole = pa.concat_tables(blocks) if blocks else schema.remove_metadata().empty_table()
    try:
        if sheet:
            content = (ods_content if ending == ".ods" else xlsx_content)(rows_of(whole))
        else:
            content = statistical_content(whole, ending, Path(str(file.name)).parent)
    except Exception as error:
        # The writer's own words may quote a cell, so only their kind is repeated.
        raise OutputError(
            f"The table cannot be written as {ending} ({type(error).__name__}): the format may not take its cells or "
            "a column's name (SPSS, Stata and SAS: letters, digits, _; at most 32 characters). Choose another --format."
        ) from None
    file.write(content)


KINDS: dict[str, Any] = {
    ".parquet": _parquet,
    ".pq": _parquet,
    ".csv": _csv,
    ".tsv": partial(_csv, separator="\t"),
    ".arrow": _ipc,
    ".feather": _ipc,
    ".ipc": _ipc,
    **{ending: partial(_whole, ending=ending) for ending in (".sav", ".zsav", ".dta", ".xpt", ".xlsx", ".ods")},
}
