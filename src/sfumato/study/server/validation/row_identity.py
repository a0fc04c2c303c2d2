"""Which rows a release holds, whatever their order, file, compression or number type.

`identity` is one hash of the decoded rows as a multiset: equal rows in any order and any file have it in common.
`sketch` holds the rows with the smallest hashes, and how often each occurs: two sketches tell how many rows two
releases share (see `sfumato.study.server.store.release_store`), without either being read again.

Cells are rounded to a 65,536th of their range before they are hashed: written again in single precision, nearly all
rows are still known. The hash has no secret, and need not withstand forgery: anybody who wants a row to look new can
change it.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.core.array_types import Codes, Matrix
from sfumato.ledger.memories import RowHash

SKETCH_ROWS = 1024  # different rows that a sketch keeps; a release with fewer is in it completely
STEPS = 2.0**16  # cells of one range are told apart in so many steps
NOT_REPORTED = -(2.0**40)  # stands for a cell that is not reported: further out than any that is
_PUBLIC_KEY = bytes(16)
ENTRY = np.dtype([("hash", "<u8"), ("times", "<u4")])


@dataclass(frozen=True)
class Sketch:
    """The rows with the smallest hashes, sorted by hash; `whole`: all rows of the release are among them."""

    entries: NDArray[np.void]
    whole: bool

    def to_bytes(self) -> bytes:
        return struct.pack("<B", self.whole) + self.entries.tobytes()

    @classmethod
    def from_bytes(cls, stored: bytes) -> Sketch:
        return cls(np.frombuffer(stored[1:], dtype=ENTRY), bool(stored[0]))


class RowIdentity:
    """Add up blocks of the release matrix with their class codes; order does not matter."""

    def __init__(self, width: int) -> None:
        self._hash = RowHash(_PUBLIC_KEY, "pushed rows", width + 1)
        self._sums = np.zeros(4, dtype=np.uint64)
        self._rows, self._width = 0, width
        self._kept = np.empty(0, dtype=ENTRY)
        self._whole = True

    def add(self, matrix: Matrix, codes: Codes | None) -> None:
        if len(matrix) == 0:
            return
        cells = np.empty((len(matrix), self._width + 1))
        with np.errstate(over="ignore"):  # received before such cells were refused
            np.rint(matrix * STEPS, out=cells[:, :-1])
        cells[np.isnan(cells)] = NOT_REPORTED
        cells[:, -1] = -1.0 if codes is None else codes
        parts = np.frombuffer(self._hash.of_rows(cells).tobytes(), dtype="<u4").reshape(-1, 4)
        self._rows += len(parts)
        self._sums += parts.sum(axis=0, dtype=np.uint64)  # of fewer than 2^32 rows: no sum overflows
        first = np.ascontiguousarray(parts[:, :2]).view("<u8").ravel()
        hashes, times = np.unique(first, return_counts=True)
        # Merged with what was kept before; the smallest hashes stay.
        both = np.concatenate([self._kept["hash"], hashes])
        found, place = np.unique(both, return_inverse=True)
        counts = np.bincount(place, weights=np.concatenate([self._kept["times"], times]), minlength=len(found))
        self._whole &= len(found) <= SKETCH_ROWS
        self._kept = np.empty(min(len(found), SKETCH_ROWS), dtype=ENTRY)
        self._kept["hash"] = found[:SKETCH_ROWS]
        self._kept["times"] = np.minimum(counts[:SKETCH_ROWS], 2**32 - 1)

    @property
    def identity(self) -> str:
        """64 hexadecimal digits."""
        return hashlib.sha256(struct.pack("<2Q", self._rows, self._width) + self._sums.tobytes()).hexdigest()

    @property
    def sketch(self) -> str:
        """As it travels from the child that reads a file."""
        return base64.b64encode(Sketch(self._kept, self._whole).to_bytes()).decode()
