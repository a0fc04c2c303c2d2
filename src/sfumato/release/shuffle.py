"""Put released rows into a uniformly random order: position must not betray the source.

In memory this is one permutation. On disk every row goes to a bucket chosen at random, and each bucket is then
permuted in memory: the concatenation is a uniformly random permutation of all rows (Rao 1961, Sandelius 1962), in
memory that depends on the bucket size alone.
"""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from sfumato.core.array_types import Codes, Matrix
from sfumato.mechanisms import Block
from sfumato.release.source import in_order

# Which blocks lie whole in a file of buckets: a killed run may have left half of one, or more that was not synced.

CELL_BYTES = 8
PAGE_CELLS = 512
"""Cells that a file system writes together or not at all."""


class BlockIndex:
    """One record of fixed length for every block, appended after the block itself."""

    def __init__(self, path: Path, buckets: int) -> None:
        self._path = path
        self._record = np.dtype(
            [("cells", "<i8"), ("labelled", "?"), ("digest", "u1", (32,)), ("ends", "<i8", (buckets,))]
        )

    def add(self, cells: int, ends: Codes, labelled: bool, digest: bytes) -> None:
        """Note a block that was just written."""
        record = np.zeros(1, dtype=self._record)
        record["cells"], record["labelled"], record["ends"] = cells, labelled, ends
        record["digest"] = np.frombuffer(_sealed(record[0], digest), dtype=np.uint8)
        with open(self._path, "ab", opener=private_opener) as file:
            file.write(record.tobytes())

    def whole_blocks(self, data: Path) -> Iterator[tuple[int, Codes, bool]]:
        """Cells, ends and labelling of the first blocks whose content has its hash; what follows them is cut off."""
        kept = size = 0
        if self._path.exists() and data.exists():
            found = np.fromfile(self._path, dtype=self._record)  # half a record at the end is left out
            with data.open("rb") as file:
                for record in found:
                    wanted = int(record["cells"]) * CELL_BYTES
                    content = file.read(wanted)
                    if len(content) != wanted or _sealed(record, digest_of(content)) != record["digest"].tobytes():
                        break
                    kept, size = kept + 1, size + len(content)
                    yield int(record["cells"]), record["ends"].astype(np.int64), bool(record["labelled"])
        for path, length in ((self._path, kept * self._record.itemsize), (data, size)):
            if path.exists():
                os.truncate(path, length)


def digest_of(content: bytes | memoryview) -> bytes:
    """SHA-256 of the sum of every page: it tells pages that never reached the disk, at a thirtieth of the cost of
    SHA-256 of all bytes. No block can be forged: whoever can write here has the run key."""
    words = np.frombuffer(content, dtype="<u8")
    sums = np.add.reduceat(words, np.arange(0, len(words), PAGE_CELLS)) if len(words) else words
    return hashlib.sha256(sums.tobytes()).digest()


def _sealed(record: np.void, digest: bytes) -> bytes:
    """The hash of a block and of its record: a long record may reach the disk in part, too."""
    fields = (record[name].tobytes() for name in ("cells", "labelled", "ends"))
    return hashlib.sha256(digest + b"".join(fields)).digest()


private_opener = partial(os.open, mode=0o600)
"""For `open`: a file that only its owner can read."""
BUCKET_CELLS = 1 << 21
MOST_BUCKET_ROWS = 1 << 17
TURNED_ROWS = 1 << 14
"""Rows of a bucket that are permuted and turned into columns at a time."""


class MemoryShuffle:
    """Takes released blocks in, gives them back in random order: all rows at once."""

    finished = 0
    """How many blocks, the first ones, an earlier run has added already."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []

    def deal(self, block: Block, rng: np.random.Generator) -> Block:  # noqa: ARG002 (the order is drawn at the end)
        """Make a block ready for `add`; changes nothing, so that several threads may deal."""
        return block

    def add(self, dealt: Block) -> None:
        """Take in what `deal` returned."""
        self._blocks.append(dealt)

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """All rows, in random order."""
        X = np.concatenate([block.X for block in self._blocks])
        source = np.concatenate([block.source for block in self._blocks])
        labels = [block.y for block in self._blocks if block.y is not None]
        self._blocks.clear()
        order = rng.permutation(len(X))
        y = np.concatenate(labels)[order] if labels else None
        yield Block(np.take(X.T, order, axis=1).T, y, source[order])


@dataclass(frozen=True)
class Dealt:
    """The rows of one block, bucket after bucket: in each row [released columns | class code | source row]."""

    cells: Matrix
    ends: Codes
    labelled: bool
    digest: bytes = b""


class DiskShuffle:
    """Buckets in one private file: every block is appended, bucket after bucket, and an index says where they lie.

    One file, because a bucket has pieces in all blocks and there may be more buckets than files can be open. Row by
    row, because whole rows are moved more quickly than single cells. Memory that was used is used again.

    If `lasting`, the index is kept in a file as well, with a hash of every block, and nothing is removed: another run
    begins with the blocks that it finds whole.
    """

    def __init__(self, folder: Path, rows: int, width: int, bucket_rows: int | None = None, *, lasting: bool = False):
        self._width = width
        size = bucket_rows or min(MOST_BUCKET_ROWS, max(1, BUCKET_CELLS // (width + 2)))
        self._count = max(1, -(-rows // size))
        folder.mkdir(mode=0o700, exist_ok=lasting)
        self._folder, self._path = folder, folder / "buckets"
        self._offsets: list[int] = []  # in cells, of every block
        self._ends: list[Codes] = []  # in rows of the block, of every bucket
        self._size = 0
        self._labelled = False
        self._spare: deque[Matrix] = deque()  # memory of blocks that were written
        self._rooms = threading.local()
        self._index = BlockIndex(folder / "index", self._count) if lasting else None
        if self._index is not None:
            for cells, ends, labelled in self._index.whole_blocks(self._path):
                self._take(cells, ends, labelled)

    @property
    def finished(self) -> int:
        return len(self._ends)

    def deal(self, block: Block, rng: np.random.Generator) -> Dealt:
        small = np.uint16 if self._count <= 1 << 16 else np.int32  # of 16 bits they are sorted by radix, much quicker
        bucket = rng.integers(self._count, size=len(block.X), dtype=small)
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=self._count))
        rows = self._room("rows", len(order))
        rows[:, : self._width] = block.X
        rows[:, -2] = -1.0 if block.y is None else block.y
        rows[:, -1] = block.source  # exact: no table has 2^53 rows
        try:  # memory of a block that was written, or new memory
            cells = self._spare.popleft()
        except IndexError:
            cells = np.empty(rows.shape)
        cells = cells if cells.shape == rows.shape else np.empty(rows.shape)
        np.take(rows, order, axis=0, out=cells, mode="clip")  # a permutation: nothing to clip, nothing to check
        digest = b"" if self._index is None else digest_of(cells.data.cast("B"))
        return Dealt(cells, ends.astype(np.int64), block.y is not None, digest)

    def _room(self, name: str, rows: int) -> Matrix:
        """Memory of this thread for so many rows; what it held before is gone."""
        found: Matrix | None = getattr(self._rooms, name, None)
        if found is None or len(found) < rows:
            found = np.empty((rows, self._width + 2))
            setattr(self._rooms, name, found)
        return found[:rows]

    def add(self, dealt: Dealt) -> None:
        with open(self._path, "ab", opener=private_opener) as file:
            file.write(dealt.cells.data.cast("B"))  # says why it cannot, where NumPy's own `tofile` does not
        if self._index is not None:
            self._index.add(dealt.cells.size, dealt.ends, dealt.labelled, dealt.digest)
        self._take(dealt.cells.size, dealt.ends, dealt.labelled)
        self._spare.append(dealt.cells)

    def _take(self, cells: int, ends: Codes, labelled: bool) -> None:
        self._labelled = labelled
        self._offsets.append(self._size)
        self._ends.append(ends)
        self._size += cells

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        self._spare.clear()
        starts = [np.r_[0, ends[:-1]] for ends in self._ends]
        orders = (
            (bucket, rng.permutation(sum(int(e[bucket] - s[bucket]) for s, e in zip(starts, self._ends, strict=True))))
            for bucket in range(self._count)
        )
        for block in in_order(orders, lambda drawn: self._shuffled(*drawn), threads=1):
            if len(block.X):
                yield block
        if self._index is None:
            self._path.unlink(missing_ok=True)
            self._folder.rmdir()

    def _shuffled(self, bucket: int, order: Codes) -> Block:
        gathered, filled = self._room("gathered", len(order)), 0
        with self._path.open("rb", buffering=0) as file:
            for offset, ends in zip(self._offsets, self._ends, strict=True):
                start, end = int(ends[bucket - 1]) if bucket else 0, int(ends[bucket])
                if start == end:
                    continue
                piece = gathered[filled : filled + end - start]
                file.seek(offset * piece.itemsize + start * piece[0].nbytes)
                if file.readinto(piece.data.cast("B")) != piece.nbytes:
                    raise OSError(errno.EIO, "the file of shuffled rows was cut short")
                filled += end - start
        columns = np.empty((self._width + 2, len(order)))
        for first in range(0, len(order), TURNED_ROWS):
            some = order[first : first + TURNED_ROWS]
            rows = np.take(gathered, some, axis=0, out=self._room("rows", len(some)), mode="clip")
            columns[:, first : first + len(some)] = rows.T
        codes = columns[-2].astype(np.int64) if self._labelled else None
        return Block(columns[: self._width].T, codes, columns[-1].astype(np.int64))


Shuffle = MemoryShuffle | DiskShuffle
