"""Random streams for a release: one per block, derived from a secret run key and from what the block holds.

    content   = GMAC under a key of the run's, of the block's values (AES-128; 128 bits)
    block key = HKDF-SHA256(run key, info = version | block number | SHA-256(content) | SHA-256(parameters)), 128 bits
    words     = AES-128(block key, 0), AES-128(block key, 1), ...      (`randomgen.AESCounter`)
    and where many are wanted at once, AES-128(block key, 2^127), ...  (`bulk_words`)

A retry or a recomputed task gives the same noise for the same data, and other data never meet the same noise: whoever
sees two releases of two versions of a block cannot subtract them.

A process that forks leaves its child a copy of everything, keys and half-used generators included; both would go on
with the same noise. So the child's copies of secret streams, and of generators that they gave, get fresh keys.
Reproducible ones are meant to repeat, and do. A child that is to go on with the same key is given it (`export_key`).

Limits. The stream is as strong as AES-128 in counter mode: 128 bits of key, and distinguishable from random words by
the absence of repeated 16-byte outputs after about 2^64 of them (a block draws some 2^20). There is no backtracking
resistance: whoever reads the memory of a live generator learns its key, and so all noise of that block; whoever learns
the run key learns all noise of the run. Python cannot promise that no copy of a key stays in memory: `destroy`
overwrites ours.
Where the processor has no AES instructions, randomgen falls back to table look-ups whose time depends on the key.
"""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from collections.abc import Iterator
from functools import cache
from typing import Any, NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from sfumato.core.errors import UsageError, wrong_parameter

# Many random words at once: AES-128 of a counter, computed block after block by OpenSSL.
#
# They are what `randomgen.AESCounter` draws under the same key from the middle of its counter on, at a seventh of the
# cost: a NumPy generator asks for its words one by one.


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
                size = min(blocks, _CHUNK)
                counters = np.empty((size, 2), dtype="<u8")
                counters[:, 0] = np.arange(self._next, self._next + size, dtype=np.uint64)
                counters[:, 1] = _HIGH
                plain, sealed = counters.data.cast("B"), found[len(self._left) :].data.cast("B")
                for start in range(0, blocks, size):
                    many = min(size, blocks - start)
                    self._encryptor.update_into(plain[: 16 * many], sealed[16 * start :])
                    counters[:, 0] += np.uint64(many)
                self._next += blocks
                found = found[:-2]
            self._left = found[count:]
        return found[:count]


RUN_KEY_BYTES = 32
BLOCK_KEY_BYTES = 16
_VERSION = b"sfumato/noise/streams/2"
_CONTENT = b"sfumato/noise/content/1"
_FED = 1 << 22
"""Bytes that are hashed at a time: other threads wait no longer than that, and OpenSSL counts them in 31 bits."""
_secret: weakref.WeakSet[Any] = weakref.WeakSet()
"""Streams and generators of this process whose noise must never be drawn twice."""


class Streams:
    """The generators of one run; as sensitive as the data until `destroy` is called.

    Parameters
    ----------
    run_key : 32 secret bytes, or None to draw them from the operating system.
    reproducible : whether the key is known to others, as it is in tests and papers. Such noise hides nothing, and a
        card must say "not for release"; `Streams.seeded` sets it.
    """

    def __init__(self, run_key: bytes | bytearray | None = None, *, reproducible: bool = False) -> None:
        if run_key is None:
            run_key = os.urandom(RUN_KEY_BYTES)
        if not isinstance(run_key, bytes | bytearray) or len(run_key) != RUN_KEY_BYTES:
            # the key itself must not reach a message
            raise UsageError(f"The 'run_key' parameter of Streams must be {RUN_KEY_BYTES} bytes. Got others instead.")
        self._run_key: bytearray | None = bytearray(run_key)
        self.reproducible = reproducible
        if not reproducible:
            _secret.add(self)

    @classmethod
    def seeded(cls, seed: int) -> Streams:
        """Streams that anybody can repeat: for tests and papers, never for a release."""
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise wrong_parameter("seed", "Streams", "a non-negative integer", seed)
        return cls(hashlib.sha256(b"sfumato/noise/seed/1|%d" % int(seed)).digest(), reproducible=True)

    def generator(
        self, block_number: int, content: bytes | bytearray | memoryview = b"", parameters: bytes = b""
    ) -> np.random.Generator:
        """The generator of one block: a function of the run key and of all three arguments.

        `content` is what `content` returned for the block (any bytes that change whenever it changes);
        `parameters` are bytes that identify the mechanism and what it was given.
        """
        if isinstance(block_number, bool) or not isinstance(block_number, int | np.integer):
            raise wrong_parameter("block_number", "Streams", "an integer", block_number)
        if not 0 <= block_number < 1 << 64:
            raise wrong_parameter("block_number", "Streams", "between 0 and 2^64 - 1", block_number)
        # every part has a fixed length, so two different triples cannot give the same info
        info = _VERSION + int(block_number).to_bytes(8, "big")
        info += hashlib.sha256(content).digest() + hashlib.sha256(parameters).digest()
        generator = keyed_generator(self._derived(info))
        if not self.reproducible:
            _secret.add(generator)
        return generator

    def content(self, X: NDArray[Any], y: NDArray[Any] | None = None) -> bytes:
        """A keyed hash of a block's values, shapes and types, for `generator`; it stays inside the program.

        Two contents of n bytes share a hash with probability n / 2^132 at most, for whoever does not know the run key:
        GMAC is a polynomial hash under a secret point. It costs a tenth of SHA-256, which is not needed here:
        whoever knows the run key knows the noise, and need not look for collisions.
        """
        mac = Cipher(algorithms.AES(self._derived(_CONTENT)), modes.GCM(bytes(12))).encryptor()
        for part in _content_bytes(X, y):
            for start in range(0, len(part), _FED):
                mac.authenticate_additional_data(part[start : start + _FED])
        mac.finalize()
        return mac.tag

    def _derived(self, info: bytes) -> bytes:
        return HKDF(algorithm=SHA256(), length=BLOCK_KEY_BYTES, salt=None, info=info).derive(bytes(self._key()))

    def export_key(self) -> bytes:
        """The run key, for a private file (0600) that lets an interrupted run resume."""
        return bytes(self._key())

    def destroy(self) -> None:
        """Overwrite and forget the run key, once the release is committed: the owner cannot derive the noise again."""
        if self._run_key is not None:
            self._run_key[:] = bytes(RUN_KEY_BYTES)
            self._run_key = None

    @property
    def destroyed(self) -> bool:
        return self._run_key is None

    def take_fresh_key(self) -> None:
        """In a forked child: go on with a key that the parent does not have."""
        if self._run_key is not None:
            self._run_key[:] = os.urandom(RUN_KEY_BYTES)

    def _key(self) -> bytearray:
        if self._run_key is None:
            raise UsageError("The run key of these streams was destroyed. Start a new run with a new key.")
        return self._run_key

    def __repr__(self) -> str:
        state = "destroyed" if self.destroyed else "reproducible, not for release" if self.reproducible else "secret"
        return f"<Streams: {state}>"

    def __reduce__(self) -> NoReturn:
        _refuse_to_leave(self)


class KeyedGenerator(np.random.Generator):
    """A NumPy generator, and words in bulk beside it. In a forked child it draws other numbers than in its parent."""

    def __init__(self, key: bytes) -> None:
        super().__init__(_counting(key))
        self._bulk = BulkWords(key)

    def words(self, count: int) -> NDArray[np.uint64]:
        """Raw words of a sequence of their own: no other draw meets them."""
        return self._bulk.draw(count)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Multiples of 2^-53 in [0, 1), as NumPy draws them; many of them from words in bulk."""
        if size is None or dtype is not np.float64 or out is not None:
            return super().random(size, dtype, out)
        words = self.words(int(np.prod(size)))
        words >>= np.uint64(11)
        drawn = words.view(np.int64).astype(np.float64)  # of 53 bits, and so exact; of signed words it is quicker
        drawn *= 2.0**-53
        return drawn.reshape(size)

    def take_fresh_key(self) -> None:
        """In a forked child: what the parent still draws is not drawn here."""
        key = os.urandom(BLOCK_KEY_BYTES)
        self.bit_generator.state = _counting(key).state
        self._bulk = BulkWords(key)

    def __reduce__(self) -> NoReturn:
        _refuse_to_leave(self)


@cache
def _counter() -> Any:
    from randomgen import AESCounter  # slow to load, and a card is read without noise

    return type("Counting", (AESCounter,), {"__reduce__": _refuse_to_leave})


def _counting(key: bytes) -> Any:
    return _counter()(key=int.from_bytes(key, "little"), counter=0)


def _refuse_to_leave(holder: object) -> NoReturn:
    """A key that slips into a pickled estimator would leave the machine unnoticed, and a copy repeat its noise."""
    raise TypeError(
        f"{type(holder).__name__.lstrip('_')} cannot be pickled or copied: it holds a secret. Where a worker needs the "
        "same noise, hand it the run key (Streams.export_key)."
    )


def _part_from_parent() -> None:
    for holder in list(_secret):
        holder.take_fresh_key()


if hasattr(os, "register_at_fork"):  # Windows cannot fork
    os.register_at_fork(after_in_child=_part_from_parent)


def keyed_generator(key: bytes) -> np.random.Generator:
    """A NumPy generator whose words are AES-128 of the counter 0, 1, 2, ... under `key`, little-endian."""
    if len(key) != BLOCK_KEY_BYTES:
        raise UsageError(f"The 'key' parameter of keyed_generator must be {BLOCK_KEY_BYTES} bytes. Got others instead.")
    return KeyedGenerator(key)


def content_hash(X: NDArray[Any], y: NDArray[Any] | None = None) -> bytes:
    """SHA-256 of a block's values, shapes and types; row order counts, memory order does not."""
    digest = hashlib.sha256()
    for part in _content_bytes(X, y):
        digest.update(part)
    return digest.digest()


def _content_bytes(X: NDArray[Any], y: NDArray[Any] | None) -> Iterator[bytes | memoryview]:
    """What arrays hold, as bytes that other arrays do not have."""
    for array in (X, y):
        if array is None:
            yield b"none"
            continue
        array = np.asarray(array)
        if array.dtype.hasobject:
            raise UsageError(
                "The arrays given to content_hash must hold numbers or fixed-size text. Got Python objects instead, "
                "whose bytes are addresses: encode the column first."
            )
        yield f"{array.dtype.str}{array.shape}".encode()
        if array.size:
            yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
