"""Files that one person alone can open, in the form of age (https://c2sp.org/age), and the keys for it.

    wrap key    = HKDF-SHA256(X25519(ephemeral, recipient), salt = ephemeral share | recipient)
    header      = version, the ephemeral share, the file key under the wrap key, HMAC-SHA256 of all that
    payload key = HKDF-SHA256(file key, salt = nonce); ChaCha20-Poly1305 in pieces of 64 KiB

A key of `age-keygen` can be used here, and a file that was made here is opened by `age --decrypt`.
"""

from __future__ import annotations

import base64
import hmac
import os
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sfumato.core.errors import CardError, UsageError
from sfumato.core.files import is_private

PUBLIC, SECRET = "age", "age-secret-key-"
"""What keys begin with; secret ones are written in capitals."""
KEY_BYTES, FILE_KEY_BYTES, TAG_BYTES = 32, 16, 16
PIECE = 1 << 16
_VERSION, _KIND = b"age-encryption.org/v1", b"age-encryption.org/v1/X25519"
_ZERO = bytes(12)


# Keys are written in Bech32 (BIP 173).


_LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_STEPS = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)


def _checksum(prefix: str, fives: list[int]) -> int:
    found = 1
    for five in (*(ord(one) >> 5 for one in prefix), 0, *(ord(one) & 31 for one in prefix), *fives):
        top, found = found >> 25, (found & 0x1FFFFFF) << 5 ^ five
        for bit, step in enumerate(_STEPS):
            found ^= step if top >> bit & 1 else 0
    return found


def _bech32(prefix: str, key: bytes) -> str:
    number, spare = int.from_bytes(key, "big"), -8 * len(key) % 5
    length = (8 * len(key) + spare) // 5
    fives = [(number << spare) >> 5 * place & 31 for place in reversed(range(length))]
    sealed = _checksum(prefix, [*fives, 0, 0, 0, 0, 0, 0]) ^ 1
    fives += [sealed >> 5 * place & 31 for place in reversed(range(6))]
    return prefix + "1" + "".join(_LETTERS[five] for five in fives)


def _key_of(prefix: str, text: str) -> bytes:
    """The 32 bytes of a key in its one spelling; else ValueError."""
    fives = [_LETTERS.index(one) for one in text.lower().removeprefix(prefix + "1")][:-6]
    number = 0
    for five in fives:
        number = number << 5 | five
    key = (number >> 5 * len(fives) - 8 * KEY_BYTES).to_bytes(KEY_BYTES, "big")
    if _bech32(prefix, key) != text.lower() or text not in (text.lower(), text.upper()):
        raise ValueError("no key, or one that was copied wrongly")
    return key


def _only_line(path: Path | str, what: str) -> str:
    """The line of a key file that holds the key; comments are left out."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except (OSError, ValueError):
        raise UsageError(f"{path} cannot be read. Give the file of {what}.") from None
    found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if len(found) != 1:
        raise UsageError(f"{path} must hold one key, {what}, and holds {len(found)}.")
    return found[0]


@dataclass(frozen=True)
class Recipient:
    """Who can open a file: a public key."""

    raw: bytes

    @classmethod
    def read(cls, text: str) -> Recipient:
        """From age1...; else `UsageError`."""
        try:
            return cls(_key_of(PUBLIC, text.strip()))
        except (ValueError, OverflowError):
            raise UsageError("That is not a public key of age (age1...): a letter is missing or wrong.") from None

    @classmethod
    def load(cls, path: Path | str) -> Recipient:
        """From the file of a public key."""
        line = _only_line(path, "the auditor's public key (age1...)")
        if line.lower().startswith(SECRET):
            raise UsageError(f"{path} is a secret key: only its owner may have it. Ask them for the public one.")
        return cls.read(line)

    @property
    def text(self) -> str:
        return _bech32(PUBLIC, self.raw)

    def seal(self, content: bytes) -> bytes:
        """A file with this content, which only the owner of the secret key can open."""
        ephemeral, file_key, nonce = X25519PrivateKey.generate(), os.urandom(FILE_KEY_BYTES), os.urandom(16)
        share = ephemeral.public_key().public_bytes_raw()
        wrap = _derived(ephemeral.exchange(X25519PublicKey.from_public_bytes(self.raw)), share + self.raw, _KIND)
        body = ChaCha20Poly1305(wrap).encrypt(_ZERO, file_key, None)
        header = b"%s\n-> X25519 %s\n%s\n---" % (_VERSION, _text(share), _text(body))
        cipher = ChaCha20Poly1305(_derived(file_key, nonce, b"payload"))
        pieces = [content[start : start + PIECE] for start in range(0, len(content), PIECE)] or [b""]
        sealed = [
            cipher.encrypt(_place(number, number == len(pieces) - 1), one, None) for number, one in enumerate(pieces)
        ]
        return b"".join((header, b" ", _text(_header_mac(file_key, header)), b"\n", nonce, *sealed))


@dataclass(frozen=True, repr=False)
class Identity:
    """A secret key. It opens what was sealed to its public half."""

    raw: bytes

    def __repr__(self) -> str:
        return f"<Identity of {self.public.text}, key hidden>"

    @classmethod
    def new(cls) -> Identity:
        """A key of the operating system's randomness."""
        return cls(X25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def load(cls, path: Path | str) -> Identity:
        """From a file that its owner alone can read, as `age-keygen` and `sfumato auditor key` write it."""
        line = _only_line(path, "the auditor's secret key (AGE-SECRET-KEY-1...)")
        if line.lower().startswith(PUBLIC + "1"):
            raise UsageError(f"{path} is a public key, which opens nothing. Give the secret one that belongs to it.")
        if not is_private(Path(path)):
            raise CardError(
                f"The secret key {path} can be read by others on this machine. Find out who could have; then make a "
                f"new one, or: chmod 600 {path}"
            )
        try:
            return cls(_key_of(SECRET, line))
        except (ValueError, OverflowError):
            raise UsageError(f"{path} is not the secret key of an auditor: a letter is missing or wrong.") from None

    @property
    def _private(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self.raw)

    @property
    def public(self) -> Recipient:
        return Recipient(self._private.public_key().public_bytes_raw())

    @property
    def text(self) -> str:
        return _bech32(SECRET, self.raw).upper()

    def open(self, sealed: bytes) -> bytes:
        """The content of a file; `CardError` where it was sealed to another key, or is not whole."""
        try:
            head, _, rest = sealed.partition(b"\n---")
            mac, _, payload = rest.partition(b"\n")
            version, *lines = head.split(b"\n")
            if version != _VERSION or not mac.startswith(b" "):
                raise ValueError("not a file of age")
            file_key = self._file_key(lines)
            if not hmac.compare_digest(_bytes(mac[1:]), _header_mac(file_key, head + b"\n---")):
                raise ValueError("changed")
            return _payload(file_key, payload)
        except (ValueError, InvalidTag):
            raise CardError(
                "The sealed file cannot be opened with this key: it was sealed to another one, or was changed or cut "
                "short."
            ) from None

    def _file_key(self, lines: list[bytes]) -> bytes:
        """From the first stanza that this key opens; others are for others."""
        for argument, body in pairwise(lines):
            words = argument.split(b" ")
            if words[:2] != [b"->", b"X25519"] or len(words) != 3:
                continue
            share, wrapped = _bytes(words[2]), _bytes(body)
            if len(share) != KEY_BYTES or len(wrapped) != FILE_KEY_BYTES + TAG_BYTES:
                raise ValueError("not a key")
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(share))
            try:
                wrap = _derived(shared, share + self.public.raw, _KIND)
                return ChaCha20Poly1305(wrap).decrypt(_ZERO, wrapped, None)
            except InvalidTag:
                continue
        _not_for_this_key()


def _not_for_this_key() -> NoReturn:
    raise ValueError("sealed to another key")


def _payload(file_key: bytes, payload: bytes) -> bytes:
    nonce, rest = payload[:16], payload[16:]
    if len(nonce) != 16 or not rest:
        raise ValueError("cut short")
    cipher, found = ChaCha20Poly1305(_derived(file_key, nonce, b"payload")), []
    for number in count():
        piece, rest = rest[: PIECE + TAG_BYTES], rest[PIECE + TAG_BYTES :]
        found.append(cipher.decrypt(_place(number, not rest), piece, None))
        if not rest:
            if number and not found[-1]:
                raise ValueError("an empty piece at the end")
            return b"".join(found)
    raise AssertionError  # the count has no end


def _place(number: int, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])


def _header_mac(file_key: bytes, header: bytes) -> bytes:
    return hmac.digest(_derived(file_key, b"", b"header"), header, "sha256")


def _derived(secret: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(secret)


def _text(data: bytes) -> bytes:
    return base64.b64encode(data).rstrip(b"=")


def _bytes(text: bytes) -> bytes:
    """Base64 without padding, in its one spelling."""
    found = base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    if _text(found) != text:
        raise ValueError("another spelling")
    return found
