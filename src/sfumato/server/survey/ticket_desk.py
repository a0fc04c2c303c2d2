"""Where an invitation becomes a ticket: the code is used up, durably, before the blinded name is signed."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from sfumato.protocol.survey_file import SurveyStudy
from sfumato.protocol.tickets import read_number, write_number
from sfumato.server.store.code_store import CodeStore, Exchange
from sfumato.server.survey.group_commit import GroupCommit
from sfumato.server.survey.received_answer import LONGEST_CODE, AnswerError


class TicketAsked(msgspec.Struct, forbid_unknown_fields=True):
    """An invitation, and the name of a future answer behind a random factor."""

    code: str
    blinded: str


_decoder = msgspec.json.Decoder(TicketAsked)


class TicketDesk:
    """`exchange` codes for signatures; `is_good` recognises a ticket, and nothing else about it."""

    def __init__(self, codes: CodeStore, study: str, survey: SurveyStudy):
        self._codes, self._study, self._survey_hash = codes, study, survey.hash
        self._key = codes.key(study)
        if self._key.public != survey.ticket_key:
            raise RuntimeError("the key of this survey's tickets is not the one that its file names")
        self._commit: GroupCommit[Exchange, bool] = GroupCommit(self._write)
        self._signer = ThreadPoolExecutor(1, thread_name_prefix="tickets")
        self._tidying, self._order_shows = threading.Lock(), False

    async def exchange(self, body: bytes) -> bytes | None:
        """The signature as JSON; None where the code is unknown, or was used for another name."""
        code, hidden = self._read(body)
        blinded = hashlib.sha256(write_number(hidden).encode("ascii")).digest()
        if not await self._commit.put(Exchange(code, blinded)):
            return None
        signature = await asyncio.get_running_loop().run_in_executor(self._signer, self._key.sign, hidden)
        return msgspec.json.encode({"signature": write_number(signature)})

    def _read(self, body: bytes) -> tuple[bytes, int]:
        try:
            asked = _decoder.decode(body)
            code, hidden = asked.code.encode(), read_number(asked.blinded)
        except (msgspec.MsgspecError, ValueError):
            code, hidden = b"", 0
        if not self._key.fits(hidden) or not 0 < len(code) <= LONGEST_CODE:
            raise AnswerError(
                "malformed", "Send `code`, your invitation, and `blinded`, 256 bytes that are below the key."
            )
        return code, hidden

    def _write(self, asked: Sequence[Exchange]) -> list[bool]:
        outcomes = self._codes.exchange(self._study, asked)
        self.tidy(now=True)
        return outcomes

    def tidy(self, *, now: bool = False) -> None:
        """Take away what the database's own log tells about the order of codes; `now`, or if it did not work before."""
        with self._tidying:
            if now or self._order_shows:
                self._order_shows = not self._codes.forget_order()

    def is_good(self, name: str, ticket: str) -> bool:
        return self._key.is_good(self._survey_hash, name, ticket)

    async def close(self) -> None:
        """Finish what is under way."""
        await self._commit.close()
        self._signer.shutdown(wait=True)
        self.tidy()
