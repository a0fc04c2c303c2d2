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
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sfumato.core.array_types import Codes, Matrix
from sfumato.mechanisms import Block
from sfumato.release.source import in_order

CELL_BYTES = 8
PAGE_CELLS = 512
"""Cells that a file system writes together or not at all."""
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


class Dealt(NamedTuple):
    """The rows of one block, bucket after bucket: in each row [released columns | class code | source row]; and its
    record in the index."""

    cells: Matrix
    record: np.void


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
        self._record = np.dtype(  # `ends`: of every bucket, in rows of the block
            [("cells", "<i8"), ("labelled", "?"), ("digest", "u1", (32,)), ("ends", "<i8", (self._count,))]
        )
        folder.mkdir(mode=0o700, exist_ok=lasting)
        self._folder, self._path, self._index = folder, folder / "buckets", folder / "index" if lasting else None
        self._spare: deque[Matrix] = deque()  # memory of blocks that were written
        self._rooms = threading.local()
        self._blocks = [] if self._index is None else self._whole_blocks(self._index)
        self._laid: list[tuple[Codes, int]] = []  # ends and cells of all blocks: of a record they are slow to reach

    def _whole_blocks(self, index: Path) -> list[np.void]:
        """The first blocks whose content has its hash; what follows them is cut off. A killed run may have left half of
        a block, or more that was not synced."""
        kept: list[np.void] = []
        if index.exists() and self._path.exists():
            with self._path.open("rb") as file:
                for record in np.fromfile(index, dtype=self._record):  # half a record at the end is left out
                    wanted = int(record["cells"]) * CELL_BYTES
                    content = file.read(wanted)
                    if len(content) != wanted or _sealed(record, content) != record["digest"].tobytes():
                        break
                    kept.append(record)
        size = sum(int(record["cells"]) for record in kept) * CELL_BYTES
        for path, length in ((index, len(kept) * self._record.itemsize), (self._path, size)):
            if path.exists():
                os.truncate(path, length)
        return kept

    @property
    def finished(self) -> int:
        return len(self._blocks)

    def deal(self, block: Block, rng: np.random.Generator) -> Dealt:
        small = np.uint16 if self._count <= 1 << 16 else np.int32  # of 16 bits they are sorted by radix, much quicker
        bucket = rng.integers(self._count, size=len(block.X), dtype=small)
        order = np.argsort(bucket, kind="stable")
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
        record = np.zeros(1, dtype=self._record)[0]
        record["cells"], record["labelled"] = cells.size, block.y is not None
        record["ends"] = np.cumsum(np.bincount(bucket, minlength=self._count))
        if self._index is not None:
            record["digest"] = np.frombuffer(_sealed(record, cells.data.cast("B")), dtype=np.uint8)
        return Dealt(cells, record)

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
        if self._index is not None:  # after the block itself
            with open(self._index, "ab", opener=private_opener) as file:
                file.write(dealt.record.tobytes())
        self._blocks.append(dealt.record)
        self._spare.append(dealt.cells)

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        self._spare.clear()
        self._laid = [(np.r_[0, record["ends"]], int(record["cells"])) for record in self._blocks]
        orders = (
            (bucket, rng.permutation(sum(int(ends[bucket + 1] - ends[bucket]) for ends, _ in self._laid)))
            for bucket in range(self._count)
        )
        for block in in_order(orders, lambda drawn: self._shuffled(*drawn), threads=1):
            if len(block.X):
                yield block
        if self._index is None:
            self._path.unlink(missing_ok=True)
            self._folder.rmdir()

    def _shuffled(self, bucket: int, order: Codes) -> Block:
        gathered, filled, begins = self._room("gathered", len(order)), 0, 0
        with self._path.open("rb", buffering=0) as file:
            for ends, cells in self._laid:
                start, end = int(ends[bucket]), int(ends[bucket + 1])
                piece = gathered[filled : filled + end - start]
                if len(piece):
                    file.seek(begins * CELL_BYTES + start * piece[0].nbytes)
                    if file.readinto(piece.data.cast("B")) != piece.nbytes:
                        raise OSError(errno.EIO, "the file of shuffled rows was cut short")
                filled, begins = filled + len(piece), begins + cells
        columns = np.empty((self._width + 2, len(order)))
        for first in range(0, len(order), TURNED_ROWS):
            some = order[first : first + TURNED_ROWS]
            rows = np.take(gathered, some, axis=0, out=self._room("rows", len(some)), mode="clip")
            columns[:, first : first + len(some)] = rows.T
        labelled = bool(self._blocks) and bool(self._blocks[-1]["labelled"])
        codes = columns[-2].astype(np.int64) if labelled else None
        return Block(columns[: self._width].T, codes, columns[-1].astype(np.int64))


def _sealed(record: np.void, content: bytes | memoryview) -> bytes:
    """The hash of a block and of its record: a long record may reach the disk in part, too.

    Of the content it takes in the sum of every page: it tells pages that never reached the disk, at a thirtieth of the
    cost of SHA-256 of all bytes. No block can be forged: whoever can write here has the run key.
    """
    words = np.frombuffer(content, dtype="<u8")
    sums = np.add.reduceat(words, np.arange(0, len(words), PAGE_CELLS)) if len(words) else words
    fields = (record[name].tobytes() for name in ("cells", "labelled", "ends"))
    return hashlib.sha256(hashlib.sha256(sums.tobytes()).digest() + b"".join(fields)).digest()


Shuffle = MemoryShuffle | DiskShuffle
