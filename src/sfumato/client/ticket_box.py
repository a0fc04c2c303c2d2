"""Where a respondent's program keeps its ticket: the same name is asked for however often the exchange breaks off."""

from __future__ import annotations

import base64
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from sfumato.client.survey_server import SurveyServer
from sfumato.errors import UsageError
from sfumato.files import write_whole
from sfumato.protocol.survey_file import SurveyStudy
from sfumato.protocol.tickets import blind, read_key, read_number, unblinded, write_number


@dataclass(frozen=True)
class Ticket:
    """The name of one answer and, once the server has signed it unseen, what proves that somebody was invited."""

    survey: str
    name: str
    hidden: str
    inverse: str
    ticket: str | None = None


def new_name() -> str:
    """128 random bits: the name of an answer, known to nobody else."""
    return base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode("ascii")


class TicketBox:
    """One private file; it is written before the invitation is used up, so that nothing can be lost in between."""

    def __init__(self, path: Path):
        self.path = path

    def obtain(self, server: SurveyServer, survey: SurveyStudy, code: str | None, name: str | None = None) -> Ticket:
        """The ticket kept here, or a new one in exchange for the invitation."""
        kept = self._read()
        if kept is None or kept.survey != survey.hash or (name is not None and kept.name != name):
            kept = self._blinded(survey, name or new_name())
        if kept.ticket is not None:
            return kept
        if not code:
            raise UsageError("This survey is by invitation: give the code that you were sent.")
        self._write(kept)
        assert survey.ticket_key is not None
        signature = server.exchange(code, kept.hidden)
        ticket = unblinded(read_key(survey.ticket_key), survey.hash, kept.name, read_number(kept.inverse), signature)
        done = replace(kept, ticket=ticket)
        self._write(done)
        return done

    def clear(self) -> None:
        """The ticket was used."""
        self.path.unlink(missing_ok=True)

    def _blinded(self, survey: SurveyStudy, name: str) -> Ticket:
        if survey.ticket_key is None:
            raise UsageError("This survey asks for invitations and names no key to check tickets by. Nothing was sent.")
        made = blind(read_key(survey.ticket_key), survey.hash, name)
        return Ticket(survey.hash, name, write_number(made.hidden), write_number(made.inverse))

    def _write(self, ticket: Ticket) -> None:
        write_whole(self.path, json.dumps(asdict(ticket)), private=True)

    def _read(self) -> Ticket | None:
        try:
            found: Any = json.loads(self.path.read_text(encoding="utf-8"))
            return Ticket(**found)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"{self.path} does not contain a ticket. Remove it to start again.") from error
