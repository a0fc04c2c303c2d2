"""Cells of some columns as codes, read block by block: a word is a value, and a number is one too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.array_types import Codes, Matrix
from sfumato.table.arrays import is_number, numbers, plain, text


@dataclass(frozen=True)
class Cells:
    """Codes of each column that a table has, and the columns whose codes are ranks of numbers."""

    codes: Mapping[str, Codes]
    ordered: frozenset[str]


class CellCodes:
    """Every word of a quasi-identifier gets a number when it is first seen, the same in every table that is read.

    "30-39" and "*" are words too, so that generalised tables are coded as they are. Numbers are spelt alike whatever
    their type, and an empty cell is a value like others. Sensitive columns of numbers are coded by rank, table by
    table: they may have millions of values, and are not compared between tables.
    """

    def __init__(self, quasi: Sequence[str], sensitive: Sequence[str]) -> None:
        self._quasi, self._names = frozenset(quasi), (*quasi, *sensitive)
        self._known: dict[str, dict[str | None, int]] = {name: {} for name in self._names}

    def read(self, blocks: Iterable[pa.RecordBatch | pa.Table]) -> Cells:
        """All cells of the named columns."""
        codes: dict[str, list[Codes]] = {}
        values: dict[str, list[Matrix]] = {}
        for block in blocks:
            for name in self._names:
                if name not in block.schema.names:
                    continue
                array = plain(block.column(name))
                if name not in self._quasi and is_number(array.type):
                    found, empty = numbers(array, name)
                    values.setdefault(name, []).append(found if empty is None else np.where(empty, np.nan, found))
                else:
                    codes.setdefault(name, []).append(self._coded(name, array))
        ranked = {name: _ranks(np.concatenate(parts)) for name, parts in values.items()}
        return Cells({name: np.concatenate(parts) for name, parts in codes.items()} | ranked, frozenset(ranked))

    def _coded(self, name: str, array: pa.Array) -> Codes:
        if pa.types.is_null(array.type):
            return np.full(len(array), self._number(name, None), dtype=np.int64)
        encoded = array.dictionary_encode("encode")
        words = text(encoded.dictionary, name).to_pylist()
        here = np.array([self._number(name, word) for word in words], dtype=np.int64)
        return np.asarray(here[encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)])

    def _number(self, name: str, word: str | None) -> int:
        known = self._known[name]
        return known.setdefault(word, len(known))


def _ranks(values: Matrix) -> Codes:
    """The rank of each number among those that occur; an empty cell comes last."""
    return np.asarray(np.unique(values, return_inverse=True)[1], dtype=np.int64).reshape(-1)
