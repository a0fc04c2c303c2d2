"""Which blocks lie whole in a file of buckets: a killed run may have left half of one, or more that was not synced."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sfumato.array_types import Codes

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
    SHA-256 of all bytes. Nobody forges a block: whoever can write here has the run key."""
    words = np.frombuffer(content, dtype="<u8")
    sums = np.add.reduceat(words, np.arange(0, len(words), PAGE_CELLS)) if len(words) else words
    return hashlib.sha256(sums.tobytes()).digest()


def _sealed(record: np.void, digest: bytes) -> bytes:
    """The hash of a block and of its record: a long record may reach the disk in part, too."""
    fields = (record[name].tobytes() for name in ("cells", "labelled", "ends"))
    return hashlib.sha256(digest + b"".join(fields)).digest()


def private_opener(path: str, flags: int) -> int:
    """For `open`: a file that only its owner can read."""
    return os.open(path, flags, 0o600)
