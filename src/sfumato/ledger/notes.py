"""What a public log signs, in the forms that existing monitors and witnesses read.

A signed note [C2SP signed-note] is text, a blank line, and one line for every signature. A checkpoint [C2SP
tlog-checkpoint] is a note about a log: its name, its size and its root. A witness who has seen that the log only grew
adds a line of its own with the time [C2SP tlog-cosignature]. A receipt is the proof that an entry is under a
checkpoint [C2SP tlog-proof].
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sfumato.core.errors import CardError
from sfumato.core.files import exclusive, write_whole
from sfumato.guarantee.signer import PublicKey

# The tree over a public log: one hash says all of its entries, and short proofs say what is in it [RFC 6962, 2.1].
#
#     MTH({})   = SHA-256()
#     MTH({d})  = SHA-256(0x00 || d)
#     MTH(D[n]) = SHA-256(0x01 || MTH(D[0:k]) || MTH(D[k:n])),  k the largest power of two below n
#
# Hashes of complete subtrees never change once they are there. `nodes(level, number)` gives the one over the 2^level
# entries from number * 2^level on; whoever has them makes any root of any size, and so sees that a log only grew, and
# any proof of an entry. Who checks a proof needs none of them [RFC 9162, 2.1.3.2].


Nodes = Callable[[int, int], bytes]
HASH_BYTES = 32
EMPTY = hashlib.sha256().digest()
"""The root of a log without entries."""
MOST_HASHES = 63
"""No proof is longer: no log has 2^63 entries."""


class ProofError(ValueError):
    """A proof does not lead from what is known to what is claimed."""


def leaf_hash(entry: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def grown(nodes: Nodes, size: int, leaf: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The complete subtrees that a new entry of a log of `size` entries makes: (level, number, hash)."""
    yield 0, size, leaf
    level, number, found = 0, size, leaf
    while number % 2:
        found = node_hash(nodes(level, number - 1), found)
        level, number = level + 1, number // 2
        yield level, number, found


def root_of(nodes: Nodes, size: int) -> bytes:
    return _over(nodes, 0, size) if size else EMPTY


def _over(nodes: Nodes, start: int, size: int) -> bytes:
    """MTH of `size` entries from `start` on, which is a multiple of the power of two at or above `size`."""
    if size & (size - 1) == 0:
        level = size.bit_length() - 1
        return nodes(level, start >> level)
    left = _split(size)
    return node_hash(_over(nodes, start, left), _over(nodes, start + left, size - left))


def _split(size: int) -> int:
    """The largest power of two below."""
    return 1 << ((size - 1).bit_length() - 1)


def inclusion(nodes: Nodes, index: int, size: int) -> list[bytes]:
    """PATH(index, D[size]): that an entry is in a log of this size; the leaf's sibling first."""
    if not 0 <= index < size:
        raise ProofError(f"There is no entry {index} among {size}.")
    path: list[bytes] = []
    start = 0
    while size > 1:
        left = _split(size)
        if index - start < left:
            path.append(_over(nodes, start + left, size - left))
            size = left
        else:
            path.append(_over(nodes, start, left))
            start, size = start + left, size - left
    return path[::-1]


def root_by_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes:
    """The root that a log of this size has if the proof is good."""
    if not 0 <= index < size:
        raise ProofError("the entry's number is not below the size of the log")
    if len(proof) > MOST_HASHES or any(len(one) != HASH_BYTES for one in proof):
        raise ProofError("the proof is not a list of hashes")
    found, at, last = leaf, index, size - 1
    for one in proof:
        if last == 0:
            raise ProofError("the proof is too long")
        if at % 2 or at == last:
            found = node_hash(one, found)
            while at and at % 2 == 0:
                at, last = at // 2, last // 2
        else:
            found = node_hash(found, one)
        at, last = at // 2, last // 2
    if last:
        raise ProofError("the proof is too short")
    return found


# Tiles: 256 hashes of one level together, at addresses that never change their content [C2SP tlog-tiles].


TILE_LEVELS = 8
TILE = 1 << TILE_LEVELS


def tile_path(number: int, width: int = TILE) -> str:
    """How a tile is addressed within its level: 1234067 is x001/x234/067; .p/W says that it holds W hashes only."""
    groups = [f"{number % 1000:03}"]
    while number := number // 1000:
        groups.append(f"x{number % 1000:03}")
    return "/".join(reversed(groups)) + ("" if width == TILE else f".p/{width}")


def read_tile_path(text: str) -> tuple[int, int]:
    """Number and width of a tile; `ValueError` for what `tile_path` does not write."""
    whole, partial, width = text.partition(".p/")
    groups = whole.split("/")
    if len(groups) > 6 or not all(len(one.removeprefix("x")) == 3 and one[-3:].isdecimal() for one in groups):
        raise ValueError("no tile has this address")
    number, wide = int("".join(one[-3:] for one in groups)), int(width) if partial and width.isdecimal() else TILE
    if not 1 <= wide <= TILE or tile_path(number, wide) != text:
        raise ValueError("no tile has this address")
    return number, wide


def tile_width(size: int, level: int, number: int) -> int:
    return max(0, min(TILE, (size >> (TILE_LEVELS * level)) - number * TILE))


def nodes_of(leaves: Sequence[bytes]) -> Nodes:
    """The complete subtrees over leaf hashes that are all at hand."""
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append([node_hash(*below[n : n + 2]) for n in range(0, len(below) - 1, 2)])
    return lambda level, number: levels[level][number]


# Notes, checkpoints and receipts.


SIGNATURE, COSIGNATURE = 0x01, 0x04
"""What a key signs: a log's own notes, or as a witness the notes of others."""
KEY_BYTES, SIGNATURE_BYTES, TIME_BYTES, ID_BYTES = 32, 64, 8, 4
MOST_SIGNATURES = 32
LONGEST_NOTE = 64 << 10
_DASH = "— "
_PRIVATE = "PRIVATE+KEY+"


class NoteError(ValueError):
    """A note, or a key for notes, is not what it should be."""


@dataclass(frozen=True)
class NoteKey:
    """Who signs: a name, and the public key that signatures are checked by. Its text is name+id+key."""

    name: str
    public: bytes
    kind: int = SIGNATURE

    @classmethod
    def read(cls, text: str) -> NoteKey:
        """As it is published and pinned, "study.example/log+c74f20a3+ARpc..."; its id must fit."""
        name, _, rest = text.strip().partition("+")
        stated, _, packed = rest.partition("+")
        key = from_base64(packed)
        if len(key) != 1 + KEY_BYTES or key[0] not in (SIGNATURE, COSIGNATURE):
            raise NoteError("It is no Ed25519 key for notes, which look like name+1234abcd+AQ...")
        found = cls(_checked_name(name), key[1:], key[0])
        if found.id.hex() != stated:
            raise NoteError("The key does not fit its id: it was changed, or copied in part.")
        return found

    @property
    def id(self) -> bytes:
        return hashlib.sha256(f"{self.name}\n".encode() + bytes([self.kind]) + self.public).digest()[:ID_BYTES]

    @property
    def named(self) -> tuple[str, bytes]:
        """By what lines of signatures say whose they are."""
        return self.name, self.id

    @property
    def text(self) -> str:
        return f"{self.name}+{self.id.hex()}+{to_base64(bytes([self.kind]) + self.public)}"

    def signed(self, text: str, signature: bytes) -> int | None:
        """Whether the signature is good; of a cosignature its time, else 0. None for one that is not."""
        message, time = text.encode(), 0
        if self.kind == COSIGNATURE:
            time, signature = int.from_bytes(signature[:TIME_BYTES], "big"), signature[TIME_BYTES:]
            message = _cosigned(text, time)
        return time if PublicKey(self.public).signed(signature, message) else None


@dataclass(frozen=True, repr=False)
class NoteSigner:
    """The private half; its text stands in a file that only its owner can read."""

    key: NoteKey
    secret: bytes

    @classmethod
    def new(cls, name: str, kind: int = SIGNATURE) -> NoteSigner:
        return cls._of(_checked_name(name), Ed25519PrivateKey.generate().private_bytes_raw(), kind)

    @classmethod
    def _of(cls, name: str, secret: bytes, kind: int) -> NoteSigner:
        public = Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()
        return cls(NoteKey(name, public, kind), secret)

    @classmethod
    def read(cls, text: str) -> NoteSigner:
        """PRIVATE+KEY+name+id+key, as other programs for notes write it."""
        parts = text.strip().removeprefix(_PRIVATE).split("+", 2)
        key = from_base64(parts[-1])
        if not text.startswith(_PRIVATE) or len(parts) < 3 or len(key) != 1 + KEY_BYTES:
            raise NoteError("It is no private key for notes.")
        found = cls._of(_checked_name(parts[0]), key[1:], key[0])
        if found.key.id.hex() != parts[1]:
            raise NoteError("The private key does not fit its id.")
        return found

    @property
    def text(self) -> str:
        packed = to_base64(bytes([self.key.kind]) + self.secret)
        return f"{_PRIVATE}{self.key.name}+{self.key.id.hex()}+{packed}"

    def line(self, text: str, time: int = 0) -> str:
        """The signature as a line of the note; a witness states the time."""
        private = Ed25519PrivateKey.from_private_bytes(self.secret)
        if self.key.kind == COSIGNATURE:
            signature = time.to_bytes(TIME_BYTES, "big") + private.sign(_cosigned(text, time))
        else:
            signature = private.sign(text.encode())
        return f"{_DASH}{self.key.name} {to_base64(self.key.id + signature)}\n"


def kept_signer(path: Path, name: str, kind: int = SIGNATURE, *, known: bool = False) -> NoteSigner:
    """The key in a private file, made there at first use; `known`: it must be there, since it has signed before."""
    with exclusive(path):
        if not path.exists():
            if known:
                raise CardError(f"The key {path} is missing, and its log has entries. Take it from the backup.")
            write_whole(path, NoteSigner.new(name, kind).text + "\n", private=True)
        try:
            return NoteSigner.read(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise CardError(f"The key {path} cannot be read. Take it from the backup.") from None


def _cosigned(text: str, time: int) -> bytes:
    return f"cosignature/v1\ntime {time}\n{text}".encode()


def _checked_name(name: str) -> str:
    if not name or "+" in name or any(one.isspace() or not one.isprintable() for one in name) or len(name) > 200:
        raise NoteError("The name of a key is short, and has no spaces and no plus sign.")
    return name


def split_note(note: str) -> tuple[str, list[str]]:
    """The signed text, with its last newline, and the lines of signatures."""
    text, blank, lines = note.rpartition("\n\n")
    control = any(one < " " and one != "\n" for one in note)
    if not blank or control or not lines.endswith("\n") or len(note) > LONGEST_NOTE:
        raise NoteError("It is no signed note.")
    found = lines[:-1].split("\n")
    if len(found) > MOST_SIGNATURES or not all(one.startswith(_DASH) for one in found):
        raise NoteError("It is no signed note.")
    return text + "\n", found


def signatures(lines: Sequence[str]) -> Iterator[tuple[str, bytes, bytes]]:
    """Name, id of the key, and signature of every line."""
    for line in lines:
        name, _, packed = line.removeprefix(_DASH).rpartition(" ")
        found = from_base64(packed)
        if len(found) <= ID_BYTES or not name:
            raise NoteError("A line of its signatures cannot be read.")
        yield name, found[:ID_BYTES], found[ID_BYTES:]


def time_signed(note: str, key: NoteKey) -> int | None:
    """When this key signed the note: 0 for a log's own signature, None where it did not; a bad one is refused."""
    text, lines = split_note(note)
    for name, identity, signature in signatures(lines):
        if (name, identity) == key.named:
            if (time := key.signed(text, signature)) is None:
                raise NoteError(f"The signature of {name} does not fit: the note was changed.")
            return time
    return None


@dataclass(frozen=True)
class Checkpoint:
    """A log at one size: all of its entries follow from the root."""

    origin: str
    size: int
    root: bytes

    @property
    def text(self) -> str:
        return f"{self.origin}\n{self.size}\n{to_base64(self.root)}\n"

    @classmethod
    def read(cls, text: str) -> Checkpoint:
        """From the text of a note; lines that others may have added are passed over."""
        lines = text.split("\n")
        if len(lines) < 4 or not all(lines[:-1]) or lines[-1]:
            raise NoteError("It is no checkpoint of a log.")
        found = cls(lines[0], whole(lines[1]), from_base64(lines[2]))
        if len(found.root) != HASH_BYTES:
            raise NoteError("It is no checkpoint of a log.")
        return found

    def signed_by(self, signer: NoteSigner) -> str:
        return f"{self.text}\n{signer.line(self.text)}"


def opened(note: str, key: NoteKey) -> Checkpoint:
    """The checkpoint of a note that its log signed."""
    found = Checkpoint.read(split_note(note)[0])
    if found.origin != key.name:
        raise NoteError(f"The checkpoint is of the log {found.origin[:80]!r}, not of {key.name!r}.")
    if key.kind != SIGNATURE or time_signed(note, key) is None:
        raise NoteError(f"The checkpoint is not signed by the key of {key.name}.")
    return found


_PROOF = "c2sp.org/tlog-proof@v1"


@dataclass(frozen=True)
class LogProof:
    """That an entry is in a log: its number, the path to the root, and the signed checkpoint with that root."""

    index: int
    path: tuple[bytes, ...]
    note: str

    @property
    def text(self) -> str:
        lines = [_PROOF, f"index {self.index}", *(to_base64(one) for one in self.path)]
        return "\n".join(lines) + f"\n\n{self.note}"

    @classmethod
    def read(cls, text: str) -> LogProof:
        head, blank, note = text.partition("\n\n")
        first, *lines = head.split("\n")
        if lines and lines[0].startswith("extra "):
            lines = lines[1:]
        if first != _PROOF or not blank or not lines or not lines[0].startswith("index "):
            raise NoteError("It is no proof of a log.")
        if len(lines) - 1 > MOST_HASHES:
            raise NoteError("The proof of the log is too long.")
        return cls(whole(lines[0].removeprefix("index ")), tuple(from_base64(one) for one in lines[1:]), note)

    def check(self, leaf: bytes, key: NoteKey) -> Checkpoint:
        """The checkpoint under which the entry is; `NoteError` or `ProofError` where it is not."""
        found = opened(self.note, key)
        if root_by_inclusion(leaf, self.index, found.size, self.path) != found.root:
            raise NoteError("The entry is not in the log under this checkpoint.")
        return found


def whole(text: str) -> int:
    """A number without leading zeros, below 2^63."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 19) or (text[0] == "0" and text != "0"):
        raise NoteError("A number of it cannot be read.")
    return int(text)


def to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def from_base64(text: str) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise NoteError("A part of it is not base64.") from None
    if to_base64(found) != text:  # the same bytes in another spelling
        raise NoteError("A part of it is not base64.")
    return found
