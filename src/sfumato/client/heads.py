"""Heads of survey logs that this device has seen: a log that does not continue them is another log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato.client.private_notes import PrivateNotes
from sfumato.guarantee.ledger import default_ledger


def default_heads() -> Path:
    """Beside the ledger of this user."""
    return default_ledger().with_name("survey-heads.json")


def _check(note: Any) -> object:
    return int(note["version"]), str(note["hash"])


class RememberedHeads(PrivateNotes):
    """Address of a survey -> (version, hash) of the newest entry seen; a private file."""

    format, notes, check = "sfumato-survey-heads", "surveys", _check
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
