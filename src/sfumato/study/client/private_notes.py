"""What this user's devices remember from one call to the next: a private JSON file beside the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Self

from sfumato.core.errors import CardError
from sfumato.core.files import exclusive, other_version, write_whole
from sfumato.ledger.ledger import default_ledger

VERSION = 1
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True)
class PrivateNotes:
    """Notes by name; a child says what they are, and which keys each has. `what` and `way_out` are the words for a file
    that cannot be read."""

    path: Path
    file: ClassVar[str]
    format: ClassVar[str]
    notes: ClassVar[str]
    what: ClassVar[str]
    way_out: ClassVar[str]
    keys: ClassVar[dict[str, type]]

    @classmethod
    def usual(cls) -> Self:
        """Those beside the ledger of this user."""
        return cls(default_ledger().with_name(cls.file))

    def note(self, name: str) -> Any:
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
                _ = [kind(one[key]) for key, kind in self.keys.items()]
        except UNREADABLE as error:
            raise CardError(f"The {self.what} {self.path} cannot be read. {self.way_out}") from error
        if why:
            raise CardError(f"The {self.what} {self.path} {why}")
        return data


# To which studies this site has agreed, by their hash: a private file beside the ledger.


class Agreements(PrivateNotes):
    """Address and study -> the hash that was agreed to when the first push was allowed."""

    file, format, notes, keys = "agreements.json", "sfumato-agreements", "studies", {"hash": str}
    what = "list of agreed studies"
    way_out = "Take it from a backup, or move it away: you are then asked again."

    def hash_of(self, address: str, study: str) -> str | None:
        found = self.note(f"{address} {study}")
        return None if found is None else str(found["hash"])

    def agree(self, address: str, study: str, study_hash: str) -> None:
        """Remember, durably; an agreement to another hash is replaced only once the new one was shown."""
        with self.changed() as studies:
            studies[f"{address} {study}"] = {"hash": study_hash, "since": datetime.now(UTC).date().isoformat()}


# Heads of survey logs that this device has seen: a log that does not continue them is another log.


class RememberedHeads(PrivateNotes):
    """Address of a survey -> (version, hash) of the newest entry seen; a private file."""

    file, format, notes = "survey-heads.json", "sfumato-survey-heads", "surveys"
    keys = {"version": int, "hash": str}
    what = "heads of surveys"
    way_out = "Move the file away: a changed log is then noticed only from now on."

    def head(self, survey: str) -> tuple[int, str] | None:
        found = self.note(survey)
        return None if found is None else (int(found["version"]), str(found["hash"]))

    def remember(self, survey: str, version: int, digest: str) -> None:
        with self.changed() as surveys:
            seen = surveys.get(survey)
            if seen is None or seen["version"] <= version:
                surveys[survey] = {"version": version, "hash": digest}
