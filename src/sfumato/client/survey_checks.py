"""What a respondent's program checks before it draws: the log, what others saw of it, and that guidance follows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from sfumato.client.heads import RememberedHeads
from sfumato.client.survey_server import Inquiry, IssuedGuidance, SurveyServer
from sfumato.errors import CardError
from sfumato.guidance import GuidanceError, SurveyCounts
from sfumato.protocol.survey_file import SurveyStudy
from sfumato.protocol.survey_guidance import verify_guidance
from sfumato.protocol.survey_log import LogEntry


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
