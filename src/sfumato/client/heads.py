"""Heads of survey logs that this device has seen: a log that does not continue them is another log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import CardError
from sfumato.files import exclusive, other_version, write_whole
from sfumato.guarantee.ledger import default_ledger

FORMAT, VERSION = "sfumato-survey-heads", 1


def default_heads() -> Path:
    """Beside the ledger of this user."""
    return default_ledger().with_name("survey-heads.json")


@dataclass(frozen=True)
class RememberedHeads:
    """Address of a survey -> (version, hash) of the newest entry seen; a private file."""

    path: Path

    def head(self, survey: str) -> tuple[int, str] | None:
        found = self._read()["surveys"].get(survey)
        return None if found is None else (int(found["version"]), str(found["hash"]))

    def remember(self, survey: str, version: int, digest: str) -> None:
        with exclusive(self.path):
            data = self._read()
            seen = data["surveys"].get(survey)
            if seen is None or seen["version"] <= version:
                data["surveys"][survey] = {"version": version, "hash": digest}
            write_whole(self.path, json.dumps(data, indent=1), private=True)

    def _read(self) -> dict[str, Any]:
        if not self.path.exists():
            return {"format": FORMAT, "version": VERSION, "surveys": {}}
        try:
            data: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
            if "format" not in data:  # 0.1.0 wrote the surveys alone
                data = {"format": FORMAT, "version": VERSION, "surveys": data}
            if why := other_version(data["version"], VERSION, older="Take it from a backup."):
                raise CardError(f"The heads of surveys {self.path} {why}")
            for entry in data["surveys"].values():
                int(entry["version"]), str(entry["hash"])
        except CardError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise CardError(
                f"The heads of surveys {self.path} cannot be read. Move the file away: a changed log is then noticed "
                "only from now on."
            ) from error
        return data
