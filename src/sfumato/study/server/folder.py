"""Where files lie in the data folder, and how a pushed one becomes durable.

    data/incoming/<random>/      what one process is receiving; gone when the process is
    data/releases/<study>/       <sha256>.parquet
    data/tests/<study>/          <sha256>.parquet or .csv: public test tables
    data/models/<study>/         <model>.skops

A release is visible once its row is committed. Files come first: body, fsync, rename, fsync of the folder, then the
row. Between rename and commit a shared lock is held; who sweeps away files without a row takes it exclusively, so that
no process removes what another is about to acknowledge.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from sfumato.core.files import PRIVATE, locked, put_in_place, sync_folder

NAME = "in-use"


class DataFolder:
    """Paths of one data folder, and this process's corner of `incoming`."""

    def __init__(self, data: Path) -> None:
        self.data = data
        for part in (data, data / "incoming", data / "releases", data / "tests", data / "models"):
            part.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._corner: tuple[Path, int] | None = None

    def release(self, study: str, sha256: str) -> Path:
        return self.data / "releases" / study / f"{sha256}.parquet"

    def test_table(self, study: str, sha256: str, format: str) -> Path:
        return self.data / "tests" / study / f"{sha256}.{format}"

    def model(self, study: str, model: str) -> Path:
        return self.data / "models" / study / f"{model}.skops"

    def free_bytes(self) -> int:
        return shutil.disk_usage(self.data).free

    def open(self) -> None:
        """Take a corner of `incoming`, and remove those of processes that are gone."""
        with self.settling(exclusive=True):
            for old in (self.data / "incoming").iterdir():
                if not _is_held(old / NAME):
                    shutil.rmtree(old, ignore_errors=True)
            corner = self.data / "incoming" / secrets.token_hex(8)
            corner.mkdir(mode=0o700)
            in_use = os.open(corner / NAME, os.O_RDWR | os.O_CREAT, PRIVATE)
            fcntl.flock(in_use, fcntl.LOCK_EX)
            self._corner = corner, in_use

    def close(self) -> None:
        if self._corner is not None:
            shutil.rmtree(self._corner[0], ignore_errors=True)
            os.close(self._corner[1])
            self._corner = None

    def incoming(self) -> Path:
        """A new name to receive into."""
        if self._corner is None:
            self.open()
        assert self._corner is not None
        return self._corner[0] / secrets.token_hex(16)

    @contextlib.contextmanager
    def settling(self, *, exclusive: bool = False) -> Iterator[None]:
        """Held (shared) from rename to commit, and (exclusively) by who sweeps."""
        descriptor = os.open(self.data / ".settling", os.O_RDWR | os.O_CREAT, PRIVATE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            yield
        finally:
            os.close(descriptor)

    def settle(self, received: Path, place: Path) -> None:
        """Rename a received and synced file to its place, durably."""
        if not place.parent.exists():
            place.parent.mkdir(exist_ok=True, mode=0o700)
            sync_folder(place.parent.parent)
        put_in_place(received, place)

    def sweep(self, kept: set[tuple[str, str]]) -> None:
        """Remove release files that no row speaks of: pushes that died before they were acknowledged, withdrawals."""
        for path in (self.data / "releases").glob("*/*.parquet"):
            if (path.parent.name, path.stem) not in kept:
                path.unlink(missing_ok=True)


def _is_held(lock: Path) -> bool:
    """Whether a living process holds the corner, or may hold it, where the file system cannot tell."""
    try:
        file = lock.open("r+")
    except OSError:
        return False
    with file:
        try:
            return not locked(file, wait=False)
        except OSError:
            return True
