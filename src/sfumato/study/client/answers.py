"""What a server answers, read with suspicion: bounded, of the expected shape, and printable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato.core.errors import CoordinatorError
from sfumato.core.records import FieldError, Record

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 32 << 20
"""No answer in JSON is longer."""
MEANINGS = {
    401: "The token is unknown, revoked or expired. Ask the study's owner for a new one.",
    403: "The token belongs to this study but does not allow that: sites push and withdraw, the owner does the rest.",
    404: "There is nothing with that name here for this token. Check the study's id and the address.",
    410: "This release was withdrawn before, and a withdrawn release is not accepted again.",
    413: "It is larger than this coordinator accepts.",
    429: "The coordinator asks to send less often. Try again later.",
    507: "The coordinator's disk is full; nothing was stored. Tell the coordinator, and push again later.",
}


class RefusedError(CoordinatorError):
    """The server understood the request and declined; `status` and `code` say why, `objections` in detail."""

    def __init__(self, message: str, status: int, code: str = "", objections: tuple[str, ...] = ()):
        super().__init__(message)
        self.status, self.code, self.objections = status, code, objections


class BrokenOffError(CoordinatorError):
    """An answer began and did not end."""


def pieces_of(response: httpx.Response, size: int = 1 << 16) -> Iterator[bytes]:
    """The answer's body, piece by piece."""
    import httpx

    try:
        yield from response.iter_bytes(size)
    except httpx.HTTPError as error:
        raise BrokenOffError(f"The coordinator's answer broke off ({type(error).__name__}). Try again.") from None


def body_of(response: httpx.Response, most: int | None = None) -> bytes:
    """The answer's body, as far as an honest server's goes."""
    body = bytearray()
    for piece in pieces_of(response):
        body += piece
        if len(body) > (most or MOST_BYTES):
            raise CoordinatorError("The coordinator's answer is far too long, and was not read to its end.")
    return bytes(body)


def json_of(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise CoordinatorError(
            "What answered is not a coordinator, or something in between changed its answer: it is not JSON. "
            "Check the address."
        ) from None


Kind = TypeVar("Kind", bound=Record)


def message_of(kind: type[Kind], found: Any) -> Kind:
    """A message whose fields have the types that it declares, or an error: nobody counts with somebody's text."""
    try:
        return kind.from_dict(found)
    except FieldError:
        raise misshapen() from None


def messages_of(kind: type[Kind], found: Any) -> list[Kind]:
    if not isinstance(found, list):
        raise misshapen()
    return [message_of(kind, entry) for entry in found]


def misshapen() -> CoordinatorError:
    return CoordinatorError("The coordinator's answer is incomplete: it has another version. Update both.")


def refusal(status: int, body: bytes) -> RefusedError:
    """The server's own words where it has some, else the meaning of the status."""
    try:
        found = json.loads(body)
        code, message = str(found["error"]), plain(str(found["message"]))
        objections = tuple(plain(str(line)) for line in found.get("objections") or ())[:50]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        code, message, objections = "", "", ()
    message = message or MEANINGS.get(status, f"The coordinator answered with status {status}.")
    if objections and not all(line in message for line in objections):
        message = "\n".join([message, *(f"  - {line}" for line in objections)])
    return RefusedError(message, status, plain(code), objections)


def plain(text: str, most: int = 500) -> str:
    """Text from elsewhere as it may be printed: no control characters, which a terminal would obey; not endless."""
    shown = "".join(character if character.isprintable() else " " for character in text)
    return shown if len(shown) <= most else shown[: most - 3] + "..."
