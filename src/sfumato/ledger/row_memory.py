"""Which rows were released before: files of keyed hashes in a private folder beside the owner's ledger.

A release and the memory of it cannot become durable in one stroke, so they do so in three: the hashes are written
as *pending*, together with what identifies the release and where it will stand; the release is renamed into place;
the hashes lose the word pending. Who finds pending hashes later looks whether the release stands there, and so knows
whether its rows were released. Rows are then neither released twice nor lost, whenever a run was killed.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sfumato.core.array_types import Floats, Hashes
from sfumato.core.errors import CardError
from sfumato.core.files import exclusive, explained, file_digest, sync_folder, write_whole
from sfumato.ledger.ledger import Ledger

HASH_BYTES = 16
_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
TILE = 1 << 15  # cells that are hashed at a time: they stay in the cache


class RowHash:
    """A pseudorandom function of encoded rows, computed per block.

    Two sums of 64 bits over the row's words, each mixed with secret words of its own (a keyed universal hash), then
    AES-128 of both together: without the key, hashes tell no more than which rows are equal.
    """

    def __init__(self, key: bytes, series: str, width: int):
        self._key = hmac.new(key, b"row/" + series.encode(), hashlib.sha256).digest()
        seed = int.from_bytes(self._key[16:], "little")
        secret = np.random.Generator(np.random.PCG64(seed)).integers(0, 2**64, size=(2, 2, width), dtype=np.uint64)
        self._masks, self._weights = secret[0], secret[1] | np.uint64(1)

    def of_rows(self, cells: Floats) -> Hashes:
        """Hashes of encoded rows (n, width); equal rows, and only they, have equal hashes."""
        sums = np.empty((len(cells), 2), dtype=np.uint64)
        step = max(64, TILE // max(1, cells.shape[1]))
        for start in range(0, len(cells), step):
            words = np.ascontiguousarray(cells[start : start + step].T + 0.0).view(np.uint64)  # -0 and 0 are one row
            for lane in range(2):
                mixed = words ^ self._masks[lane][:, None]
                for multiplier in _MIXERS:
                    mixed ^= mixed >> np.uint64(31)
                    mixed *= multiplier
                mixed ^= mixed >> np.uint64(29)
                mixed *= self._weights[lane][:, None]
                sums[start : start + step, lane] = mixed.sum(axis=0, dtype=np.uint64)
        # One block, one row: that equal rows give equal words is what is wanted of a hash here.
        encryptor = Cipher(algorithms.AES(self._key[:16]), modes.ECB()).encryptor()
        return np.frombuffer(encryptor.update(sums.tobytes()) + encryptor.finalize(), dtype=f"S{HASH_BYTES}")

    @property
    def person_key(self) -> bytes:
        """The key under which people, rather than rows, are hashed."""
        return hmac.new(self._key, b"person", hashlib.sha256).digest()


KNOWN, PENDING, ANNOUNCED, RELEASED = ".rows", ".pending", ".announced", ".released"


@dataclass
class RowMemory:
    """What a ledger remembers of one series of releases: those of one schema.

    `series` says of what kind the hashes are (rows or people) and under which encoding they were made.
    """

    folder: Path
    hasher: RowHash
    _pending: Path | None = None

    @classmethod
    @contextlib.contextmanager
    def opened(cls, ledger: Ledger, series: str, width: int) -> Iterator[RowMemory]:
        """The memory, for this process alone: another run waits, else both would take the same rows for new."""
        ledger.keep()  # the key that the hashes are made with must outlive this run
        folder = memory_folder(ledger, series)
        with exclusive(folder.parent):
            memory = cls(folder, RowHash(ledger.key, series, width))
            with explained(folder):
                folder.parent.mkdir(mode=0o700, exist_ok=True)
                folder.mkdir(mode=0o700, exist_ok=True)
                # Runs that were killed left their hashes pending; no other run is at work here now.
                for pending in folder.glob("*" + PENDING):
                    memory._decide(pending, at_once=False)
                for about in folder.glob("*" + ANNOUNCED):  # its hashes were settled, then the run was killed
                    if about.with_suffix(KNOWN).exists():
                        about.rename(about.with_suffix(RELEASED))
                    else:
                        about.unlink()
            yield memory

    def known(self) -> Iterator[Hashes]:
        """The hashes of every earlier release, sorted, as files that are read only where they are looked into."""
        for path in sorted(self.folder.glob("*" + KNOWN)):
            size = path.stat().st_size
            if size % HASH_BYTES:
                raise CardError(f"The ledger's memory {path} was cut short. Take it from a backup.")
            if size:
                yield np.memmap(path, dtype=f"S{HASH_BYTES}", mode="r")

    def write_pending(self, parts: Iterable[Hashes]) -> None:
        """Write the hashes of rows that are about to be released; `parts` come sorted, one after the other."""
        self._pending = self.folder / (secrets.token_hex(8) + PENDING)
        private = partial(os.open, mode=0o600)
        with explained(self._pending), open(self._pending, "xb", opener=private) as file:
            for part in parts:
                file.write(part.tobytes())
            file.flush()
            os.fsync(file.fileno())

    @property
    def mark(self) -> str:
        """By which the ledger's note of the release names the hashes that are pending now."""
        assert self._pending is not None
        return f"{self.folder.name}/{self._pending.stem}"

    def holds(self, mark: str) -> bool:
        """Whether the hashes under this mark are of this series."""
        return mark.partition("/")[0] == self.folder.name

    def announce(self, release: Path, target: Path, note: Mapping[str, Any]) -> None:
        """Say, durably, whose hashes are pending: those of the file `release`, which is to stand at `target`.

        `note` is how the ledger noted the release, so that it can be struck with the hashes, should it never leave.
        """
        assert self._pending is not None
        about = {"release": file_digest(release), "from": str(release.absolute()), "to": str(target.absolute())}
        text = json.dumps({**about, "note": dict(note)})
        write_whole(self._pending.with_suffix(ANNOUNCED), text, private=True)

    def keep(self, note: Mapping[str, Any]) -> Path:
        """Know the hashes from now on: their release is in memory, and may be seen as soon as it is handed over.

        Returns the file that says so, for `name_release` once there is a file of the release.
        """
        assert self._pending is not None
        pending, self._pending = self._pending, None
        about = pending.with_suffix(RELEASED)
        write_whole(about, json.dumps({"release": None, "note": dict(note)}), private=True)
        with explained(self.folder):
            pending.rename(pending.with_suffix(KNOWN))
            sync_folder(self.folder)
        return about

    def settle(self) -> None:
        """The run ended: its hashes are known from now on if the release stands, and else forgotten."""
        if self._pending is not None and self._pending.exists():
            with explained(self.folder):
                self._decide(self._pending, at_once=True)
        self._pending = None

    def _decide(self, pending: Path, *, at_once: bool) -> None:
        about = pending.with_suffix(ANNOUNCED)
        if about.exists() and _stands(about, pending, at_once=at_once):
            pending.rename(pending.with_suffix(KNOWN))
            about.rename(about.with_suffix(RELEASED))
        else:
            pending.unlink()
            about.unlink(missing_ok=True)
        sync_folder(self.folder)


def name_release(about: Path, release: Path) -> None:
    """Say which file a release that was kept in memory has become, so that it can be forgotten like any other."""
    if about.is_file():
        found = json.loads(about.read_text(encoding="utf-8"))
        write_whole(about, json.dumps({**found, "release": file_digest(release)}), private=True)


def forget(ledger: Ledger, digest: str) -> int:
    """Forget a release that never left, by the digest of its file: its rows are new again. Returns their number."""
    home = memory_home(ledger)
    if not home.is_dir():
        return 0
    with exclusive(home), explained(home):
        for about in home.glob("*/*" + RELEASED):
            found = json.loads(about.read_text(encoding="utf-8"))
            known = about.with_suffix(KNOWN)
            if found["release"] == digest and known.exists():
                rows = known.stat().st_size // HASH_BYTES
                ledger.strike(**found["note"])
                known.unlink()
                about.unlink()
                sync_folder(about.parent)
                return rows
    return 0


def was_released(ledger: Ledger, mark: str) -> bool:
    """Whether the release under this mark stands; one of another series that was not settled yet may."""
    hashes = memory_home(ledger) / mark
    return any(hashes.with_suffix(ending).exists() for ending in (KNOWN, PENDING))


def memory_home(ledger: Ledger) -> Path:
    """The folder of all series, beside the ledger."""
    return ledger.path.with_name(ledger.path.name + ".rows")


def memory_folder(ledger: Ledger, series: str) -> Path:
    """Where the hashes of a series are, beside the ledger."""
    name = hmac.new(ledger.key, b"series/" + series.encode(), hashlib.sha256).hexdigest()[:16]
    return memory_home(ledger) / name


def _stands(note: Path, pending: Path, *, at_once: bool) -> bool:
    """Whether the announced release was renamed into place; `at_once`, no one can have moved it away since."""
    try:
        about = json.loads(note.read_text(encoding="utf-8"))
        here, target, digest = Path(about["from"]), Path(about["to"]), about["release"]
    except (ValueError, KeyError, TypeError) as error:
        raise CardError(f"The ledger's note {note} is damaged. Take it from a backup.") from error
    if target.is_file() and file_digest(target) == digest:
        return True
    if here.is_file() or at_once:
        return False
    raise CardError(
        f"A run with --only-new was killed while it wrote {target.parent}, and the release is no longer there, so it "
        f"is unknown whether its rows were released. If that release exists somewhere, put its folder back for this "
        f"run. If it does not, delete {note} and {pending}."
    )
