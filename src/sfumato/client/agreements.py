"""To which studies this site has agreed, by their hash: a private file beside the ledger."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sfumato.errors import CardError
from sfumato.files import exclusive, other_version, write_whole
from sfumato.guarantee.ledger import default_ledger

FORMAT, VERSION = "sfumato-agreements", 1


def default_agreements() -> Path:
    """Beside the ledger of this user."""
    return default_ledger().with_name("agreements.json")


@dataclass(frozen=True)
class Agreements:
    """Address and study -> the hash that was agreed to when the first push was allowed."""

    path: Path

    def hash_of(self, address: str, study: str) -> str | None:
        found = self._read()["studies"].get(_name(address, study))
        return None if found is None else str(found["hash"])

    def agree(self, address: str, study: str, study_hash: str) -> None:
        """Remember, durably; an agreement to another hash is replaced only by somebody who was shown the new one."""
        with exclusive(self.path):
            data = self._read()
            data["studies"][_name(address, study)] = {"hash": study_hash, "since": datetime.now(UTC).date().isoformat()}
            write_whole(self.path, json.dumps(data, indent=1), private=True)

    def _read(self) -> dict[str, Any]:
        if not self.path.exists():
            return {"format": FORMAT, "version": VERSION, "studies": {}}
        try:
            data: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
            if why := other_version(data["version"], VERSION, older="Take it from a backup."):
                raise CardError(f"The list of agreed studies {self.path} {why}")
            for entry in data["studies"].values():
                str(entry["hash"])
        except CardError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CardError(
                f"The list of agreed studies {self.path} cannot be read. Take it from a backup, or move it away: you "
                "are then asked again."
            ) from error
        return data


def _name(address: str, study: str) -> str:
    return f"{address} {study}"
