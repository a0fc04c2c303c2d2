"""Names that travel in addresses, logs and pages: readable in any language, and nothing but a name."""

from __future__ import annotations

import unicodedata

from sfumato.errors import UsageError

LONGEST = 60
_INVISIBLE = set("\u115f\u1160\u3164\uffa0")  # letters by their kind, and nothing to be seen
_RULE = "1 to 60 letters, digits, spaces, dots, hyphens or underscores, and begin with a letter or digit"


def check_name(name: object, what: str) -> str:
    """The name in its one spelling, or a `UsageError`: no slashes, markup, control characters or spaces at the end."""
    plain = spelled(name) if isinstance(name, str) and len(name) <= LONGEST else ""
    kinds = [unicodedata.category(character)[0] for character in plain]  # L letter, M mark on a letter, N digit
    named = all(kind in "LMN" or character in " .-_" for kind, character in zip(kinds, plain, strict=True))
    begins = kinds[:1] in (["L"], ["N"])
    if not begins or not named or plain.endswith(" ") or len(plain) > LONGEST or _INVISIBLE & set(plain):
        raise UsageError(f"The name of a {what} must have {_RULE}.")
    return plain


def spelled(name: str) -> str:
    """One spelling for names that look the same: composed letters, none that is full-width or joined (NFKC)."""
    return unicodedata.normalize("NFKC", name)


def check_line(text: object, what: str, most: int = 200) -> str:
    """One printable line, for titles that a person reads."""
    if not isinstance(text, str) or not text.strip() or len(text) > most or not text.isprintable():
        raise UsageError(f"The {what} must be one line of at most {most} printable characters.")
    return text.strip()
