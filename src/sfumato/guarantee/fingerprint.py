"""A keyed fingerprint of a whole table: how ledgers of earlier versions know rows again, all of them or none."""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
from numpy.typing import NDArray

from sfumato.array_types import Floats

TILE = 1 << 15  # rows that are hashed at a time: a column of them stays in the cache


class Fingerprint:
    """A keyed fingerprint of a set of rows that does not depend on their order; added up block by block.

    Each row is hashed to 64 bits by a keyed multilinear form over the words of its encoded values, mixed, and
    summed; the sums go through HMAC. Without the ledger's key the fingerprint tells nothing about the rows.
    """

    def __init__(self, key: bytes, width: int):
        self._key = key
        seed = int.from_bytes(hmac.new(key, b"rows", hashlib.sha256).digest()[:16], "little")
        generator = np.random.Generator(np.random.PCG64(seed))
        self._weights = generator.integers(1, 2**64, size=width, dtype=np.uint64) | np.uint64(1)
        self._sums = np.zeros(2, dtype=np.uint64)
        self._rows = 0

    def add(self, X: Floats) -> None:
        """Take in one block of encoded rows."""
        self.merge(self.sums(X), len(X))

    def merge(self, sums: NDArray[np.uint64], rows: int) -> None:
        """Take in the `sums` of that many rows."""
        self._sums += sums
        self._rows += rows

    def sums(self, X: Floats) -> NDArray[np.uint64]:
        """What one block adds: any thread may compute it, any order of merging gives the same fingerprint."""
        total = np.zeros(2, dtype=np.uint64)
        size = min(TILE, len(X))
        rows, cells, spare = (np.empty(size, dtype=np.uint64) for _ in range(3))
        for start in range(0, len(X), TILE):
            tile = X[start : start + TILE]
            row = self._hashed(tile, rows[: len(tile)], cells[: len(tile)], spare[: len(tile)])
            total += np.array([row.sum(dtype=np.uint64), (row * row).sum(dtype=np.uint64)], dtype=np.uint64)
        return total

    def _hashed(
        self, X: Floats, row: NDArray[np.uint64], mixed: NDArray[np.uint64], spare: NDArray[np.uint64]
    ) -> NDArray[np.uint64]:
        """The hash of every row, column after column: `mixed` and `spare` are room to work in."""
        row[:] = 0
        for column, weight in zip(X.T, self._weights, strict=True):
            np.add(column, 0.0, out=mixed.view(np.float64))  # makes -0 and 0 the same row
            _fold(mixed, 29, spare)
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
            _fold(mixed, 32, spare)
            mixed *= weight
            row += mixed
        _fold(row, 31, spare)
        row *= np.uint64(0x94D049BB133111EB)
        _fold(row, 29, spare)
        return row

    def hexdigest(self) -> str:
        message = self._sums.tobytes() + self._rows.to_bytes(8, "little")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()


def _fold(words: NDArray[np.uint64], bits: int, spare: NDArray[np.uint64]) -> None:
    np.right_shift(words, np.uint64(bits), out=spare)
    words ^= spare
