"""What a table holds, as a hash: the same for the same cells in the same order, whichever file they were read from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.core.errors import TableError
from sfumato.table.tables import Table

_DOMAIN = b"sfumato/table/content/1"


def content_of(table: Table) -> dict[str, str]:
    """SHA-256 of each column, by name: of its kind, of which cells are empty, and of every value with all its bits."""
    found = {name: _Column() for name in table.names}
    for block in table.blocks():
        for name, cells in zip(block.schema.names, block.columns, strict=True):
            found[name].add(cells, name)
    return {name: column.hexdigest() for name, column in found.items()}


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
        empty.update(_bytes(values.is_null().cast(pa.uint8()), "u1"))
        if pa.types.is_large_string(values.type):
            text = pc.fill_null(values, "").cast(pa.large_binary())
            lengths.update(_bytes(pc.binary_length(text), "<i8"))
            content.update(b"".join(text.to_pylist()))
        else:
            dtype = "<f8" if pa.types.is_floating(values.type) else "<i8"
            content.update(_bytes(pc.fill_null(values, 0), dtype))

    def hexdigest(self) -> str:
        head = f"{self.kind}|{self.rows}|".encode()
        return hashlib.sha256(head + b"".join(part.digest() for part in self._parts)).hexdigest()


def _bytes(numbers: pa.Array, dtype: str) -> bytes:
    return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=dtype).tobytes()


def _plain(cells: pa.Array, name: str) -> tuple[str, Any]:
    """Kind and values: whole numbers, other numbers, or text, which everything else is written as."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    of = cells.type
    if pa.types.is_integer(of) and of != pa.uint64():
        return "whole", cells.cast(pa.int64())
    if pa.types.is_floating(of):
        return "number", cells.cast(pa.float64())
    text = pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of)
    try:
        return "text" if text else str(of), cells.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise TableError(f"Column {name!r} holds {of}, which has no hash. Leave the column out.") from None
