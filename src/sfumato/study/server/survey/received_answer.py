"""Answers as they arrive: decoded in one step, checked against the survey, packed into bytes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

from sfumato.core.array_types import Bits

ID_LETTERS = 22  # 128 random bits in base64url
ID_BYTES = 16
LONGEST_CODE = 64
UNKNOWN_VERSION = "unknown-version"
BAD_TICKET = "bad-ticket"


class SentAnswer(msgspec.Struct, forbid_unknown_fields=True):
    """The message itself: numbers of the bits that are 1, ascending; nothing about the respondent."""

    id: Annotated[str, msgspec.Meta(extra_json_schema={"pattern": f"^[A-Za-z0-9_-]{{{ID_LETTERS}}}$"})]
    version: int
    label: int
    bits: Annotated[list[int], msgspec.Meta(description="Numbers of the bits that are 1, in ascending order.")]
    ticket: str | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer as it is stored: a random name, the guidance it was perturbed by, its class and its bits."""

    id: bytes
    version: int
    label: int
    bits: bytes


class AnswerError(ValueError):
    """An answer that cannot be counted: a short code for programs, and a message."""

    def __init__(self, code: str, message: str):
        super().__init__(message)
        self.code = code


_decoder = msgspec.json.Decoder(SentAnswer)


def read_answer(
    body: bytes, *, width: int, classes: int, latest: int, good_ticket: Callable[[str, str], bool] | None = None
) -> Answer:
    """Check everything that can be checked without the database; `latest` is the newest version of the guidance.

    `good_ticket` says whether a ticket is good for the name of an answer, where the survey is by invitation.
    """
    try:
        sent = _decoder.decode(body)
    except msgspec.MsgspecError:
        raise AnswerError(
            "malformed",
            "An answer is a JSON object with `id`, `version`, `label`, `bits` and, by invitation, `ticket`.",
        ) from None
    if not 1 <= sent.version <= latest:
        raise AnswerError(UNKNOWN_VERSION, "There is no such version of the guidance. Ask for guidance again.")
    if not 0 <= sent.label < classes:
        raise AnswerError("unknown-label", f"`label` must be the number of a class, 0 to {classes - 1}.")
    try:
        name = base64.b64decode(sent.id + "==", altchars=b"-_", validate=True) if len(sent.id) == ID_LETTERS else b""
    except (binascii.Error, ValueError):
        name = b""
    # The last letter holds four bits that do not count: a second spelling of one name would be counted twice.
    if len(name) != ID_BYTES or spelled(name) != sent.id:
        raise AnswerError("bad-id", f"The id of an answer is 128 random bits: {ID_LETTERS} letters of base64url.")
    answer = Answer(name, sent.version, sent.label, pack(sent.bits, width))
    if good_ticket is not None and not (sent.ticket and good_ticket(sent.id, sent.ticket)):
        raise AnswerError(
            BAD_TICKET, "This survey is by invitation, and this answer has no valid ticket. Exchange your code for one."
        )
    return answer


def spelled(identifier: bytes) -> str:
    """The id as it travels."""
    return base64.urlsafe_b64encode(identifier).rstrip(b"=").decode("ascii")


def pack(ones: Sequence[int], width: int) -> bytes:
    """Bit j of the answer is bit ``j % 8`` of byte ``j // 8``."""
    value, before = 0, -1
    for place in ones:
        if not before < place < width:
            raise AnswerError("bad-bits", f"The bits must be ascending numbers below {width}, each at most once.")
        value |= 1 << place
        before = place
    return value.to_bytes((width + 7) // 8, "little")


def unpack(packed: Sequence[bytes], width: int) -> Bits:
    """Rows of zeros and ones (m x width)."""
    rows = np.frombuffer(b"".join(packed), dtype=np.uint8).reshape(len(packed), (width + 7) // 8)
    return np.unpackbits(rows, axis=1, count=width, bitorder="little")
