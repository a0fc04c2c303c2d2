"""A table that is piped in. It is kept in memory, never in a file: passes over it start again from there."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.core.errors import TableError
from sfumato.table.csv_table import CsvTable, Dialect
from sfumato.table.tables import MemoryTable, Table, WithoutWords

NAME = "Standard input"


def table_from(stream: IO[bytes], dialect: Dialect | None = None) -> Table:
    """Parquet and Arrow by their first bytes; anything else is CSV, plain or compressed."""
    content = stream.read()
    if not content:
        raise TableError(f"{NAME} is empty. Pipe a table into it.")
    if (typed := _typed(content)) is not None:
        return WithoutWords(typed, dialect.missing) if dialect is not None and dialect.missing else typed
    return CsvTable(Path(NAME), dialect=dialect, content=content)


def _typed(content: bytes) -> Table | None:
    try:
        if content.startswith(b"PAR1"):
            return MemoryTable(pq.read_table(pa.BufferReader(content)), NAME)
        if content.startswith(b"ARROW1"):
            return MemoryTable(pa.ipc.open_file(pa.BufferReader(content)).read_all(), NAME)
        if content.startswith(b"\xff\xff\xff\xff"):
            return MemoryTable(pa.ipc.open_stream(pa.BufferReader(content)).read_all(), NAME)
    except (pa.ArrowException, OSError):
        raise TableError(f"{NAME} looks like Parquet or Arrow, but is damaged or truncated.") from None
    return None
