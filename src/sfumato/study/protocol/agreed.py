"""What both ends spell and compute alike: names and hashes, blind tickets, and the public log of a survey's guidance.

The log is append-only, each entry holds the hash of the one before. A miner who shows different guidance to different
people must keep two logs; heads that are compared (with a remembered one, with witnesses) then differ. A client that
sees one view alone cannot detect a fork.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sfumato.core.errors import CardError, SchemaError, UsageError
from sfumato.core.records import Record
from sfumato.ledger.public_log import entry_of


def must(holds: object, told: str) -> None:
    """What a file that people agree on has to hold to."""
    if not holds:
        raise SchemaError(told)


# One spelling for one meaning: names that travel in addresses, logs and pages, and JSON whose hash people compare.


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
_DOUBLES = (
    "a\u0430\u03b1\u0251 b\u0432\u03b2\u044c c\u0441\u03f2 d\u0501 e\u0435\u03b5\u0454 g\u0261 "
    "h\u043d\u04bb\u03b7\u0570 j\u0458 k\u043a\u03ba l1i\u0456\u04cf\u03b9\u0131\u0269 m\u043c\u03bc "
    "n\u0578\u03bd o0\u043e\u03bf\u03c3\u0585\u0665 p\u0440\u03c1 q\u051b s\u0455 t\u0442\u03c4 u\u057d v\u0475 "
    "w\u0461\u051d\u03c9 x\u0445\u03c7 y\u0443\u04af\u03b3 z\u03b6"
)
"""Small letters, which capitals become first, each with what looks like it or like its capital."""
_LOOKS = {double: one[0] for one in _DOUBLES.split() for double in one[1:]}


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


# Tickets: an invitation is exchanged for a signature that the server cannot recognise when it comes back.
#
# Blind RSA signatures, RSABSSA-SHA384-PSSZERO-Deterministic of RFC 9474 with a key of 2048 bits and exponent 65537. The
# respondent's device hides the name of its future answer behind a random factor, the server signs what it cannot read,
# the device takes the factor out. What the server signed is independent of the name: every name could have been behind
# it, so that no computation can tell whose ticket an answer carries. The name has 128 random bits, hence no random
# prefix is needed.
#
# `key` is the modulus throughout, a whole number. Numbers travel as base64url of 256 bytes.

EXPONENT = 65537
KEY_BITS = 2048
KEY_BYTES = KEY_BITS // 8
LETTERS = 342  # of such a number in base64url
_HASH_BYTES = 48


@dataclass(frozen=True)
class Blinded:
    """A ticket that is being asked for: `hidden` is what the server sees, `inverse` what takes the factor out."""

    hidden: int
    inverse: int


def read_number(text: str) -> int:
    """A number as it travels; `ValueError` where it is not one."""
    if not isinstance(text, str) or len(text) != LETTERS:
        raise ValueError("not 256 bytes")
    return int.from_bytes(base64.b64decode(text + "==", altchars=b"-_", validate=True), "big")


def write_number(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(KEY_BYTES, "big")).rstrip(b"=").decode("ascii")


def read_key(text: str) -> int:
    """The public key of a survey file."""
    try:
        key = read_number(text)
    except ValueError:
        key = 0
    if key.bit_length() != KEY_BITS or key % 2 == 0 or write_number(key) != text:
        raise SchemaError(f"`ticket_key` must be an RSA modulus of {KEY_BITS} bits, which the server writes there.")
    return key


def message(survey_hash: str, name: str) -> bytes:
    """What a ticket says: this survey, this answer's random name."""
    return f"sfumato ticket|{survey_hash}|{name}".encode("ascii")


def encoded(signed: bytes, bits: int = KEY_BITS) -> int:
    """EMSA-PSS of RFC 8017 with SHA-384, MGF1 and no salt, for a modulus of so many bits."""
    size = (bits + 6) // 8  # of bits - 1 bits
    digest = hashlib.sha384(bytes(8) + hashlib.sha384(signed).digest()).digest()
    block = bytes(size - _HASH_BYTES - 2) + b"\x01"
    pieces = (hashlib.sha384(digest + n.to_bytes(4, "big")).digest() for n in range(-(-len(block) // _HASH_BYTES)))
    mask = b"".join(pieces)[: len(block)]
    masked = int.from_bytes(block, "big") ^ int.from_bytes(mask, "big")
    masked &= (1 << (8 * len(block) - (8 * size - (bits - 1)))) - 1
    return int.from_bytes(masked.to_bytes(len(block), "big") + digest + b"\xbc", "big")


def blind(key: int, survey_hash: str, name: str, factor: int | None = None) -> Blinded:
    """Hide a name from whoever signs it; `factor` is random unless a test gives it."""
    factor = 2 + secrets.randbelow(key - 2) if factor is None else factor
    hidden = encoded(message(survey_hash, name)) * pow(factor, EXPONENT, key) % key
    return Blinded(hidden, pow(factor, -1, key))


def unblinded(key: int, survey_hash: str, name: str, inverse: int, signature: int) -> str:
    """The ticket, once it has been checked: a key that cannot sign every name could tell respondents apart."""
    ticket = signature * inverse % key
    if not is_good(key, survey_hash, name, ticket):
        raise CardError("The server signed something other than what this program asked for. Nothing was sent.")
    return write_number(ticket)


def is_good(key: int, survey_hash: str, name: str, ticket: int) -> bool:
    """Whether the holder of the key signed this name for this survey."""
    return 0 <= ticket < key and pow(ticket, EXPONENT, key) == encoded(message(survey_hash, name))


@dataclass(frozen=True)
class LogEntry(Record):
    """One version of the guidance: its k, SHA-256 of V and of the counts it was computed from, answers counted so far.

    ``hash = SHA-256("version|k|sha256|inputs_sha256|answers|previous")``; the entry before the first is the survey
    file itself, so that the log cannot be moved to another survey.
    """

    version: int
    k: int
    sha256: str
    inputs_sha256: str
    answers: int
    previous: str
    hash: str

    @classmethod
    def chained(cls, previous: str, *, version: int, k: int, sha256: str, inputs_sha256: str, answers: int) -> LogEntry:
        line = f"{version}|{k}|{sha256}|{inputs_sha256}|{answers}|{previous}"
        digest = hashlib.sha256(line.encode("ascii")).hexdigest()
        return cls(version, k, sha256, inputs_sha256, answers, previous, digest)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> LogEntry:
        """Read one entry as the server sent it; a hash that does not fit is refused."""
        try:
            entry = super().from_dict(found)
            told = {name: value for name, value in vars(entry).items() if name != "hash"}
            fits = cls.chained(**told) == entry
        except ValueError:
            raise CardError("The log of guidance contains an entry that cannot be read. Do not answer.") from None
        if not fits:
            raise CardError(f"Entry {entry.version} of the log of guidance was changed: its hash does not match.")
        return entry


@dataclass(frozen=True)
class Head(Record):
    """The newest entry of the log of a survey, as witnesses publish it."""

    survey: str
    version: int
    hash: str

    def entry(self) -> bytes:
        """As every version stands in the coordinator's public log, by the survey's id."""
        return entry_of("guidance", self.to_dict())


def check_chain(entries: Iterable[LogEntry], previous: str, *, first: int = 1) -> str:
    """Whether the entries follow each other without a gap from `previous`; returns the last hash (the head)."""
    answers = 0
    for number, entry in enumerate(entries, start=first):
        if entry.version != number or entry.previous != previous:
            raise CardError(f"The log of guidance has a gap or a fork before version {number}. Do not answer.")
        if entry.answers < answers:
            raise CardError(f"Version {number} of the guidance counts fewer answers than the version before.")
        previous, answers = entry.hash, entry.answers
    return previous
