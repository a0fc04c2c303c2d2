"""To which studies this site has agreed, by their hash: a private file beside the ledger."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sfumato.client.private_notes import PrivateNotes
from sfumato.guarantee.ledger import default_ledger


def default_agreements() -> Path:
    """Beside the ledger of this user."""
    return default_ledger().with_name("agreements.json")


def _check(note: Any) -> object:
    return str(note["hash"])


class Agreements(PrivateNotes):
    """Address and study -> the hash that was agreed to when the first push was allowed."""

    format, notes, check = "sfumato-agreements", "studies", _check
    what = "list of agreed studies"
    way_out = "Take it from a backup, or move it away: you are then asked again."

    def hash_of(self, address: str, study: str) -> str | None:
        found = self.note(_name(address, study))
        return None if found is None else str(found["hash"])

    def agree(self, address: str, study: str, study_hash: str) -> None:
        """Remember, durably; an agreement to another hash is replaced only by somebody who was shown the new one."""
        with self.changed() as studies:
            studies[_name(address, study)] = {"hash": study_hash, "since": datetime.now(UTC).date().isoformat()}


def _name(address: str, study: str) -> str:
    return f"{address} {study}"
