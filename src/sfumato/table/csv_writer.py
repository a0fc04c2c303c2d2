"""Write CSV: by polars where it is installed, which is quicker, and by Arrow elsewhere; both files read back alike."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc


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
        file.write(
            _joined([_quoted(pa.array([name], pa.large_string()), separator) for name in table.schema.names], separator)
        )
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
