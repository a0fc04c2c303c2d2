"""Durable files: a whole result or none, and private files that only their owner can read."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, TypeVar

from sfumato.core.errors import CardError, OutputError, SfumatoError

try:
    import fcntl
except ImportError:  # Windows, which has another
    fcntl = None  # type: ignore[assignment]

Found = TypeVar("Found")

PRIVATE = 0o600
SHARED = 0o644
PAUSE = 0.05
"""Seconds between two tries for a lock, where the system cannot wait for one."""


@contextlib.contextmanager
def new_file(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Yield a file beside `path` that becomes `path` when the block ends well, and vanishes otherwise.

    Written aside, synced, renamed: a reader sees the old file or the new one, never half of it.
    """
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with explained(path):
        try:
            mode = PRIVATE if private else SHARED
            with open(aside, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            put_in_place(aside, path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise


def put_in_place(aside: Path, path: Path) -> None:
    """Give a file that is already synced its final name, so that the name survives a power cut."""
    aside.replace(path)
    sync_folder(path.parent)


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read piece by piece."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_whole(path: Path | str, content: bytes | str, *, private: bool = False) -> None:
    """Write a file whole or not at all."""
    path = Path(path)
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and not path.is_file():
        raise OutputError(f"{path} is a folder or a device, but a file must be written there. Choose another name.")
    with new_file(path, private=private) as file:
        file.write(data)


def check_free(path: Path | str | None, *, force: bool = False) -> None:
    """Refuse a place that is taken, before any work is done for it."""
    if path is not None and not force and Path(path).exists():
        told = "{path} exists already. Choose another name, or replace it: --force, in Python force=True."
        raise OutputError(told, path=path)


def check_folder(path: Path, *, force: bool = False) -> None:
    """Refuse a place where no new folder can stand."""
    if path.name in ("", ".."):
        raise OutputError(f"{path} is no name for a new folder. Give one inside of it.")
    check_free(path, force=force)
    if path.exists() and not path.is_dir():
        raise OutputError("{path} is a file, but a folder must be written there. Choose another name.", path=path)


@contextlib.contextmanager
def new_folder(
    path: Path | str,
    *,
    force: bool = False,
    private: bool = False,
    aside: Path | None = None,
    keep: Callable[[], bool] = lambda: False,
) -> Iterator[Path]:
    """Yield an empty folder beside `path` that becomes `path` when the block ends well, and vanishes otherwise.

    `aside` names that folder; it may exist, and is then gone on with. If the block fails, `keep` may keep it.
    """
    path = Path(path)
    check_folder(path, force=force)
    named, aside = aside is not None, aside or path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.mkdir(mode=0o700, exist_ok=named)
        try:
            yield aside
            for file in aside.rglob("*"):
                sync_file(file)
            sync_folder(aside)
            aside.chmod(0o700 if private else 0o755)
            _swap(aside, path, force)
        except BaseException:
            if not keep():
                shutil.rmtree(aside, ignore_errors=True)
            raise
        sync_folder(path.parent)


def _swap(aside: Path, path: Path, force: bool) -> None:
    """Put `aside` where `path` is; the old folder is removed only once the new one stands."""
    if not path.exists() or not force:
        # Another program may have written here meanwhile: a rename onto a folder that holds anything is refused.
        try:
            aside.rename(path)
        except OSError as error:
            if not path.exists():
                raise
            raise OutputError(f"{path} was written by another program meanwhile. Nothing there was changed.") from error
        return
    old = path.with_name(f".{path.name}.{secrets.token_hex(4)}.old")
    path.rename(old)
    try:
        aside.rename(path)
    except BaseException:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def lock_of(path: Path) -> Path:
    """The file beside `path` that is locked while it changes."""
    return path.with_name(f".{path.name}.lock")


@contextlib.contextmanager
def exclusive(path: Path, *, busy: SfumatoError | None = None) -> Iterator[None]:
    """Only one process at a time changes `path`: a lock on a file beside it, which the system frees if we die.

    Where another one holds it we wait, or raise `busy`.
    """
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(lock_of(path), os.O_RDWR | os.O_CREAT, PRIVATE)) as file:
            if not locked(file, wait=busy is None):
                assert busy is not None
                raise busy
            yield


@contextlib.contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Refuse a second process that writes to `path` while we do; no lock is left behind."""
    lock = lock_of(path)
    while True:
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT, PRIVATE))
        with file:
            if not locked(file, wait=False):
                raise OutputError(f"Another run is writing to {path}. Wait until it is done, or choose another folder.")
            if not (lock.exists() and os.path.samestat(lock.stat(), os.fstat(file.fileno()))):
                continue  # its last owner removed it between our opening and our locking it
            try:
                yield
            finally:
                with contextlib.suppress(PermissionError):  # Windows removes no file that is open
                    lock.unlink(missing_ok=True)
            return


def locked(file: IO[str], *, wait: bool) -> bool:
    """Lock an open file until it is closed, or this process ends; false where another process holds it."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True
    # On Windows the first byte, which is never read, is locked; its lock cannot be waited for, so it is asked for again
    windows = importlib.import_module("msvcrt")
    while True:
        try:
            windows.locking(file.fileno(), windows.LK_NBLCK, 1)
            return True
        except OSError:
            if not wait:
                return False
            time.sleep(PAUSE)


def sync_file(path: Path) -> None:
    """Flush a file's content to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some systems cannot sync a file opened for reading
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_back(file: IO[bytes]) -> None:
    """Let the system write what is in a growing file so far, and forget it, while work goes on.

    Waiting for the disk at the end takes as long as what is left then, and what is read twice stays in memory.
    """
    if hasattr(os, "posix_fadvise"):  # Linux begins to write what it cannot forget yet
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def sync_folder(path: Path) -> None:
    """Flush a folder's entries, so that a rename survives a power cut; Windows has no such call."""
    if os.name != "nt":
        sync_file(path)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the system's refusals into an `OutputError` that says where and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OutputError(f"The disk that holds {path} is full. Nothing was written; free some space.") from error
        if error.errno == errno.EFBIG:
            raise OutputError(
                f"{path} needs a larger file than this system allows (ulimit -f). Nothing was written; raise the limit."
            ) from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise OutputError(f"{path} cannot be written: permission denied. Choose a folder of your own.") from error
        raise OutputError(f"{path} cannot be written: {error.strerror or type(error).__name__}.") from error


def is_private(path: Path) -> bool:
    """Whether only the owner can read the file; true where the system has no such modes."""
    return os.name == "nt" or (path.stat().st_mode & 0o077) == 0


def read_kept(
    path: Path, what: str, file: tuple[str, int], read: Callable[[dict[str, Any]], Found], lost: str
) -> Found:
    """What `read` makes of a JSON file that only this program writes, of this format and version.

    `what` the file is begins the error; one that is damaged is `lost`, which says what to do then.
    """
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if data["format"] != file[0]:
            raise ValueError("another file")
        if why := other_version(data["version"], file[1], older="Take it from a backup."):
            raise CardError(f"{what} {path} {why}")  # nothing is written over it
        return read(data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CardError(lost) from error


def other_version(found: object, reads: int, *, older: str) -> str | None:
    """Why a file of version `found` is not read and what to do, to follow the file's name; None for the one that is.

    `older` says what to do with a file of an earlier version.
    """
    if isinstance(found, bool) or not isinstance(found, int):
        return "states no version: it was edited or is damaged."
    if found > reads:
        return (
            f"has version {found}, and this program reads version {reads}: a newer sfumato wrote it. Upgrade sfumato."
        )
    return None if found == reads else f"has version {found}, and this program reads version {reads}. {older}"
