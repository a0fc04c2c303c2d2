"""Many random words at once: AES-128 of a counter, computed block after block by OpenSSL.

They are what `randomgen.AESCounter` draws under the same key from the middle of its counter on, at a seventh of the
cost: a NumPy generator asks for its words one by one.
"""

from __future__ import annotations

import threading

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

FIRST = 1 << 127
"""The first counter. A generator under the same key counts from 0, and neither ever reaches the other."""
_HIGH = np.uint64(FIRST >> 64)
_FEWEST, _CHUNK = 32, 1 << 13
"""Blocks that are encrypted at a time: the fewest, and as many as stay in the cache."""


class BulkWords:
    """The sequence of words AES(key, 2^127), AES(key, 2^127 + 1), ..., little-endian, however it is asked for.

    Threads that share it get different words: as in NumPy's own generators, one draws at a time.
    """

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        self._next = 0
        self._left = np.empty(0, dtype=np.uint64)
        self._lock = threading.Lock()

    def draw(self, count: int) -> NDArray[np.uint64]:
        """The next `count` words, which the caller may overwrite."""
        if count < 0:
            raise ValueError("negative dimensions are not allowed")  # in NumPy's words
        with self._lock:
            missing = count - len(self._left)
            found = self._left
            if missing > 0:
                blocks = max(_FEWEST, -(-missing // 2))
                found = np.empty(len(self._left) + 2 * blocks + 2, dtype=np.uint64)  # OpenSSL wants room for one more
                found[: len(self._left)] = self._left
                self._encrypt(found[len(self._left) :], blocks)
                found = found[:-2]
            self._left = found[count:]
        return found[:count]

    def _encrypt(self, room: NDArray[np.uint64], blocks: int) -> None:
        """Fill `room` with the next `blocks` blocks; two words of it stay free."""
        size = min(blocks, _CHUNK)
        counters = np.empty((size, 2), dtype="<u8")
        counters[:, 0] = np.arange(self._next, self._next + size, dtype=np.uint64)
        counters[:, 1] = _HIGH
        plain, sealed = counters.data.cast("B"), room.data.cast("B")
        for start in range(0, blocks, size):
            many = min(size, blocks - start)
            self._encryptor.update_into(plain[: 16 * many], sealed[16 * start :])
            counters[:, 0] += np.uint64(many)
        self._next += blocks
