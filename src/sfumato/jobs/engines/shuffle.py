"""Put released rows into a uniformly random order: position must not betray the source.

In memory this is one permutation. On disk every row goes to a bucket chosen at random, and each bucket is then
permuted in memory: the concatenation is a uniformly random permutation of all rows (Rao 1961, Sandelius 1962), in
memory that depends on the bucket size alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.mechanisms import Block

Matrix = NDArray[np.float64]

BUCKET_ROWS = 1 << 17


class Shuffle(Protocol):
    """Takes released blocks in, gives them back in random order."""

    def add(self, block: Block, rng: np.random.Generator) -> None: ...

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]: ...


class MemoryShuffle:
    """All rows at once."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []

    def add(self, block: Block, rng: np.random.Generator) -> None:  # noqa: ARG002 (the order is drawn at the end)
        self._blocks.append(block)

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        X = np.concatenate([block.X for block in self._blocks])
        source = np.concatenate([block.source for block in self._blocks])
        labels = [block.y for block in self._blocks if block.y is not None]
        self._blocks.clear()
        order = rng.permutation(len(X))
        yield Block(X[order], np.concatenate(labels)[order] if labels else None, source[order])


class DiskShuffle:
    """Buckets in private files of a temporary folder; rows are stored as [matrix | class code | source row]."""

    def __init__(self, folder: Path, rows: int, width: int, bucket_rows: int = BUCKET_ROWS):
        self._width = width
        self._labelled = False
        count = max(1, -(-rows // bucket_rows))
        folder.mkdir(mode=0o700)
        self._paths = [folder / f"bucket-{number:05d}" for number in range(count)]
        self._folder = folder

    def add(self, block: Block, rng: np.random.Generator) -> None:
        self._labelled = block.y is not None
        row = np.empty((len(block.X), self._width + 2))
        row[:, : self._width] = block.X
        row[:, self._width] = -1 if block.y is None else block.y
        row[:, self._width + 1] = block.source
        bucket = rng.integers(len(self._paths), size=len(row))
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=len(self._paths)))
        row = row[order]
        for path, start, end in zip(self._paths, np.r_[0, ends[:-1]], ends, strict=True):
            if start < end:
                with open(path, "ab", opener=_private) as file:
                    row[start:end].tofile(file)

    def blocks(self, rng: np.random.Generator) -> Iterator[Block]:
        for path in self._paths:
            if not path.exists():
                continue
            row = np.fromfile(path).reshape(-1, self._width + 2)
            path.unlink()
            row = row[rng.permutation(len(row))]
            codes = row[:, self._width].astype(np.int64) if self._labelled else None
            yield Block(row[:, : self._width], codes, row[:, self._width + 1].astype(np.int64))
        self._folder.rmdir()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
