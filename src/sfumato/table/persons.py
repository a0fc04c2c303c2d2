"""Who a row belongs to, without keeping who that is."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.errors import TableError
from sfumato.table import arrays

# Drawn anew in every process and never written: hashes of one run cannot be matched with those of another.
_KEY = os.urandom(32)


def person_codes(array: pa.Array, name: str, first_row: int = 0) -> npt.NDArray[np.uint64]:
    """Keyed 64-bit hash of every cell (BLAKE2b); two different persons collide with probability 2^-64."""
    found: npt.NDArray[np.uint64] = _hashed(array, name, first_row, _KEY, 8).view("<u8").astype(np.uint64, copy=False)
    return found


def person_hashes(array: pa.Array, name: str, first_row: int, key: bytes) -> npt.NDArray[np.bytes_]:
    """128-bit hash of every cell under the owner's own key, by which a person is known again next month."""
    return _hashed(array, name, first_row, key, 16)


def _hashed(array: pa.Array, name: str, first_row: int, key: bytes, size: int) -> npt.NDArray[np.bytes_]:
    words = arrays.text(array, name)
    if words.null_count:
        row = first_row + int(np.argmax(arrays.as_numpy(words.is_null()))) + 1
        raise TableError(f"The person column {name!r} is empty in row {row}. Every row must belong to somebody.")
    distinct = pc.unique(words)
    digests = (hashlib.blake2b(word.encode(), digest_size=size, key=key).digest() for word in distinct.to_pylist())
    hashes = np.frombuffer(b"".join(digests), dtype=f"S{size}")
    return np.asarray(hashes[arrays.as_numpy(pc.index_in(words, value_set=distinct))])
