"""Anybody's check of a survey: the log from its beginning, guidance from published counts, heads for others to see."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sfumato.client.survey_checks import ask_witnesses, check_counts
from sfumato.client.survey_server import Inquiry, SurveyServer
from sfumato.errors import CardError
from sfumato.files import write_whole
from sfumato.jobs.progress import Progress


class Verified(NamedTuple):
    """What was checked; `survey` is the hash of its file, `pinned` whether the link named it."""

    entries: int
    recomputed: int
    answers: int
    version: int
    head: str
    survey: str
    pinned: bool
    witnesses: str


def verify_survey(
    server: SurveyServer, *, last: int | None = None, pinned: Sequence[str] = (), progress: Progress | None = None
) -> Verified:
    """Follow the log, and recompute the `last` versions (all without it); an error says what does not fit.

    Witnesses are asked as a respondent asks them; `pinned` ones must answer.
    """
    survey, _ = server.describe()
    entries = server.log(survey.root)
    if not entries:
        raise CardError("The survey has no guidance yet, so there is nothing to verify.")
    said = ask_witnesses(survey, {entry.version: entry for entry in entries}, server.link.witnesses, pinned)
    chosen = entries if last is None else entries[-last:]
    for number, entry in enumerate(chosen, start=1):
        check_counts(server, survey, entry, server.guidance(Inquiry(entry.version, entry.k, entry.hash), survey.width))
        if progress is not None:
            progress("Versions", number, len(chosen))
    newest = entries[-1]
    return Verified(
        len(entries),
        len(chosen),
        newest.answers,
        newest.version,
        newest.hash,
        survey.hash,
        bool(server.link.hash),
        said,
    )


def witness_survey(server: SurveyServer, path: Path) -> dict[str, Any]:
    """Write the newest entry, if the log continues the one that was written before."""
    survey, _ = server.describe()
    entries = server.log(survey.root)
    if path.exists():
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
            known = str(before["survey"]), int(before["version"]), str(before["hash"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CardError(f"{path} is not what an earlier run wrote. Move it away to start again.") from error
        seen = {entry.version: entry.hash for entry in entries}
        if known[0] != survey.hash or seen.get(known[1]) != known[2]:
            raise CardError(
                f"The log does not continue what was witnessed before (version {known[1]}): it was changed, or the "
                "server shows different people different logs. Nothing was written; tell others."
            )
    found = {"survey": survey.hash, "version": entries[-1].version, "hash": entries[-1].hash}
    write_whole(path, json.dumps(found) + "\n")
    return found
