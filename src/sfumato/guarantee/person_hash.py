"""Fingerprints of rows and people, the bytes they lie in, and what is known of everybody's releases by them."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import io
import math
import os
import secrets
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from sfumato.core.array_types import Codes, Flags, Floats, Hashes
from sfumato.core.files import PRIVATE, explained, new_file, put_in_place, write_back
from sfumato.core.records import Key, Record
from sfumato.guarantee.rounding import sum_up
from sfumato.table.cell_sets import Words, one_spelling

# Bytes that are put by while a run goes on and kept in the end, or vanish with it.

SPOOL_BYTES = 1 << 24  # more than this does not stay in memory
COPIED_AT_A_TIME = 1 << 20


class Spool:
    """In memory as long as they are few, then in a file without a name, which the system removes if the run dies.

    On Linux that file can be given a name, so that what is kept is written once and not twice.
    """

    def __init__(self, beside: Path | None) -> None:
        self._beside = beside
        self._file: IO[bytes] = io.BytesIO()
        self._on_disk = False
        self._size = 0

    def write(self, content: bytes | memoryview) -> None:
        """Put more by."""
        self._size += len(content)
        if not self._on_disk and self._size > SPOOL_BYTES:
            held, self._file, self._on_disk = self.from_start(), _unnamed(self._beside), True
            self._file.write(held.read())
        self._file.seek(0, os.SEEK_END)  # it may have been read in between
        self._file.write(content)
        if self._on_disk:
            write_back(self._file)

    def from_start(self) -> IO[bytes]:
        """All that was put by, to be read."""
        self._file.seek(0)
        return self._file

    def save(self, path: Path) -> None:
        """Keep it under this name, durably, for its owner alone."""
        if self._on_disk and self._named(path):
            return
        with new_file(path, private=True) as file:
            whole = self.from_start()
            while piece := whole.read(COPIED_AT_A_TIME):
                file.write(piece)

    def _named(self, path: Path) -> bool:
        """Give the file a name; False where the system cannot."""
        aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        with explained(path):
            self._file.flush()
            os.fsync(self._file.fileno())
            try:
                _link(self._file.fileno(), aside)
            except OSError:
                return False
            try:
                put_in_place(aside, path)
            except BaseException:
                aside.unlink(missing_ok=True)
                raise
        return True


def _unnamed(folder: Path | None) -> IO[bytes]:
    unnamed = getattr(os, "O_TMPFILE", None)  # Python's own temporary file can never be given a name
    if folder is not None and unnamed is not None:
        with contextlib.suppress(OSError):  # not every file system has such files
            return os.fdopen(os.open(folder, unnamed | os.O_RDWR, PRIVATE), "w+b")
    return tempfile.TemporaryFile(dir=folder)


def _link(descriptor: int, path: Path) -> None:
    place = os.open("/proc/self/fd", os.O_RDONLY)
    try:
        os.link(str(descriptor), path, src_dir_fd=place)  # only with a folder Python follows the entry to the file
    finally:
        os.close(place)


# A keyed fingerprint of a whole table: how ledgers of earlier versions know rows again, all of them or none.

_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
TILE = 1 << 15  # rows that are mixed at a time: they stay in the cache


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
            row, mixed, room = rows[: len(tile)], cells[: len(tile)], spare[: len(tile)]
            row[:] = 0
            for column, weight in zip(tile.T, self._weights, strict=True):
                np.add(column, 0.0, out=mixed.view(np.float64))  # makes -0 and 0 the same row
                _mix(mixed, room, (29, _MIXERS[0]), (32, weight))
                row += mixed
            _mix(row, room, (31, _MIXERS[1]), (29, np.uint64(1)))
            total += np.array([row.sum(dtype=np.uint64), (row * row).sum(dtype=np.uint64)], dtype=np.uint64)
        return total

    def hexdigest(self) -> str:
        message = self._sums.tobytes() + self._rows.to_bytes(8, "little")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()


def _mix(words: NDArray[np.uint64], spare: NDArray[np.uint64], *rounds: tuple[int, np.uint64]) -> None:
    """Fold each word by so many bits and multiply it, round after round; `spare` is room to work in."""
    for bits, multiplier in rounds:
        np.right_shift(words, np.uint64(bits), out=spare)
        words ^= spare
        words *= multiplier


# Keyed 64-bit fingerprints of rows over any of their columns, and of people by their names.
#
# A row's words are mixed with secrets that belong to the column's name, and added up: the order of columns plays no
# part, and a fingerprint over fewer columns is the sum over fewer. AES of the sum makes it a pseudorandom function:
# without the key, equal fingerprints tell that two rows are equal and nothing else. Two different rows share one by
# chance once in 2^60 pairs or so, which makes a total too large and never too small.

Prints = NDArray[np.uint64]  # fingerprints, one a row
TAG_BYTES = 8
NONCE_BYTES = 16


class PersonHash:
    """All that is made from the ledger's key to know people again."""

    def __init__(self, key: bytes):
        self._key = hmac.new(key, b"people", hashlib.sha256).digest()

    def tag(self, column: str) -> str:
        """What the ledger keeps of a column's name: equal for names that are spelt alike."""
        spelling = (one_spelling(column) or column).encode()
        return hmac.new(self._key, b"column/" + spelling, hashlib.sha256).digest()[:TAG_BYTES].hex()

    def secrets(self, tag: str) -> tuple[np.uint64, np.uint64]:
        """Mask and odd weight of a column."""
        found = hmac.new(self._key, b"mix/" + tag.encode(), hashlib.sha256).digest()
        mask, weight = np.frombuffer(found[:16], dtype="<u8")
        return np.uint64(mask), np.uint64(weight) | np.uint64(1)

    def of_rows(self, words: Sequence[Words], tags: Sequence[str]) -> Prints:
        """Fingerprints over these columns: words (n,) of each, with the tag of its name."""
        sums = self.sums(words, tags)
        # One block, one row: that equal rows give equal words is what is wanted of a fingerprint.
        blocks = np.zeros((len(sums) + 1, 2), dtype="<u8")  # the second half of each stays zero; the last is OpenSSL's
        blocks[:-1, 0] = sums
        key = hmac.new(self._key, b"rows", hashlib.sha256).digest()
        room = blocks.data.cast("B")
        Cipher(algorithms.AES(key), modes.ECB()).encryptor().update_into(room[:-16], room)
        return np.ascontiguousarray(blocks[:-1, 0])

    def sums(self, words: Sequence[Words], tags: Sequence[str]) -> Prints:
        """What fingerprints are made of: equal where these are, and of all columns the sum of that of some and of the
        others. They are never written."""
        rows = len(words[0])
        sums, room, other = np.zeros(rows, dtype=np.uint64), *np.empty((2, min(TILE, rows)), dtype=np.uint64)
        secrets = [self.secrets(tag) for tag in tags]
        for start in range(0, rows, TILE):
            total = sums[start : start + TILE]
            mixed, spare = room[: len(total)], other[: len(total)]
            for column, (mask, weight) in zip(words, secrets, strict=True):
                np.bitwise_xor(column[start : start + TILE], mask, out=mixed)
                _mix(mixed, spare, (31, _MIXERS[0]), (31, _MIXERS[1]), (29, weight))
                total += mixed
        return sums

    def of_people(self, hashes: Hashes) -> Prints:
        """Fingerprints of people, from keyed 128-bit hashes of their names."""
        return np.ascontiguousarray(np.ascontiguousarray(hashes).view("<u8").reshape(-1, 2)[:, 0])

    @property
    def name_key(self) -> bytes:
        """The key under which names of people are hashed."""
        return hmac.new(self._key, b"name", hashlib.sha256).digest()

    def cipher(self, nonce: bytes, offset: int = 0) -> CipherContext:
        """What seals the words of rows on the disk from some byte on, and opens them: only their number shows."""
        counter = (int.from_bytes(nonce, "big") + offset // NONCE_BYTES) % (1 << 8 * NONCE_BYTES)
        key = hmac.new(self._key, b"seal", hashlib.sha256).digest()
        found: CipherContext = Cipher(algorithms.AES(key), modes.CTR(counter.to_bytes(NONCE_BYTES, "big"))).encryptor()
        found.update(bytes(offset % NONCE_BYTES))
        return found


class SealedWords:
    """Words of rows, block after block, as they lie on the disk: sealed, first the nonce."""

    def __init__(self, hasher: PersonHash, file: Spool):
        self._file = file
        nonce = os.urandom(NONCE_BYTES)
        file.write(nonce)
        self._seal = hasher.cipher(nonce)

    @staticmethod
    def room(columns: int, rows: int) -> Words:
        """Memory for the words of a block: behind it lies what OpenSSL wants to seal them in place."""
        return np.empty(columns * rows + 4, dtype=np.uint32)[:-4].reshape(columns, rows)

    def write(self, words: Words) -> None:
        """Take in the words of a block, column after column. The `room` that they lie in is sealed, and free then."""
        self._file.write(self._seal.update(np.uint32(words.shape[1]).tobytes()))
        room = words.base.data.cast("B")  # type: ignore[union-attr]
        self._seal.update_into(room[: words.nbytes], room)
        self._file.write(room[: words.nbytes])


def unsealed(hasher: PersonHash, file: IO[bytes], columns: int, wanted: Sequence[int]) -> Iterator[list[Words]]:
    """Yield the `wanted` columns of every block of words that `SealedWords` wrote; nothing else of it is read."""
    end = file.seek(0, os.SEEK_END)
    file.seek(0)
    nonce, place = file.read(NONCE_BYTES), NONCE_BYTES

    def opened(start: int, size: int) -> bytes:
        file.seek(start)
        return hasher.cipher(nonce, start - NONCE_BYTES).update(file.read(size))

    while place != end:
        rows = int.from_bytes(opened(place, 4), "little")
        place, after = place + 4, place + 4 + 4 * rows * columns
        if after > end:
            raise EOFError("cut short")
        if len(wanted) < columns:
            found = [np.frombuffer(opened(place + 4 * rows * j, 4 * rows), dtype="<u4") for j in wanted]
        else:
            whole = np.frombuffer(opened(place, after - place), dtype="<u4").reshape(columns, rows)
            found = [whole[j] for j in wanted]
        yield found
        place = after


# What all releases come to for each person of one of them: the worst and the median, by kind of guarantee.
#
# People who were in the same earlier releases have the same totals, so it is enough to know for each which combination
# they were in (a byte, mostly) and to add up once a combination. Epsilons of perturbed records add up: their noise is
# independent. A release without a proof has no figure and is counted. What releases of made-up rows cost is kept apart,
# and is the same for everybody: it never depends on who was in them.

COUNTED = 1 << 18  # people who are counted at a time


@dataclass(frozen=True)
class Spread(Record):
    """The largest of a figure over all people, and the median (the upper one of two)."""

    worst: float
    median: float

    @classmethod
    def of(cls, values: Sequence[float], counts: Codes) -> Spread:
        order = np.argsort(values, kind="stable")
        middle = int(np.searchsorted(np.cumsum(counts[order]), counts.sum() // 2, side="right"))
        return cls(max(values), values[order[min(middle, len(order) - 1)]])


@dataclass(frozen=True)
class PeopleTotals(Record):
    """For people (or rows, where no column says whose they are): releases they were in, this one included; the sum of
    the epsilons that are proved; and how many of those releases prove nothing."""

    by: str
    releases: Spread
    epsilon: Annotated[Spread, Key("local_epsilon")]
    unproved: Annotated[Spread, Key("unproved_releases")]

    @property
    def worst(self) -> float:
        """The largest epsilon that is proved for anybody; infinite where a release proves nothing."""
        return math.inf if self.unproved.worst else self.epsilon.worst


class Tally:
    """Who was in which releases: a code for each person, and for each code the releases that it stands for."""

    def __init__(self, rows: int, people: Prints | None = None, *, by: str | None = None):
        self.by = by or ("row" if people is None else "person")
        self._person: Codes | None = None
        units = rows
        if people is not None:
            distinct, self._person = np.unique(people, return_inverse=True)
            units = len(distinct)
        self._codes: NDArray[np.unsignedinteger[Any]] = np.zeros(units, dtype=np.uint8)
        self._sets: list[tuple[int, ...]] = [()]

    def add(self, release: int, seen: Flags) -> bool:
        """Note which rows were in an earlier release; returns whether any was."""
        if self._person is not None:
            seen = np.bincount(self._person[seen], minlength=len(self._codes)) > 0
        if not seen.any():
            return False
        sets = [*self._sets, *((*one, release) for one in self._sets)]
        codes = self._codes.astype(np.min_scalar_type(len(sets)))
        np.add(codes, codes.dtype.type(len(self._sets)), out=codes, where=seen)
        used = np.flatnonzero(_counted(codes, len(sets)))
        if len(used) < len(sets):
            renamed = np.zeros(len(sets), dtype=codes.dtype)
            renamed[used] = np.arange(len(used))
            codes = renamed[codes]
        self._codes, self._sets = codes, [sets[one] for one in used]
        return True

    def totals(self, epsilons: Sequence[float], now: float) -> PeopleTotals:
        """Given the epsilon of every earlier release and of this one, infinite where nothing is proved."""
        counts = _counted(self._codes, len(self._sets))
        taken = [[now, *(epsilons[one] for one in releases)] for releases in self._sets]
        proved = [[one for one in all_ if math.isfinite(one)] for all_ in taken]
        return PeopleTotals(
            self.by,
            Spread.of([len(all_) for all_ in taken], counts),
            Spread.of([sum_up(known) for known in proved], counts),
            Spread.of([len(all_) - len(known) for all_, known in zip(taken, proved, strict=True)], counts),
        )

    def worst(self, epsilons: Sequence[float]) -> float:
        """The largest sum of earlier epsilons that anybody has: infinite where one of them is."""
        return max(sum_up(epsilons[one] for one in releases) if releases else 0.0 for releases in self._sets)


def _counted(codes: NDArray[np.unsignedinteger[Any]], kinds: int) -> Codes:
    """How often each code stands there, a piece at a time: NumPy takes eight bytes for every code that it counts."""
    found = np.zeros(kinds, dtype=np.int64)
    for start in range(0, len(codes), COUNTED):
        found += np.bincount(codes[start : start + COUNTED], minlength=kinds)
    return found
