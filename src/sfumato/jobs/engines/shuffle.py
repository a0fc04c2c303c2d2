"""Put released rows into a uniformly random order: position must not betray the source.

In memory this is one permutation. On disk every row goes to a bucket chosen at random, and each bucket is then
permuted in memory: the concatenation is a uniformly random permutation of all rows (Rao 1961, Sandelius 1962), in
memory that depends on the bucket size alone.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.jobs.engines.block_index import BlockIndex, digest_of, private_opener
from sfumato.jobs.engines.workers import in_order
from sfumato.mechanisms import Block

BUCKET_CELLS = 1 << 21
MOST_BUCKET_ROWS = 1 << 17


class Shuffle(Protocol):
    """Takes released blocks in, gives them back in random order."""

    def deal(self, block: Block, rng: np.random.Generator) -> Any:
        """Make a block ready for `add`; changes nothing, so that several threads may deal."""

    def add(self, dealt: Any) -> None:
        """Take in what `deal` returned."""

    @property
    def finished(self) -> int:
        """How many blocks, the first ones, an earlier run has added already."""

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        """All rows, in random order."""


class MemoryShuffle:
    """All rows at once."""

    finished = 0

    def __init__(self) -> None:
        self._blocks: list[Block] = []

    def deal(self, block: Block, rng: np.random.Generator) -> Block:  # noqa: ARG002 (the order is drawn at the end)
        return block

    def add(self, dealt: Block) -> None:
        self._blocks.append(dealt)

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        X = np.concatenate([block.X for block in self._blocks])
        source = np.concatenate([block.source for block in self._blocks])
        labels = [block.y for block in self._blocks if block.y is not None]
        self._blocks.clear()
        order = rng.permutation(len(X))
        y = np.concatenate(labels)[order] if labels else None
        yield Block(np.take(X.T, order, axis=1).T, y, source[order])


@dataclass(frozen=True)
class Dealt:
    """The rows of one block, bucket after bucket: in each [columns of the matrix | class codes | source rows]."""

    cells: Matrix
    ends: Codes
    labelled: bool
    digest: bytes = b""


class DiskShuffle:
    """Buckets in one private file: every block is appended, bucket after bucket, and an index says where they lie.

    One file, because a bucket has pieces in all blocks and there may be more buckets than files can be open.

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
        self._index = BlockIndex(folder / "index", self._count) if lasting else None
        if self._index is not None:
            for cells, ends, labelled in self._index.whole_blocks(self._path):
                self._take(cells, ends, labelled)

    @property
    def finished(self) -> int:
        """Blocks that lie here already."""
        return len(self._ends)

    def deal(self, block: Block, rng: np.random.Generator) -> Dealt:
        small = np.uint16 if self._count <= 1 << 16 else np.int32  # of 16 bits they are sorted by radix, much quicker
        bucket = rng.integers(self._count, size=len(block.X), dtype=small)
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=self._count))
        codes = np.full(len(order), -1.0) if block.y is None else block.y.astype(np.float64)
        source = block.source.astype(np.float64)  # exact: no table has 2^53 rows
        cells = np.empty(len(order) * (self._width + 2))
        start = 0
        for end in ends:
            if start < end:
                rows = order[start:end]
                piece = self._piece(cells, start, end)
                np.take(block.X.T, rows, axis=1, out=piece[: self._width], mode="clip")
                piece[self._width], piece[self._width + 1] = codes[rows], source[rows]
            start = end
        digest = b"" if self._index is None else digest_of(cells.data)
        return Dealt(cells, ends.astype(np.int64), block.y is not None, digest)

    def _piece(self, cells: Matrix, start: int, end: int) -> Matrix:
        """Rows `start` to `end` of a block as a matrix whose rows are columns of the release."""
        height = self._width + 2
        return cells[start * height : end * height].reshape(height, end - start)

    def add(self, dealt: Dealt) -> None:
        with open(self._path, "ab", opener=private_opener) as file:
            file.write(dealt.cells.data)  # says why it cannot, where NumPy's own `tofile` does not
        if self._index is not None:
            self._index.add(dealt.cells.size, dealt.ends, dealt.labelled, dealt.digest)
        self._take(dealt.cells.size, dealt.ends, dealt.labelled)

    def _take(self, cells: int, ends: Codes, labelled: bool) -> None:
        self._labelled = labelled
        self._offsets.append(self._size)
        self._ends.append(ends)
        self._size += cells

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
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
        height = self._width + 2
        gathered = np.empty((height, len(order)))
        filled = 0
        with self._path.open("rb", buffering=0) as file:
            for offset, ends in zip(self._offsets, self._ends, strict=True):
                start, end = int(ends[bucket - 1]) if bucket else 0, int(ends[bucket])
                if start == end:
                    continue
                cells = np.empty((end - start) * height)
                file.seek((offset + start * height) * cells.itemsize)
                if file.readinto(cells.data) != cells.nbytes:
                    raise OSError(errno.EIO, "the file of shuffled rows was cut short")
                gathered[:, filled : filled + end - start] = self._piece(cells, 0, end - start)
                filled += end - start
        rows = np.empty_like(gathered)
        np.take(gathered, order, axis=1, out=rows, mode="clip")  # a permutation: nothing to clip, nothing to check
        codes = rows[self._width].astype(np.int64) if self._labelled else None
        return Block(rows[: self._width].T, codes, rows[self._width + 1].astype(np.int64))
