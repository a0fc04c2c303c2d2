"""Fingerprints of a release that is being made: in the order of its rows, on the disk once they are many.

They are looked at a piece at a time and sorted a piece at a time, so that memory does not grow with the table.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from sfumato.guarantee.person_hash import Prints
from sfumato.guarantee.spool import Spool

PIECE = 1 << 19
"""Fingerprints that are held and sorted together."""
BYTES = 8


class SpooledPrints:
    """Takes fingerprints in, gives them back in the same order, or sorted and each once."""

    def __init__(self, beside: Path | None) -> None:
        self._beside = beside
        self._spool = Spool(beside)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, prints: Prints) -> None:
        """Take in more of them."""
        self._spool.write(_bytes(prints))
        self._count += len(prints)

    def pieces(self) -> Iterator[Prints]:
        """All of them, a piece at a time."""
        for start in range(0, self._count, PIECE):
            file = self._spool.from_start()
            file.seek(BYTES * start)  # several may read in turns
            wanted = BYTES * min(PIECE, self._count - start)
            content = file.read(wanted)
            if len(content) != wanted:
                raise OSError(errno.EIO, "the file of fingerprints was cut short")
            yield np.frombuffer(content, dtype="<u8")

    def all(self) -> Prints:
        """All of them in memory."""
        return np.concatenate([np.empty(0, dtype=np.uint64), *self.pieces()])

    def write_sorted(self, file: IO[bytes]) -> None:
        """Write them in order, each once.

        Every piece is sorted and cut where the same words cut all pieces. What lies between two cuts is then sorted as
        a whole: fingerprints are evenly spread, and so these parts are as long as a piece.
        """
        count = max(1, -(-self._count // PIECE))
        step = -(-(1 << 64) // count)
        cuts = np.array([step * part for part in range(1, count)], dtype=np.uint64)
        runs, ends = Spool(self._beside), []
        for piece in self.pieces():
            run = np.sort(piece)
            ends.append(np.concatenate([[0], np.searchsorted(run, cuts), [len(run)]]).astype(np.int64))
            runs.write(_bytes(run))
        source = runs.from_start()
        starts = PIECE * np.arange(len(ends))
        for part in range(count if ends else 0):
            found = []
            for start, end in zip(starts, ends, strict=True):
                source.seek(BYTES * int(start + end[part]))
                found.append(np.frombuffer(source.read(BYTES * int(end[part + 1] - end[part])), dtype="<u8"))
            file.write(_bytes(each_once(np.sort(np.concatenate(found)))))


def each_once(found: Prints) -> Prints:
    """What stands several times in a row, once."""
    first = np.append(True, found[1:] != found[:-1])[: len(found)]
    return found if first.all() else np.asarray(found[first])  # mostly all differ, and no copy is made


def _bytes(prints: Prints) -> memoryview:
    return np.ascontiguousarray(prints, dtype="<u8").data.cast("B") if len(prints) else memoryview(b"")
