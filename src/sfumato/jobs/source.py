"""A private table as encoded blocks, read as often as a fit needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import TableError
from sfumato.table import Encoding, Table

BLOCK_ROWS = 1 << 16


@dataclass(frozen=True)
class SourceBlock:
    """Encoded rows with the number of their block and of their first row in the table."""

    number: int
    rows: NDArray[np.int64]
    X: NDArray[np.float64]
    y: NDArray[np.int64] | None


@dataclass
class Source:
    """The owner's table, encoded block by block; at most `max_rows_per_person` rows of each person are used."""

    table: Table
    encoding: Encoding
    out_of_bounds: str = "clip"
    max_rows_per_person: int | None = None
    block_rows: int = BLOCK_ROWS
    keep_in_memory: bool = False
    clipped: dict[str, int] = field(default_factory=dict)
    most_rows_of_a_person: int = 0
    _kept: list[SourceBlock] | None = field(default=None, repr=False)

    @property
    def rows(self) -> int | None:
        """Number of rows where it is known without reading."""
        return self.table.rows

    def blocks(self) -> Iterator[SourceBlock]:
        """All blocks, in order."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[SourceBlock] = []
        for block in self._read():
            if self.keep_in_memory:
                kept.append(block)
            yield block
        if self.keep_in_memory:
            self._kept = kept

    def _read(self) -> Iterator[SourceBlock]:
        self.clipped = {}
        seen: dict[int, int] = {}
        first = 0
        for number, batch in enumerate(self.table.blocks(self.block_rows)):
            rows = np.arange(first, first + batch.num_rows)
            start, first = first, first + batch.num_rows
            if self.encoding.schema.person is not None:
                keep = self._within_cap(self.encoding.person_codes(batch), seen)
                if not keep.all():
                    rows = rows[keep]
                    batch = batch.filter(keep)
            encoded = self.encoding.encode(batch, self.out_of_bounds, first_row=start)
            labelled = self.encoding.schema.label is not None
            codes = self.encoding.encode_label(batch, first_row=start) if labelled else None
            for name, count in encoded.clipped.items():
                self.clipped[name] = self.clipped.get(name, 0) + count
            yield SourceBlock(number, rows, encoded.X, codes)
        if first < 2:
            raise TableError(f"The table has {first} rows; at least two are needed.")

    def _within_cap(self, persons: NDArray[np.uint64], seen: dict[int, int]) -> NDArray[np.bool_]:
        """Which rows are among the first `max_rows_per_person` of their person."""
        unique, inverse, counts = np.unique(persons, return_inverse=True, return_counts=True)
        before = np.array([seen.get(int(person), 0) for person in unique], dtype=np.int64)
        order = np.argsort(inverse, kind="stable")
        starts = np.cumsum(counts) - counts
        rank = np.empty(len(persons), dtype=np.int64)
        rank[order] = np.arange(len(persons)) - np.repeat(starts, counts)
        rank += before[inverse]
        cap = self.max_rows_per_person
        keep = rank < cap if cap is not None else np.ones(len(persons), dtype=bool)
        for person, total in zip(unique, before + counts, strict=True):
            seen[int(person)] = int(total)
        used = before + counts if cap is None else np.minimum(before + counts, cap)
        self.most_rows_of_a_person = max(self.most_rows_of_a_person, int(used.max(initial=0)))
        return keep
