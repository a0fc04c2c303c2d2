"""Forms with files as browsers send them (multipart/form-data, RFC 7578), read piece by piece: a table may be large."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase

from sfumato.core.errors import UsageError

PIECE = 1 << 16
MOST_HEAD = 1 << 13
"""Bytes of a part's headers."""
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
