"""What a table holds, as a hash: the same for the same cells in the same order, whichever file they were read from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.errors import TableError
from sfumato.table.arrays import is_text
from sfumato.table.tables import Table

_DOMAIN = b"sfumato/table/content/1"


class Content:
    """SHA-256 of each column, block by block: of its kind, of which cells are empty, and of every value with all its
    bits. Where blocks end does not matter."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._columns = {name: _Column() for name in names}

    def add(self, block: pa.RecordBatch) -> pa.RecordBatch:
        """Take in a block, and give it back."""
        for name, cells in zip(block.schema.names, block.columns, strict=True):
            self._columns.setdefault(name, _Column()).add(cells, name)
        return block

    def by_name(self) -> dict[str, str]:
        """The hash of each column."""
        return {name: column.hexdigest() for name, column in self._columns.items()}


def content_of(table: Table) -> dict[str, str]:
    """The hash of each column of a table, by name."""
    found = Content(table.names)
    for block in table.blocks():
        found.add(block)
    return found.by_name()


def content_digest(columns: Mapping[str, str]) -> bytes:
    """One hash of all columns in their order, from what `content_of` found."""
    digest = hashlib.sha256(_DOMAIN)
    for name, column in columns.items():
        digest.update(hashlib.sha256(name.encode()).digest() + bytes.fromhex(column))
    return digest.digest()


class _Column:
    """The hash of a column, block by block; where blocks end does not matter."""

    def __init__(self) -> None:
        self.kind, self.rows = "", 0
        self._parts = [hashlib.sha256() for _ in range(3)]

    def add(self, cells: pa.Array, name: str) -> None:
        self.kind, values = _plain(cells, name)
        self.rows += len(values)
        empty, lengths, content = self._parts
        empty.update(_bytes(values.is_null().cast(pa.uint8()), "u1") if values.null_count else bytes(len(values)))
        if pa.types.is_large_string(values.type):
            text = pc.fill_null(values, "").cast(pa.large_binary())
            lengths.update(_bytes(pc.binary_length(text), "<i8"))
            content.update(b"".join(text.to_pylist()))
        else:
            dtype = "<f8" if pa.types.is_floating(values.type) else "<i8"
            content.update(_bytes(pc.fill_null(values, 0) if values.null_count else values, dtype))

    def hexdigest(self) -> str:
        head = f"{self.kind}|{self.rows}|".encode()
        return hashlib.sha256(head + b"".join(part.digest() for part in self._parts)).hexdigest()


def _bytes(numbers: pa.Array, dtype: str) -> memoryview:
    return np.ascontiguousarray(numbers.to_numpy(zero_copy_only=False), dtype=dtype).data


def _plain(cells: pa.Array, name: str) -> tuple[str, Any]:
    """Kind and values: whole numbers, other numbers, or text, which everything else is written as."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    of = cells.type
    if pa.types.is_integer(of) and of != pa.uint64():
        return "whole", cells.cast(pa.int64())
    if pa.types.is_floating(of):
        return "number", cells.cast(pa.float64())
    try:
        return "text" if is_text(of) else str(of), cells.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise TableError(f"Column {name!r} holds {of}, which has no hash. Leave the column out.") from None
