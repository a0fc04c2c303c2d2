"""Cells of some columns as codes that mean the same in every table, read block by block: a word is a value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from sfumato.array_types import Codes
from sfumato.table.arrays import plain, text


class CellCodes:
    """Every word of every column gets a number when it is first seen; an empty cell is a value like others.

    "30-39" and "*" are words too, so that generalised tables are coded as they are. Numbers are spelt alike whatever
    their type.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._known: dict[str, dict[str | None, int]] = {name: {} for name in names}

    def read(self, blocks: Iterable[pa.RecordBatch | pa.Table]) -> Mapping[str, Codes]:
        """The codes of each column that the blocks have."""
        found: dict[str, list[Codes]] = {}
        for block in blocks:
            for name in self.names:
                if name in block.schema.names:
                    found.setdefault(name, []).append(self._coded(name, plain(block.column(name))))
        return {name: np.concatenate(parts) for name, parts in found.items()}

    def _coded(self, name: str, array: pa.Array) -> Codes:
        encoded = array.dictionary_encode("encode") if not pa.types.is_null(array.type) else None
        if encoded is None:
            return np.full(len(array), self._number(name, None), dtype=np.int64)
        words = text(encoded.dictionary, name).to_pylist()
        here = np.array([self._number(name, word) for word in words], dtype=np.int64)
        return np.asarray(here[encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)])

    def _number(self, name: str, word: str | None) -> int:
        known = self._known[name]
        return known.setdefault(word, len(known))

    def ranks(self, name: str) -> Codes | None:
        """The rank of each code where every word of the column is a number; None where one is not."""
        words = [word for word in self._known[name] if word is not None]
        try:
            values = [float(word) for word in words]
        except ValueError:
            return None
        order = {value: rank for rank, value in enumerate(sorted(set(values)))}
        by_word = dict(zip(words, values, strict=True))
        return np.array([len(order) if word is None else order[by_word[word]] for word in self._known[name]])
