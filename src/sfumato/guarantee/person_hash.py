"""Keyed 64-bit fingerprints of rows over any of their columns, and of people by their names.

A row's words are mixed with secrets that belong to the column's name, and added up: the order of columns plays no part,
and a fingerprint over fewer columns is the sum over fewer. AES of the sum makes it a pseudorandom function: without the
key, equal fingerprints tell that two rows are equal and nothing else. Two different rows share one by chance once in
2^60 pairs or so, which makes a total too large and never too small.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterator, Sequence
from typing import IO

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from sfumato.core.array_types import Floats, Hashes
from sfumato.guarantee.spool import Spool
from sfumato.table.cell_sets import Words
from sfumato.table.persons import one_spelling

# A keyed fingerprint of a whole table: how ledgers of earlier versions know rows again, all of them or none.


PRINT_TILE = 1 << 15  # rows that are hashed at a time: a column of them stays in the cache


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
        size = min(PRINT_TILE, len(X))
        rows, cells, spare = (np.empty(size, dtype=np.uint64) for _ in range(3))
        for start in range(0, len(X), PRINT_TILE):
            tile = X[start : start + PRINT_TILE]
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


Prints = NDArray[np.uint64]
"""Fingerprints, one a row."""
TAG_BYTES = 8
NONCE_BYTES = 16
_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
TILE = 1 << 15  # rows that are mixed at a time: they stay in the cache


class PersonHash:
    """All that is made from the ledger's key to know people again."""

    def __init__(self, key: bytes):
        self._key = hmac.new(key, b"people", hashlib.sha256).digest()

    def tag(self, column: str) -> str:
        """What the ledger keeps of a column's name: equal for names that are spelt alike."""
        return self._of_column(one_spelling(column) or column)[:TAG_BYTES].hex()

    def secrets(self, tag: str) -> tuple[np.uint64, np.uint64]:
        """Mask and odd weight of a column."""
        found = hmac.new(self._key, b"mix/" + tag.encode(), hashlib.sha256).digest()
        mask, weight = np.frombuffer(found[:16], dtype="<u8")
        return np.uint64(mask), np.uint64(weight) | np.uint64(1)

    def of_rows(self, words: Sequence[Words], tags: Sequence[str]) -> Prints:
        """Fingerprints over these columns: words (n,) of each, with the tag of its name."""
        rows = len(words[0])
        sums, room, other = np.zeros(rows, dtype=np.uint64), *np.empty((2, min(TILE, rows)), dtype=np.uint64)
        secrets = [self.secrets(tag) for tag in tags]
        for start in range(0, rows, TILE):
            total = sums[start : start + TILE]
            mixed, spare = room[: len(total)], other[: len(total)]
            for column, (mask, weight) in zip(words, secrets, strict=True):
                np.bitwise_xor(column[start : start + TILE], mask, out=mixed)
                for bits, multiplier in ((31, _MIXERS[0]), (31, _MIXERS[1]), (29, weight)):
                    np.right_shift(mixed, np.uint64(bits), out=spare)
                    mixed ^= spare
                    mixed *= multiplier
                total += mixed
        return self._scrambled(sums)

    def of_people(self, hashes: Hashes) -> Prints:
        """Fingerprints of people, from keyed 128-bit hashes of their names."""
        return np.ascontiguousarray(np.ascontiguousarray(hashes).view("<u8").reshape(-1, 2)[:, 0])

    @property
    def name_key(self) -> bytes:
        """The key under which names of people are hashed."""
        return hmac.new(self._key, b"name", hashlib.sha256).digest()

    def cipher(self, nonce: bytes) -> Cipher[modes.CTR]:
        """What the words of rows are sealed with on the disk: nothing but their number can be seen."""
        return Cipher(algorithms.AES(hmac.new(self._key, b"seal", hashlib.sha256).digest()), modes.CTR(nonce))

    def _scrambled(self, sums: Prints) -> Prints:
        # One block, one row: that equal rows give equal words is what is wanted of a fingerprint.
        blocks = np.zeros((len(sums) + 1, 2), dtype="<u8")  # the second half of each stays zero; the last is OpenSSL's
        blocks[:-1, 0] = sums
        encryptor = Cipher(
            algorithms.AES(hmac.new(self._key, b"rows", hashlib.sha256).digest()), modes.ECB()
        ).encryptor()
        room = blocks.data.cast("B")
        encryptor.update_into(room[:-16], room)
        return np.ascontiguousarray(blocks[:-1, 0])

    def _of_column(self, spelling: str) -> bytes:
        return hmac.new(self._key, b"column/" + spelling.encode(), hashlib.sha256).digest()


class SealedWords:
    """Words of rows, block after block, as they lie on the disk: sealed, first the nonce."""

    def __init__(self, hasher: PersonHash, file: Spool):
        self._file = file
        nonce = os.urandom(NONCE_BYTES)
        file.write(nonce)
        self._seal: CipherContext = hasher.cipher(nonce).encryptor()

    def write(self, words: Sequence[Words]) -> None:
        self._file.write(self._seal.update(np.uint32(len(words[0])).tobytes()))
        room = bytearray(4 * len(words[0]) + 15)  # OpenSSL wants room for most of a block more
        for column in words:
            size = self._seal.update_into(np.ascontiguousarray(column).view(np.uint8).data, room)
            self._file.write(memoryview(room)[:size])


def unsealed(hasher: PersonHash, file: IO[bytes], columns: int) -> Iterator[Words]:
    """Yield the blocks of words that `SealedWords` wrote: (columns, rows) each."""
    opener = hasher.cipher(file.read(NONCE_BYTES)).decryptor()
    while head := file.read(4):
        rows = int(np.frombuffer(opener.update(head), dtype="<u4")[0])
        body = file.read(4 * rows * columns)
        if len(body) != 4 * rows * columns:
            raise EOFError("cut short")
        yield np.frombuffer(opener.update(body), dtype="<u4").reshape(columns, rows)
