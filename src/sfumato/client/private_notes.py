"""What this user's devices remember from one call to the next: a private JSON file beside the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from sfumato.errors import CardError
from sfumato.files import exclusive, other_version, write_whole

VERSION = 1
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True)
class PrivateNotes:
    """Notes by name; a child says what they are and how to check one.

    `what` and `way_out` are the words for a file that cannot be read.
    """

    path: Path
    format: ClassVar[str]
    notes: ClassVar[str]
    what: ClassVar[str]
    way_out: ClassVar[str]
    check: ClassVar[Callable[[Any], object]]

    def note(self, name: str) -> Any:
        """What was noted, or None."""
        return self._read()[self.notes].get(name)

    @contextmanager
    def changed(self) -> Iterator[dict[str, Any]]:
        """The notes, to change; written durably, by one process at a time."""
        with exclusive(self.path):
            data = self._read()
            yield data[self.notes]
            write_whole(self.path, json.dumps(data, indent=1), private=True)

    def _read(self) -> dict[str, Any]:
        fresh = {"format": self.format, "version": VERSION, self.notes: {}}
        if not self.path.exists():
            return fresh
        try:
            data: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
            if "format" not in data:  # 0.1.0 wrote some notes alone
                data = {**fresh, self.notes: data}
            why = other_version(data["version"], VERSION, older="Take it from a backup.")
            for one in () if why else data[self.notes].values():
                type(self).check(one)
        except UNREADABLE as error:
            raise CardError(f"The {self.what} {self.path} cannot be read. {self.way_out}") from error
        if why:
            raise CardError(f"The {self.what} {self.path} {why}")
        return data
