"""Who may enter the desk: a one-time token for a cookie, our own host and origin, and a fresh number on every form.

Other accounts of this computer reach the port, and pages of the web can make a browser send requests to it. So the
address holds a secret that is traded once; the cookie belongs to a path that only this browser knows, since cookies do
not tell ports apart; and what changes anything must come from a form of ours that was not sent before.
"""

from __future__ import annotations

import hmac
import re
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from http.cookies import CookieError, SimpleCookie
from io import BufferedIOBase

from sfumato.core.errors import SfumatoError, UsageError
from sfumato.core.web import is_own_origin

TOKEN_BYTES = 32
PATH_BYTES = 16
OWN_SITES = ("same-origin", "none")
"""What browsers say of a request that one of our pages, or the person herself, began."""


class RefusedError(SfumatoError):
    """A request that goes no further; `status` is what the browser is told."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Door:
    """The secrets of one desk, and the questions that every request is asked."""

    def __init__(self, port: int) -> None:
        self.host = f"127.0.0.1:{port}"
        self.root = f"/{secrets.token_hex(PATH_BYTES)}/"
        """Every page behind the door lies below this path."""
        self._token: str | None = secrets.token_urlsafe(TOKEN_BYTES)
        self._cookie = secrets.token_urlsafe(TOKEN_BYTES)
        self._cookie_name = f"sfumato-desk-{port}"
        self.number = secrets.token_urlsafe(TOKEN_BYTES)
        """What the forms of the present pages carry."""
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """What the owner opens: the token stands behind the #, which browsers send to nobody."""
        return f"http://{self.host}/#{self._token}"

    def check_host(self, headers: Message) -> None:
        """Only under our own address: a name that is made to lead here is not ours."""
        if headers.get("Host") != self.host:
            raise RefusedError(421, "This is not the address of the desk.")

    def check_form(self, headers: Message) -> None:
        """A form must come from a page of ours, and say so."""
        origin = headers.get("Origin")
        if origin is None or not origin.startswith("http://") or not is_own_origin(origin, self.host):
            raise RefusedError(403, "This form was not sent by a page of the desk.")
        self.check_site(headers)

    def check_site(self, headers: Message) -> None:
        """A browser that says on whose behalf it asks must say ours."""
        if headers.get("Sec-Fetch-Site", "none") not in OWN_SITES:
            raise RefusedError(403, "This request was begun by another page.")

    def trade(self, token: str) -> str:
        """The cookie for the token, once."""
        with self._lock:
            if self._token is None or not _same(token.strip(), self._token):
                raise RefusedError(
                    403,
                    "This address was used already, or is not complete. Go on in the window that is open, or type "
                    "`sfumato open` again.",
                )
            self._token = None
        return f"{self._cookie_name}={self._cookie}; Path={self.root}; HttpOnly; SameSite=Strict"

    def check_cookie(self, headers: Message) -> None:
        """Only the browser that traded the token."""
        try:
            sent = SimpleCookie(headers.get("Cookie", "")).get(self._cookie_name)
        except CookieError:
            sent = None
        if sent is None or not _same(sent.value, self._cookie):
            raise RefusedError(403, "Only the browser that the desk opened may see this.")

    def check_number(self, sent: str) -> bool:
        """Whether a form was made after the last one that was taken; false where it was sent before, or is old."""
        return _same(sent, self.number)

    def next_number(self) -> None:
        """Forms that were made before now are old."""
        self.number = secrets.token_urlsafe(TOKEN_BYTES)


def _same(sent: str, secret: str) -> bool:
    return hmac.compare_digest(sent.encode("utf-8", "replace"), secret.encode())


# Forms with files as browsers send them (multipart/form-data, RFC 7578), read piece by piece: a table may be large.

PIECE = 1 << 16
MOST_HEAD = 1 << 13  # bytes of a part's headers
_NAMES = re.compile(rb'(?:^|;)\s*(name|filename)="([^"]*)"', re.IGNORECASE)
_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,70})"|([^;\s"]{1,70}))', re.IGNORECASE)


class FormError(UsageError):
    """A form that no browser sends."""

    def __init__(self) -> None:
        super().__init__("The form cannot be read. Open the page again.")


@dataclass
class Part:
    """One field. Its content must be read before the next part is asked for; what is left of it is skipped."""

    name: str
    filename: str | None
    content: Iterator[bytes]

    def text(self, most: int) -> str:
        """The content of a field that is no file."""
        found = bytearray()
        for piece in self.content:
            found += piece
            if len(found) > most:
                raise FormError
        return found.decode("utf-8", "replace")


def parts(stream: BufferedIOBase, length: int, content_type: str) -> Iterator[Part]:
    """The fields of a form in their order."""
    named = _BOUNDARY.search(content_type)
    if named is None:
        raise FormError
    body = _Body(stream, length, b"--" + (named[1] or named[2]).encode("ascii", "replace"))
    while (head := body.next_head()) is not None:
        headers = (line.partition(b":") for line in head.split(b"\r\n"))
        value = next((value for key, _, value in headers if key.strip().lower() == b"content-disposition"), b"")
        said = {found[1].lower(): found[2].decode("utf-8", "replace") for found in _NAMES.finditer(value)}
        if b"name" not in said:
            raise FormError
        content = body.content()
        yield Part(said[b"name"], said.get(b"filename"), content)
        for _ in content:
            pass  # skipped


class _Body:
    """What is left of the body. Content ends where a line begins with the boundary."""

    def __init__(self, stream: BufferedIOBase, length: int, boundary: bytes) -> None:
        self._stream, self._left, self._mark = stream, length, b"\r\n" + boundary
        self._held = b"\r\n"  # so that the first boundary is found as the others are
        self._ended = False
        for _ in self.content():
            pass  # what stands before the first boundary means nothing

    def _more(self) -> bool:
        piece = self._stream.read(min(PIECE, self._left)) if self._left else b""
        self._left -= len(piece)
        self._held += piece
        return bool(piece)

    def content(self) -> Iterator[bytes]:
        """Up to the next boundary, which is taken away."""
        while (found := self._held.find(self._mark)) < 0:
            sure = len(self._held) - len(self._mark) + 1  # the end of what is held may begin a boundary
            if sure > 0:
                piece, self._held = self._held[:sure], self._held[sure:]
                yield piece
            if not self._more():
                raise FormError
        piece, self._held = self._held[:found], self._held[found + len(self._mark) :]
        yield piece

    def next_head(self) -> bytes | None:
        """The headers of the part that follows a boundary; None after the last."""
        while len(self._held) < 2:
            if not self._more():
                raise FormError
        if self._held.startswith(b"--"):
            return None
        while (end := self._held.find(b"\r\n\r\n")) < 0:
            if len(self._held) > MOST_HEAD or not self._more():
                raise FormError
        head, self._held = self._held[:end], self._held[end + 4 :]
        return head
