"""What a respondent's program checks before it draws: the log, what others saw of it, and that guidance follows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sfumato.channels.guidance import GuidanceError, SurveyCounts
from sfumato.core.errors import CardError
from sfumato.core.files import write_whole
from sfumato.core.progress import Progress
from sfumato.study.client.private_notes import RememberedHeads
from sfumato.study.client.survey_server import Inquiry, IssuedGuidance, SurveyServer
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.protocol.survey_guidance import verify_guidance
from sfumato.study.protocol.survey_log import LogEntry


def check_log(
    server: SurveyServer,
    survey: SurveyStudy,
    guidance: IssuedGuidance,
    asked: Inquiry,
    heads: RememberedHeads | None,
    pinned: Sequence[str] = (),
) -> str:
    """Whether the guidance follows from its counts and stands in a log that continues the one remembered.

    Returns what witnesses say. Those that the survey file or the link names may be silent; `pinned` ones may not.
    """
    entries = server.log(survey.root)
    by_version: dict[int, LogEntry] = {entry.version: entry for entry in entries}
    mine = by_version.get(guidance.version)
    if mine is None or (mine.sha256, mine.k, mine.hash) != (guidance.sha256, guidance.k, asked.head):
        raise GuidanceError("The guidance is not the one in the public log. Nothing was sent.")
    remembered = heads.head(server.name) if heads else None
    if remembered is not None and getattr(by_version.get(remembered[0]), "hash", None) != remembered[1]:
        raise GuidanceError(
            f"The log is not the one that this device saw before (version {remembered[0]}): the server shows "
            "different people different guidance, or started again. Nothing was sent."
        )
    said = ask_witnesses(survey, by_version, server.link.witnesses, pinned)
    check_counts(server, survey, mine, guidance)
    if heads is not None:
        heads.remember(server.name, entries[-1].version, entries[-1].hash)
    return said


def check_counts(server: SurveyServer, survey: SurveyStudy, entry: LogEntry, guidance: IssuedGuidance) -> None:
    """Recompute one version from its published counts."""
    inputs = server.inputs(entry)
    if SurveyCounts.from_json(inputs).n != entry.answers:
        raise CardError(f"Version {entry.version} states a number of answers that differs from its counts.")
    verify_guidance(survey, inputs, guidance.V, entry.k)


def ask_witnesses(
    survey: SurveyStudy, log: dict[int, LogEntry], linked: Sequence[str] = (), pinned: Sequence[str] = ()
) -> str:
    """Whether every witness that answers saw this survey and this log, in words that say who chose them."""
    chosen = dict.fromkeys([*pinned, *linked])
    agreeing = {witness: _agrees(survey, log, witness) for witness in [*chosen, *survey.witnesses]}
    for witness in pinned:
        if not agreeing[witness]:
            raise GuidanceError(f"The witness {witness}, which you named, cannot be read. Nothing was sent.")
    if not any(agreeing.values()):
        return "not witnessed"
    words = f"{sum(agreeing.values())} of {len(agreeing)} witnesses agree"
    independent = any(agreeing[witness] for witness in chosen)
    return words if independent else f"{words}, all of them named by the survey itself"


def _agrees(survey: SurveyStudy, log: dict[int, LogEntry], witness: str) -> bool:
    seen = witnessed_head(witness)
    if seen is None:
        return False
    if seen[0] != survey.hash or getattr(log.get(seen[1]), "hash", None) != seen[2]:
        raise GuidanceError(f"The witness {witness} saw another survey or another log. Nothing was sent.")
    return True


def witnessed_head(where: str) -> tuple[str, int, str] | None:
    """(survey, version, hash) that a witness publishes, at an address or in a file; None where it is silent."""
    import httpx

    try:
        if where.startswith(("https://", "http://")):
            found = httpx.get(where, timeout=15.0, follow_redirects=False).raise_for_status().json()
        else:
            found = json.loads(Path(where).read_text(encoding="utf-8"))
        return str(found["survey"]), int(found["version"]), str(found["hash"])
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, KeyError, TypeError):
        return None


# Anybody's check of a survey: the log from its beginning, guidance from published counts, heads for others to see.


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
