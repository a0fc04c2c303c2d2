"""The tree over a public log: one hash says all of its entries, and short proofs say what is in it [RFC 6962, 2.1].

    MTH({})   = SHA-256()
    MTH({d})  = SHA-256(0x00 || d)
    MTH(D[n]) = SHA-256(0x01 || MTH(D[0:k]) || MTH(D[k:n])),  k the largest power of two below n

Hashes of complete subtrees never change once they are there. `nodes(level, number)` gives the one over the 2^level
entries from number * 2^level on; whoever has them makes any root of any size, and so sees that a log only grew, and any
proof of an entry. Who checks a proof needs none of them [RFC 9162, 2.1.3.2].
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

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
    level, number, found = 0, size, leaf
    yield level, number, found
    while number % 2:
        found = node_hash(nodes(level, number - 1), found)
        level, number = level + 1, number // 2
        yield level, number, found


def root_of(nodes: Nodes, size: int) -> bytes:
    """The root of the first `size` entries."""
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
    """How many hashes a tile has in a log of this size."""
    return max(0, min(TILE, (size >> (TILE_LEVELS * level)) - number * TILE))


def nodes_of(leaves: Sequence[bytes]) -> Nodes:
    """The complete subtrees over leaf hashes that are all at hand."""
    levels = [list(leaves)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        levels.append([node_hash(*below[n : n + 2]) for n in range(0, len(below) - 1, 2)])
    return lambda level, number: levels[level][number]
