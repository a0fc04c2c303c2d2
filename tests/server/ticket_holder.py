"""A respondent who exchanges an invitation for a ticket, as the page and the program do."""

from __future__ import annotations

import secrets

from sfumato.study.protocol.agreed import Blinded, blind, read_key, read_number, unblinded, write_number
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.server.store.survey_store import spelled


class Holder:
    """Draws the name of one answer, and keeps what hides it until the ticket is there."""

    def __init__(self, survey: SurveyStudy, code: str):
        assert survey.ticket_key is not None
        self.key, self.hash, self.code = read_key(survey.ticket_key), survey.hash, code
        self.name = spelled(secrets.token_bytes(16))
        self.blinded: Blinded = blind(self.key, self.hash, self.name)

    def asks(self) -> dict[str, str]:
        return {"code": self.code, "blinded": write_number(self.blinded.hidden)}

    def ticket(self, answer: dict[str, str]) -> str:
        return unblinded(self.key, self.hash, self.name, self.blinded.inverse, read_number(answer["signature"]))
