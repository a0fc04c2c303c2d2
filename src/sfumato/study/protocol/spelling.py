"""One spelling for one meaning: names that travel in addresses, logs and pages, and JSON whose hash people compare."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Mapping
from typing import Any

from sfumato.core.errors import UsageError


def canonical_json(value: Mapping[str, Any]) -> str:
    """JSON with sorted keys and no spaces; what JSON cannot say (NaN, infinity) is refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def hash_of(value: Mapping[str, Any]) -> str:
    """ "sha256:" and the hash of the canonical JSON."""
    return "sha256:" + hashlib.sha256(canonical_json(value).encode()).hexdigest()


# Names that travel in addresses, logs and pages: readable in any language, nothing but a name, and no other's double.
#
# Letters of two scripts can look the same (Latin a, Cyrillic а), and so can a few within one. A name therefore has
# letters of one script; and names that share a `skeleton` are not told apart by a reader.

LONGEST = 60
_INVISIBLE = set("\u115f\u1160\u3164\uffa0")  # letters by their kind, and nothing to be seen
_SHARED = {"Combining", "Modifier"}
_SCRIPTS = {"Katakana-hiragana": "Katakana", "Arabic-indic": "Arabic", "Extended": "Arabic", "Ideographic": "Cjk"}
_WRITTEN_TOGETHER = ({"Cjk", "Hiragana", "Katakana"}, {"Cjk", "Hangul"}, {"Cjk", "Bopomofo"})
_DOUBLES = {
    "a": "\u0430\u03b1\u0251",
    "b": "\u0432\u03b2\u044c",
    "c": "\u0441\u03f2",
    "d": "\u0501",
    "e": "\u0435\u03b5\u0454",
    "g": "\u0261",
    "h": "\u043d\u04bb\u03b7\u0570",
    "j": "\u0458",
    "k": "\u043a\u03ba",
    "l": "1i\u0456\u04cf\u03b9\u0131\u0269",
    "m": "\u043c\u03bc",
    "n": "\u0578\u03bd",
    "o": "0\u043e\u03bf\u03c3\u0585\u0665",
    "p": "\u0440\u03c1",
    "q": "\u051b",
    "s": "\u0455",
    "t": "\u0442\u03c4",
    "u": "\u057d",
    "v": "\u0475",
    "w": "\u0461\u051d\u03c9",
    "x": "\u0445\u03c7",
    "y": "\u0443\u04af\u03b3",
    "z": "\u03b6",
}
"""Small letters, which capitals become first, and what looks like them or like their capitals."""
_LOOKS = {double: letter for letter, doubles in _DOUBLES.items() for double in doubles}


def check_name(name: object, what: str) -> str:
    """The name in its one spelling, or a `UsageError`: no slashes, markup, control characters or spaces at the end."""
    plain = spelled(name) if isinstance(name, str) and len(name) <= LONGEST else ""
    if not _follows_the_rule(plain):
        raise UsageError(
            f"The name of a {what} must have 1 to {LONGEST} letters, digits, spaces, dots, hyphens or underscores, and "
            "begin with a letter or digit."
        )
    scripts = {script for character in plain if (script := _script(character))}
    if len(scripts) > 1 and not any(scripts <= written for written in _WRITTEN_TOGETHER):
        raise UsageError(
            f"The name of a {what} must have letters of one script. This one mixes {' and '.join(sorted(scripts))}, "
            "whose letters can look the same."
        )
    return plain


def _follows_the_rule(plain: str) -> bool:
    kinds = [unicodedata.category(character)[0] for character in plain]  # L letter, M mark on a letter, N digit
    named = all(kind in "LMN" or character in " .-_" for kind, character in zip(kinds, plain, strict=True))
    begins = kinds[:1] in (["L"], ["N"])
    return begins and named and not plain.endswith(" ") and len(plain) <= LONGEST and not _INVISIBLE & set(plain)


def _script(character: str) -> str | None:
    """The script of a letter by the first word of its name; None for what all scripts share."""
    if character.isascii() and not character.isalpha():
        return None
    first = unicodedata.name(character, "unnamed").split()[0].capitalize()
    return None if first in _SHARED else _SCRIPTS.get(first, first)


def skeleton(name: str) -> str:
    """What a reader sees of a name, as far as letters that look alike go: case, and doubles in other scripts."""
    return "".join(_LOOKS.get(character, character) for character in spelled(name).casefold())


def spelled(name: str) -> str:
    """One spelling for names that look the same: composed letters, none that is full-width or joined (NFKC)."""
    return unicodedata.normalize("NFKC", name)


def check_line(text: object, what: str) -> str:
    """One printable line, for titles that a person reads."""
    if not isinstance(text, str) or not text.strip() or len(text) > 200 or not text.isprintable():
        raise UsageError(f"The {what} must be one line of at most 200 printable characters.")
    return text.strip()
