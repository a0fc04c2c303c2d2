"""Keyed 128-bit hashes of rows and people, by which a ledger knows them again without knowing them."""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from sfumato.array_types import Floats, Hashes

HASH_BYTES = 16

_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
TILE = 1 << 15  # cells that are hashed at a time: they stay in the cache


class RowHash:
    """A pseudorandom function of encoded rows, computed per block.

    Two sums of 64 bits over the row's words, each mixed with secret words of its own (a keyed universal hash), then
    AES-128 of both together: without the key, hashes tell no more than which rows are equal.
    """

    def __init__(self, key: bytes, series: str, width: int):
        self._key = hmac.new(key, b"row/" + series.encode(), hashlib.sha256).digest()
        seed = int.from_bytes(self._key[16:], "little")
        secret = np.random.Generator(np.random.PCG64(seed)).integers(0, 2**64, size=(2, 2, width), dtype=np.uint64)
        self._masks, self._weights = secret[0], secret[1] | np.uint64(1)

    def of_rows(self, cells: Floats) -> Hashes:
        """Hashes of encoded rows (n, width); equal rows, and only they, have equal hashes."""
        sums = np.empty((len(cells), 2), dtype=np.uint64)
        step = max(64, TILE // max(1, cells.shape[1]))
        for start in range(0, len(cells), step):
            words = np.ascontiguousarray(cells[start : start + step].T + 0.0).view(np.uint64)  # -0 and 0 are one row
            for lane in range(2):
                sums[start : start + step, lane] = self._lane(words, lane)
        return self._encrypted(sums.tobytes())

    def _lane(self, words: NDArray[np.uint64], lane: int) -> NDArray[np.uint64]:
        mixed = words ^ self._masks[lane][:, None]
        for multiplier in _MIXERS:
            mixed ^= mixed >> np.uint64(31)
            mixed *= multiplier
        mixed ^= mixed >> np.uint64(29)
        mixed *= self._weights[lane][:, None]
        total: NDArray[np.uint64] = mixed.sum(axis=0, dtype=np.uint64)
        return total

    def _encrypted(self, blocks: bytes) -> Hashes:
        # One block, one row: that equal rows give equal words is what is wanted of a hash here.
        encryptor = Cipher(algorithms.AES(self._key[:16]), modes.ECB()).encryptor()
        return np.frombuffer(encryptor.update(blocks) + encryptor.finalize(), dtype=f"S{HASH_BYTES}")

    @property
    def person_key(self) -> bytes:
        """The key under which people, rather than rows, are hashed."""
        return hmac.new(self._key, b"person", hashlib.sha256).digest()
