"""The tree against the definition of RFC 6962 done by brute force, against vectors of others, and against forgers."""

from __future__ import annotations

import hashlib
import random

import pytest

from sfumato.ledger.notes import (
    EMPTY,
    TILE,
    ProofError,
    grown,
    inclusion,
    leaf_hash,
    nodes_of,
    read_tile_path,
    root_by_inclusion,
    root_of,
    tile_path,
    tile_width,
)

MOST = 70


def mth(entries: list[bytes]) -> bytes:
    """Section 2.1, word for word."""
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    k = 1
    while 2 * k < len(entries):
        k *= 2
    return hashlib.sha256(b"\x01" + mth(entries[:k]) + mth(entries[k:])).digest()


def path(m: int, entries: list[bytes]) -> list[bytes]:
    """Section 2.1.1."""
    if len(entries) == 1:
        return []
    k = 1
    while 2 * k < len(entries):
        k *= 2
    if m < k:
        return [*path(m, entries[:k]), mth(entries[k:])]
    return [*path(m - k, entries[k:]), mth(entries[:k])]


ENTRIES = [b"%d" % number for number in range(MOST)]
NODES = nodes_of([leaf_hash(one) for one in ENTRIES])
ROOTS = [mth(ENTRIES[:size]) for size in range(MOST + 1)]


def test_roots_and_proofs_are_those_of_the_definition():
    for size in range(1, MOST + 1):
        assert root_of(NODES, size) == ROOTS[size]
        for index in range(size):
            proof = inclusion(NODES, index, size)
            assert proof == path(index, ENTRIES[:size])
            assert root_by_inclusion(leaf_hash(ENTRIES[index]), index, size, proof) == ROOTS[size]
    assert root_of(NODES, 0) == EMPTY == ROOTS[0]


CT = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
CT_ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def test_roots_are_those_of_certificate_transparency():
    """The vectors that implementations of certificate transparency are tested with."""
    nodes = nodes_of([leaf_hash(bytes.fromhex(one)) for one in CT])
    assert [root_of(nodes, size).hex() for size in range(1, 9)] == CT_ROOTS


def test_roots_are_those_of_pymerkle():
    """Of the entries 0 to 1,000 as text, computed with pymerkle 7.0.0: the hash of its roots, one after the other."""
    nodes = nodes_of([leaf_hash(b"%d" % number) for number in range(1000)])
    roots = b"".join(root_of(nodes, size) for size in range(1, 1001))
    assert hashlib.sha256(roots).hexdigest() == "61aa21a31c71bdb8854506e8baaf475db289fb37f07f2a27e02c169bf06234cc"


def test_a_log_that_grows_has_the_same_nodes():
    kept: dict[tuple[int, int], bytes] = {}
    for size, entry in enumerate(ENTRIES):
        for level, number, found in grown(lambda *place: kept[place], size, leaf_hash(entry)):
            kept[level, number] = found
        assert root_of(lambda *place: kept[place], size + 1) == ROOTS[size + 1]


def test_proofs_for_what_is_not_there():
    for index, size in ((-1, 3), (3, 3), (0, 0)):
        with pytest.raises(ProofError):
            inclusion(NODES, index, size)
        with pytest.raises(ProofError):
            root_by_inclusion(EMPTY, index, size, [])


def test_no_changed_proof_is_believed():
    """A thousand edits of hashes, lengths, numbers and sizes."""
    chance = random.Random(5)
    for _ in range(1000):
        size = chance.randint(2, MOST)
        index = chance.randrange(size)
        assert not _included(chance, index, size, inclusion(NODES, index, size))


def _edited(chance: random.Random, proof: list[bytes]) -> list[bytes]:
    found, how = list(proof), chance.randrange(4)
    if how == 0 or not found:
        found.insert(chance.randint(0, len(found)), chance.choice(ROOTS))
    elif how == 1:
        found.pop(chance.randrange(len(found)))
    elif how == 2:
        at = chance.randrange(len(found))
        found[at] = bytes([*found[at][:5], found[at][5] ^ 1 << chance.randrange(8), *found[at][6:]])
    else:
        at = chance.randrange(len(found))
        found[at] = found[at][: chance.randrange(32)]
    return found


def _included(chance: random.Random, index: int, size: int, proof: list[bytes]) -> bool:
    leaf = leaf_hash(ENTRIES[index])
    if chance.random() < 0.3:
        leaf = leaf_hash(ENTRIES[index] + b"!")
    else:
        proof = _edited(chance, proof)
    try:
        return root_by_inclusion(leaf, index, size, proof) == ROOTS[size]
    except ProofError:
        return False


def test_an_entry_cannot_pass_for_two_hashes():
    """Leaves and nodes are hashed apart: what stands under a node is not an entry."""
    left, right = leaf_hash(b"a"), leaf_hash(b"b")
    assert leaf_hash(left + right) != root_of(nodes_of([left, right]), 2)


@pytest.mark.parametrize(
    ("number", "width", "text"),
    [
        (0, 256, "000"),
        (999, 256, "999"),
        (1000, 256, "x001/000"),
        (1234067, 256, "x001/x234/067"),
        (0, 1, "000.p/1"),
        (1234, 255, "x001/234.p/255"),
    ],
)
def test_addresses_of_tiles(number, width, text):
    assert tile_path(number, width) == text
    assert read_tile_path(text) == (number, width)


NO_TILES = ["0", "00", "0000", "x000", "x000/001", "001/000", "000/.p/3", "-01", "٠٠٠", "x001/x234/067/", "../../etc"]
NO_WIDTHS = [f"000.p/{width}" for width in ("0", "256", "01", "", "1.p/1", "-1")]


@pytest.mark.parametrize("text", ["", *NO_TILES, *NO_WIDTHS, "/".join(["x001"] * 7)])
def test_what_is_no_address_of_a_tile(text):
    with pytest.raises(ValueError, match="no tile"):
        read_tile_path(text)


def test_widths_are_those_of_the_specification():
    """A tree of 70,000 has 273 full tiles, one of 112, one full above, one of 17, and one of 1 on top."""
    widths = [[tile_width(70_000, level, number) for number in range(275)] for level in range(4)]
    assert widths[0] == [TILE] * 273 + [112, 0]
    assert widths[1][:3] == [TILE, 17, 0]
    assert widths[2][:2] == [1, 0]
    assert widths[3][0] == 0
