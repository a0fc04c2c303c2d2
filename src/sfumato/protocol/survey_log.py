"""The public log of a survey's guidance: append-only, each entry holds the hash of the one before.

A miner who shows different guidance to different people must keep two logs; heads that are compared (with a remembered
one, with witnesses) then differ. A client that sees one view alone cannot detect a fork.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sfumato.errors import CardError


@dataclass(frozen=True)
class LogEntry:
    """One version of the guidance: its k, SHA-256 of V and of the counts it was computed from, answers counted so far.

    ``hash = SHA-256("version|k|sha256|inputs_sha256|answers|previous")``; the entry before the first is the survey
    file itself, so that the log cannot be moved to another survey.
    """

    version: int
    k: int
    sha256: str
    inputs_sha256: str
    answers: int
    previous: str
    hash: str

    @classmethod
    def chained(cls, previous: str, *, version: int, k: int, sha256: str, inputs_sha256: str, answers: int) -> LogEntry:
        line = f"{version}|{k}|{sha256}|{inputs_sha256}|{answers}|{previous}"
        digest = hashlib.sha256(line.encode("ascii")).hexdigest()
        return cls(version, k, sha256, inputs_sha256, answers, previous, digest)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> LogEntry:
        """Read one entry as the server sent it; a hash that does not fit is refused."""
        try:
            entry = cls.chained(
                str(found["previous"]),
                version=int(found["version"]),
                k=int(found["k"]),
                sha256=str(found["sha256"]),
                inputs_sha256=str(found["inputs_sha256"]),
                answers=int(found["answers"]),
            )
            stated = str(found["hash"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CardError("The log of guidance contains an entry that cannot be read. Do not answer.") from error
        if entry.hash != stated:
            raise CardError(f"Entry {entry.version} of the log of guidance was changed: its hash does not match.")
        return entry


def check_chain(entries: Iterable[LogEntry], previous: str, *, first: int = 1) -> str:
    """Whether the entries follow each other without a gap from `previous`; returns the last hash (the head)."""
    answers = 0
    for number, entry in enumerate(entries, start=first):
        if entry.version != number or entry.previous != previous:
            raise CardError(f"The log of guidance has a gap or a fork before version {number}. Do not answer.")
        if entry.answers < answers:
            raise CardError(f"Version {number} of the guidance counts fewer answers than the version before.")
        previous, answers = entry.hash, entry.answers
    return previous
