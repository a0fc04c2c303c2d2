"""Names that travel in addresses, logs and pages: readable in any language, and nothing but a name."""

from __future__ import annotations

import re
import unicodedata

from sfumato.errors import UsageError

_NAME = re.compile(r"\w([\w .-]{0,58}[\w.-])?")
_RULE = "1 to 60 letters, digits, spaces, dots, hyphens or underscores, and begin with a letter or digit"


def check_name(name: object, what: str) -> str:
    """The name in its usual spelling (NFC), or a `UsageError`: no slashes, markup, control characters or edges."""
    plain = unicodedata.normalize("NFC", name) if isinstance(name, str) else ""
    if not _NAME.fullmatch(plain):
        raise UsageError(f"The name of a {what} must have {_RULE}.")
    return plain


def check_line(text: object, what: str, most: int = 200) -> str:
    """One printable line, for titles that a person reads."""
    if not isinstance(text, str) or not text.strip() or len(text) > most or not text.isprintable():
        raise UsageError(f"The {what} must be one line of at most {most} printable characters.")
    return text.strip()
