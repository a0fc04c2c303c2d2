"""Public keys and their fingerprints: 128 bits as sixteen plain words, which people read out and compare."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from sfumato.core.errors import UsageError

KIND = b"ssh-ed25519"
BYTES = 16
"""A second key with the same words takes 2^128 tries."""
NOT_WORDS = (
    f"A fingerprint is {BYTES} words with hyphens between them, as `sfumato signer show` writes it. Here a word is "
    "missing, or is not on the list."
)

_WORDS = """
abbot acorn actor album alder amber angle ankle apple apron arrow aspen atlas attic autumn bacon badge baker bamboo
banjo barley basil beach beaver beetle bench birch bison blanket bonnet border bottle branch bread brick bridge
broom bucket button cabin cactus camel candle canoe carpet castle cedar cello cheese cherry chimney cider circle
clover cobra coffee copper coral cotton cousin crane cricket crown cumin curtain dagger dairy dancer denim desert
dinner doctor dolphin donkey dragon drum eagle earth elbow elder engine fabric falcon farmer fennel ferry fiddle
finger flute forest fossil fountain gallery garden garlic gecko ginger glacier glove gondola grape gravel guitar
hammer harbor hazel helmet heron hockey honey hotel hunter iceberg igloo indigo insect iris island ivory jacket
jaguar jasmine jelly jewel jungle juniper kayak kettle kitten koala ladder lagoon lantern laurel lemon lentil
leopard lilac linen lizard lobster lotus lumber magnet mango maple marble market meadow melon mirror monkey motor
mulberry museum mustard napkin needle nephew nettle nickel noodle novel nugget oasis ocean olive onion opera orange
orchid otter oven oyster paddle palace panda paper parrot pebble pelican pencil pepper piano picnic pigeon pillow
planet plum pocket poem pony potato pumpkin puzzle quail quartz quilt rabbit radish raven ribbon river robin rocket
saddle saffron salmon sandal satin school shadow shell silver sister spider spoon spruce squash stable statue summer
sunset tailor temple thistle ticket tiger timber tomato trumpet tulip tunnel turtle umbrella uncle urchin valley
vanilla velvet village violet viper volcano wagon walnut walrus water willow window winter wolf yogurt zebra zenith
zipper
"""


@cache
def words() -> tuple[str, ...]:
    """256 of them, one for each byte; the first four letters of any tell it from the others."""
    return tuple(_WORDS.split())


def in_words(found: bytes) -> str:
    """Bytes as words.

    >>> in_words(bytes([0, 1, 255]))
    'abbot-acorn-zipper'
    """
    return "-".join(words()[one] for one in found)


def from_words(text: str) -> str:
    """A fingerprint as we write it, from what a person typed: capitals and what stands between words do not count.

    >>> from_words("Abbot acorn, " * 8) == "-".join(["abbot", "acorn"] * 8)
    True
    """
    found = re.findall("[a-z]+", text.lower())
    if len(found) != BYTES or not set(found) <= set(words()):
        raise UsageError(NOT_WORDS)
    return "-".join(found)


@dataclass(frozen=True)
class PublicKey:
    """Whose signatures can be checked with it: `raw` are the 32 bytes of Ed25519."""

    raw: bytes

    def __post_init__(self) -> None:
        Ed25519PublicKey.from_public_bytes(self.raw)  # ValueError where they are no key

    @classmethod
    def of_ssh(cls, text: str) -> PublicKey:
        """From a line of OpenSSH, "ssh-ed25519 AAAA...", exactly as `in_ssh` writes it; else ValueError."""
        kind, _, encoded = text.partition(" ")
        found = cls(base64.b64decode(encoded, validate=True)[-32:])
        if kind != KIND.decode() or found.in_ssh() != text:
            raise ValueError("not an Ed25519 key of OpenSSH")
        return found

    def in_ssh(self) -> str:
        """As `allowed_signers` of ssh-keygen has it."""
        return f"{KIND.decode()} {base64.b64encode(self.blob()).decode()}"

    def blob(self) -> bytes:
        """As SSH puts it on the wire."""
        return packed(KIND) + packed(self.raw)

    @property
    def fingerprint(self) -> str:
        """The first half of what `ssh-keygen -l` prints, in words."""
        return in_words(hashlib.sha256(self.blob()).digest()[:BYTES])

    def signed(self, signature: bytes, message: bytes) -> bool:
        """Whether the holder of the private key signed this message."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(signature, message)
        except InvalidSignature:
            return False
        return True


def packed(data: bytes) -> bytes:
    """A string as SSH writes it: its length first."""
    return len(data).to_bytes(4, "big") + data
