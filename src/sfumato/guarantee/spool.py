"""Bytes that are put by while a run goes on and kept in the end, or vanish with it."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import tempfile
from pathlib import Path
from typing import IO

from sfumato.core.files import PRIVATE, explained, new_file, put_in_place

SPOOL_BYTES = 1 << 24
"""More than this does not stay in memory."""
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
            self._move_to_disk()
        self._file.seek(0, os.SEEK_END)  # it may have been read in between
        self._file.write(content)

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

    def _move_to_disk(self) -> None:
        held, self._file = self._file, _unnamed(self._beside)
        self._file.write(held.getbuffer() if isinstance(held, io.BytesIO) else held.read())
        self._on_disk = True

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
