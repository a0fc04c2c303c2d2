"""The owner's signature: Ed25519 in the form of OpenSSH (SSHSIG), so that `ssh-keygen -Y verify` checks it as well.

The key is made at first use. One that was replaced signs its successor, so that a reader of old releases can follow;
one that was lost to others is revoked, by a statement that it signed itself.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from sfumato.core.errors import CardError, UsageError
from sfumato.core.files import exclusive, is_private, read_kept, write_whole
from sfumato.core.records import Record

# Public keys and their fingerprints: 128 bits as sixteen plain words, which people read out and compare.

KIND = b"ssh-ed25519"
BYTES = 16  # a second key with the same words takes 2^128 tries
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
WORDS = tuple(_WORDS.split())
"""256 of them, one for each byte; the first four letters of any tell it from the others."""


def in_words(found: bytes) -> str:
    """Bytes as words.

    >>> in_words(bytes([0, 1, 255]))
    'abbot-acorn-zipper'
    """
    return "-".join(WORDS[one] for one in found)


def from_words(text: str) -> str:
    """A fingerprint as we write it, from what a person typed: capitals and what stands between words do not count.

    >>> from_words("Abbot acorn, " * 8) == "-".join(["abbot", "acorn"] * 8)
    True
    """
    found = re.findall("[a-z]+", text.lower())
    if len(found) != BYTES or not set(found) <= set(WORDS):
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


# A signature, as OpenSSH's PROTOCOL.sshsig defines it.

NAMESPACE = "sfumato"
"""Of signatures of cards. Others have their own, so that none is taken for one of a card."""
HASH = "sha512"
_MAGIC, _VERSION = b"SSHSIG", (1).to_bytes(4, "big")
_BEGIN, _END, _LINE = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----", 70
MOST_STATED = 1 << 20  # bytes of a file of statements: more than a thousand of them
MOST = 2048  # characters of a signature file; ours have about 300


def checked(signature: str | bytes, message: bytes, namespace: str = NAMESPACE) -> PublicKey:
    """Who signed `message` for this purpose.

    Raises
    ------
    CardError
        Where no known key did: the signature is not in its one spelling, was made of something else, for something
        else, or with another kind of key.
    """
    try:
        text = signature if isinstance(signature, str) else signature[: MOST + 1].decode("ascii")
        key, purpose, made = _read(text)
    except (ValueError, IndexError):
        raise CardError(
            "The signature cannot be read: it was edited or cut short, or is not an Ed25519 signature of OpenSSH."
        ) from None
    if purpose != namespace.encode():
        raise CardError(f"The signature was made for another purpose than {namespace!r}: it was taken from elsewhere.")
    if not key.signed(made, _to_sign(message, namespace)):
        raise CardError("The signature does not fit what it stands beside: one of them was edited or exchanged.")
    return key


def _to_sign(message: bytes, namespace: str) -> bytes:
    digest = hashlib.new(HASH, message).digest()
    return _MAGIC + b"".join(map(packed, (namespace.encode(), b"", HASH.encode(), digest)))


def _armored(key: PublicKey, namespace: bytes, made: bytes) -> str:
    signature = packed(KIND) + packed(made)
    parts = (key.blob(), namespace, b"", HASH.encode(), signature)
    text = base64.b64encode(_MAGIC + _VERSION + b"".join(map(packed, parts))).decode()
    lines = [text[start : start + _LINE] for start in range(0, len(text), _LINE)]
    return "\n".join([_BEGIN, *lines, _END, ""])


def _read(text: str) -> tuple[PublicKey, bytes, bytes]:
    """Key, namespace and the signature itself, from the one spelling of it; else ValueError."""
    if len(text) > MOST:
        raise ValueError("too long")
    body = text.removeprefix(_BEGIN).rstrip().removesuffix(_END)
    data = base64.b64decode(body.replace("\n", ""), validate=True)
    found, rest = [], data[len(_MAGIC) + len(_VERSION) :]
    for _ in range(5):
        size = int.from_bytes(rest[:4], "big")
        found.append(rest[4 : 4 + size])
        rest = rest[4 + size :]
    key, namespace, made = PublicKey(found[0][-32:]), found[1], found[4][-64:]
    if _armored(key, namespace, made) != text:
        raise ValueError("another spelling")
    return key, namespace, made


# What keys say of keys.

STATEMENTS = "sfumato-signer"  # namespace of the statements below


@dataclass(frozen=True, kw_only=True)
class Statement(Record):
    """`key` says that it is replaced by `successor`, or that nothing it signed counts any more."""

    takes_more = False

    kind: Literal["rotation", "revocation"]
    key: str
    successor: str | None = None
    on: str
    """The day; it is the signer's word."""

    def __post_init__(self) -> None:
        PublicKey.of_ssh(self.key)
        if (self.kind == "rotation") != (self.successor is not None):
            raise ValueError("a rotation names the next key, and a revocation none")
        if self.successor is not None:
            PublicKey.of_ssh(self.successor)


@dataclass(frozen=True, kw_only=True)
class Stated(Record):
    """A statement as its exact text, and the signature by the key that it is about."""

    takes_more = False

    text: str
    signature: str

    def read(self) -> Statement:
        """What is stated; CardError where the key that it is about did not sign it."""
        signer = checked(self.signature, self.text.encode(), STATEMENTS)
        try:
            found = Statement.from_dict(json.loads(self.text))
        except (ValueError, TypeError):
            raise CardError("A statement about keys cannot be read: another program wrote it.") from None
        if found.key != signer.in_ssh():
            raise CardError("A statement about a key was signed by another key: it counts for nothing.")
        return found


def stated_in(path: Path) -> list[Stated]:
    """The statements in a file that `sfumato signer` wrote, each with its signature checked."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_STATED + 1)
        if len(text) > MOST_STATED:
            raise ValueError("too long")
        found = [Stated.from_dict(one) for one in json.loads(text)["statements"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise CardError(f"{path} holds no statements of `sfumato signer`: it was edited or is damaged.") from None
    for one in found:
        one.read()
    return found


def statements_text(found: Iterable[Stated]) -> str:
    """What `stated_in` reads."""
    return json.dumps({"format": STATEMENTS, "statements": [one.to_dict() for one in found]}, indent=1)


def revoked(fingerprint: str, stated: Sequence[Stated]) -> bool:
    """Whether the key with this fingerprint said that nothing it signed counts any more."""
    said = (one.read() for one in stated)
    return any(one.kind == "revocation" and PublicKey.of_ssh(one.key).fingerprint == fingerprint for one in said)


def follows(signer: str, asked: str, stated: Sequence[Stated]) -> bool:
    """Whether the key with the fingerprint `signer` is the one `asked` for, or replaced it, one key after the other.

    A key that was revoked leads nowhere: who stole it could name a successor as well.
    """
    reached, new = set[str](), {asked}
    said = [one.read() for one in stated]
    while new:
        new = {one for one in new if not revoked(one, stated)}
        reached |= new
        steps = [one for one in said if one.successor and PublicKey.of_ssh(one.key).fingerprint in new]
        new = {PublicKey.of_ssh(str(one.successor)).fingerprint for one in steps} - reached
    return signer in reached


# The owner's own key.

FORMAT, VERSION = "sfumato-signer-key", 1


def signer_beside(ledger: Path) -> Path:
    """The file that holds the key of a ledger's owner."""
    return ledger.with_name(ledger.name + ".signer")


@dataclass(frozen=True, repr=False)
class Signer:
    """A private key in a file of the owner's, with what it and those before it said about each other."""

    path: Path
    secret: bytes
    stated: tuple[Stated, ...] = ()
    """Rotations that led to this key, and revocations that were made known."""
    kept: tuple[Stated, ...] = ()
    """Revocations of replaced keys, signed while they were there: private until they are needed."""

    def __repr__(self) -> str:
        return f"<Signer {self.public.fingerprint}, key hidden>"

    @classmethod
    def at(cls, path: Path) -> Signer:
        """The key in this file; one that is not there yet is made, by one process however many ask."""
        if (found := cls.known(path)) is not None:
            return found
        with exclusive(path):
            found = cls.known(path) or cls(path, _new_secret())
            found._write()
        return found

    @classmethod
    def known(cls, path: Path) -> Signer | None:
        """The key in this file, or None: nothing is made.

        One that others could have read or exchanged is refused.
        """
        if not path.is_symlink() and not path.exists():
            return None
        if not stat.S_ISREG(path.lstat().st_mode):
            raise CardError(f"{path} must be the file of the signing key itself, and is a link or a folder. Remove it.")
        if not is_private(path):
            raise CardError(
                f"The signing key {path} can be read by others on this machine. Find out who could have; then revoke "
                f"it, or: chmod 600 {path}"
            )
        lost = f"{path} is not a signing key, or it is damaged or cut short. Take it from a backup."

        def read(data: dict[str, Any]) -> Signer:
            stated, kept = (tuple(map(Stated.from_dict, data[name])) for name in ("stated", "kept"))
            found = cls(path, bytes.fromhex(data["secret"]), stated, kept)
            if found.public.in_ssh() != data["public"]:
                raise ValueError("the secret was cut short")
            return found

        return read_kept(path, "The signing key", (FORMAT, VERSION), read, lost)

    def _write(self) -> None:
        data = {
            "format": FORMAT,
            "version": VERSION,
            "private": "Whoever has this file signs in your name. Never upload it.",
            "public": self.public.in_ssh(),
            "secret": self.secret.hex(),
            "stated": [one.to_dict() for one in self.stated],
            "kept": [one.to_dict() for one in self.kept],
        }
        write_whole(self.path, json.dumps(data, indent=1), private=True)

    @property
    def public(self) -> PublicKey:
        """What others check with."""
        return PublicKey(self._key.public_key().public_bytes_raw())

    @property
    def fingerprint(self) -> str:
        return self.public.fingerprint

    @property
    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)

    def sign(self, message: bytes, namespace: str = NAMESPACE) -> str:
        """The content of a detached signature file."""
        return _armored(self.public, namespace.encode(), self._key.sign(_to_sign(message, namespace)))

    def _state(self, kind: Literal["rotation", "revocation"], successor: PublicKey | None = None) -> Stated:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        named = None if successor is None else successor.in_ssh()
        statement = Statement(kind=kind, key=self.public.in_ssh(), successor=named, on=today)
        text = json.dumps(statement.to_dict())
        return Stated(text=text, signature=self.sign(text.encode(), STATEMENTS))

    def rotated(self) -> Signer:
        """A new key in the place of this one, which signs it and is erased."""
        with exclusive(self.path):
            old = self.known(self.path) or self
            new = Signer(self.path, _new_secret())
            said = (*old.stated, old._state("rotation", new.public))
            new = replace(new, stated=said, kept=(*old.kept, old._state("revocation")))
            new._write()
        return new

    def revocation(self, fingerprint: str) -> Stated:
        """The statement that nothing signed by a key of this owner counts any more: this one, or one it replaced."""
        if fingerprint == self.fingerprint:
            return self._state("revocation")
        for one in self.kept:
            if PublicKey.of_ssh(one.read().key).fingerprint == fingerprint:
                return one
        raise CardError(f"No key with the fingerprint {fingerprint} was ever in {self.path}, so it cannot be revoked.")

    def without(self, revocation: Stated) -> Signer:
        """The owner's key after a revocation, which goes out with all that it signs: a new one, where it was this."""
        with exclusive(self.path):
            old = self.known(self.path) or self
            gone = PublicKey.of_ssh(revocation.read().key).fingerprint == old.fingerprint
            new = replace(old, secret=_new_secret(), stated=()) if gone else old
            new = replace(new, stated=(*new.stated, revocation))
            new._write()
        return new


def _new_secret() -> bytes:
    return Ed25519PrivateKey.generate().private_bytes_raw()
