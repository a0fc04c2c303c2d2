"""A copy of a public log of releases: read from tiles at an address or in a folder, checked whole, and followed.

Everything in a copy follows from the signed checkpoint: entries hash to its root, or the copy is refused. A later copy
must continue an earlier one. Who keeps a copy therefore notices a log that was changed; who compares checkpoints with
others notices one that shows different people different logs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sfumato.core.errors import CardError
from sfumato.core.files import write_whole
from sfumato.ledger.merkle import TILE, ProofError, leaf_hash, nodes_of, root_of, tile_path, tile_width
from sfumato.ledger.notes import Checkpoint, NoteError, NoteKey, opened, time_signed

Entry = bytes
Fetch = Callable[[str], bytes]
"""What stands at a path below the log's address."""
LONGEST_ENTRY = 16 << 10
LARGEST = 1 << 24
"""Entries of a log that is still read whole."""
CHECKPOINT, KEY = "checkpoint", "log.vkey"
LOG = "/log"
"""Where a coordinator shows its log."""


def entry_of(kind: str, told: Mapping[str, Any]) -> Entry:
    """An entry as it is hashed: JSON in one spelling."""
    text = json.dumps(
        {"kind": kind, **told}, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    )
    return text.encode()


def packed(entries: Iterable[Entry]) -> bytes:
    """A bundle of entries, each after its length."""
    return b"".join(len(one).to_bytes(2, "big") + one for one in entries)


def unpacked(bundle: bytes, number: int) -> list[Entry]:
    """The entries of a bundle, which are so many."""
    found, at = [], 0
    while at + 2 <= len(bundle):
        end = at + 2 + int.from_bytes(bundle[at : at + 2], "big")
        found.append(bundle[at + 2 : end])
        at = end
    if at != len(bundle) or len(found) != number:
        raise CardError("A part of the log cannot be read: it was cut short or changed.")
    return found


@dataclass(frozen=True)
class LogCopy:
    """All entries of a log up to a checkpoint, which its key signed."""

    key: NoteKey
    note: str
    entries: tuple[Entry, ...]

    @classmethod
    def read(cls, fetch: Fetch, key: NoteKey, known: LogCopy | None = None) -> LogCopy:
        """The log as it is now, checked; it continues the one that is `known`, whose entries are not read again."""
        try:
            note = fetch(CHECKPOINT).decode()
            size = opened(note, key).size
        except ValueError as error:
            raise CardError(f"The log {key.name} cannot be believed: {error}") from None
        if size > LARGEST:
            raise CardError(f"The log {key.name} has {size:,} entries, too many to be read whole.")
        before = () if known is None else known.entries
        if size < len(before):
            raise CardError(f"The log {key.name} became shorter: it had {len(before):,} entries, and has {size:,}.")
        entries = list(before[: len(before) // TILE * TILE])
        for number in range(len(entries) // TILE, -(-size // TILE)):
            width = tile_width(size, 0, number)
            entries += unpacked(fetch(f"tile/entries/{tile_path(number, width)}"), width)
        found = cls(key, note, tuple(entries))
        if found.root(size) != found.checkpoint.root:
            raise CardError(f"The log {key.name} was changed: its entries do not lead to the root that it signed.")
        if known is not None and found.root(len(before)) != known.checkpoint.root:
            raise CardError(
                f"The log {key.name} does not continue the copy of {len(before):,} entries: it was changed, or it "
                "shows different people different logs. Keep both copies, and tell others."
            )
        return found

    @classmethod
    def load(cls, folder: Path) -> LogCopy:
        """A copy that `save` wrote, checked again."""

        def fetch(path: str) -> bytes:
            try:
                return (folder / path).read_bytes()
            except OSError:
                raise CardError(f"{folder} is no copy of a log, or a part of it is missing: {path}.") from None

        try:
            key = NoteKey.read(fetch(KEY).decode())
        except ValueError as error:
            raise CardError(f"{folder / KEY} holds no key of a log: {error}") from None
        return cls.read(fetch, key)

    def save(self, folder: Path) -> None:
        """In the form of tlog-tiles, the checkpoint last; a copy that is there is continued."""
        for number in range(-(-len(self.entries) // TILE)):
            some = self.entries[number * TILE : (number + 1) * TILE]
            path = folder / "tile" / "entries" / tile_path(number, len(some))
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, packed(some))
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / KEY, self.key.text + "\n")
        write_whole(folder / CHECKPOINT, self.note)

    @cached_property
    def checkpoint(self) -> Checkpoint:
        return opened(self.note, self.key)

    @cached_property
    def _nodes(self) -> Callable[[int, int], bytes]:
        return nodes_of([leaf_hash(one) for one in self.entries])

    def root(self, size: int) -> bytes:
        """The root that the log had when it had so many entries."""
        return root_of(self._nodes, size)

    def witnessed(self, witnesses: Iterable[NoteKey]) -> dict[str, int]:
        """Witnesses that signed the checkpoint, with the times; a signature that does not fit is refused."""
        try:
            times = {one.name: time_signed(self.note, one) for one in witnesses}
        except (NoteError, ProofError) as error:
            raise CardError(f"The checkpoint of {self.key.name} cannot be believed: {error}") from None
        return {name: time for name, time in times.items() if time is not None}

    def told(self, kind: str) -> list[tuple[int, dict[str, Any]]]:
        """The entries of one kind, with their numbers; what cannot be read is of no kind."""
        found = []
        for number, entry in enumerate(self.entries):
            try:
                read = json.loads(entry)
            except (ValueError, RecursionError):
                continue
            if isinstance(read, dict) and read.get("kind") == kind:
                found.append((number, read))
        return found
