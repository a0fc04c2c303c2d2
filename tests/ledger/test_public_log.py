"""A copy of a log: what does not lead to the signed root is refused, and so is a log that does not continue."""

from __future__ import annotations

import random

import pytest

from sfumato.core.errors import CardError
from sfumato.ledger.notes import (
    COSIGNATURE,
    TILE,
    Checkpoint,
    NoteSigner,
    leaf_hash,
    nodes_of,
    root_of,
    split_note,
    tile_path,
)
from sfumato.ledger.public_log import LogCopy, entry_of, packed, unpacked

SIGNER = NoteSigner.new("study.example/log")
ENTRIES = [entry_of("receipt", {"sha256": f"{number:064x}"}) for number in range(TILE * 2 + 30)]


def shown(entries, signer=SIGNER):
    """A log at an address, as what stands at every path below it."""
    root = root_of(nodes_of([leaf_hash(one) for one in entries]), len(entries))
    files = {"checkpoint": Checkpoint(signer.key.name, len(entries), root).signed_by(signer).encode()}
    for start in range(0, len(entries), TILE):
        some = entries[start : start + TILE]
        files[f"tile/entries/{tile_path(start // TILE, len(some))}"] = packed(some)
    return files


def copy(entries, known=None, **changed):
    files = {**shown(entries), **changed}
    return LogCopy.read(files.__getitem__, SIGNER.key, known)


@pytest.mark.parametrize("size", [0, 1, 2, 255, 256, 257, 512, 542])
def test_a_copy_is_the_log(size):
    found = copy(ENTRIES[:size])
    assert list(found.entries) == ENTRIES[:size]
    assert found.checkpoint.size == size
    assert [number for number, _ in found.told("receipt")] == list(range(size))
    assert found.told("commitment") == []


@pytest.mark.parametrize("before", [0, 1, 255, 256, 300, 542])
def test_a_copy_is_continued(before):
    known, read = copy(ENTRIES[:before]), []
    files = shown(ENTRIES)

    def fetch(path):
        read.append(path)
        return files[path]

    assert list(LogCopy.read(fetch, SIGNER.key, known).entries) == ENTRIES
    assert len(read) == 1 + 3 - before // TILE


def test_a_log_that_was_rewritten_does_not_continue():
    known = copy(ENTRIES[:300])
    with pytest.raises(CardError, match="does not continue the copy of 300"):
        copy([*ENTRIES[:299], b"{}", *ENTRIES[300:]], known)
    with pytest.raises(CardError, match="shorter"):
        copy(ENTRIES[:299], known)
    with pytest.raises(CardError, match="do not lead"):
        copy([b"{}", *ENTRIES[1:]], known)  # in a part that is not read again


def test_entries_that_were_changed_are_refused():
    last = f"tile/entries/{tile_path(2, 30)}"
    with pytest.raises(CardError, match="do not lead to the root"):
        copy(ENTRIES, **{last: packed([*ENTRIES[512:-1], b"{}"])})
    with pytest.raises(CardError, match="cut short"):
        copy(ENTRIES, **{last: packed(ENTRIES[512:-1])})
    with pytest.raises(CardError, match="cut short"):
        copy(ENTRIES, **{last: packed(ENTRIES[512:])[:-1]})
    with pytest.raises(CardError, match="cannot be believed"):
        copy(ENTRIES, checkpoint=shown(ENTRIES, NoteSigner.new(SIGNER.key.name))["checkpoint"])
    with pytest.raises(CardError, match="cannot be believed"):
        copy(ENTRIES, checkpoint=b"\xff")


def test_no_edited_log_is_believed():
    """A hundred edits of checkpoint and entries; tests/system has 2,000."""
    assert believed_after_edits(random.Random(2), 100) == 0


def believed_after_edits(chance, times):
    """How many of so many edited logs say something else than the original and are believed."""
    entries, wrong = ENTRIES[:7], 0
    files = shown(entries)
    for _ in range(times):
        path = chance.choice(sorted(files))
        text = bytearray(files[path])
        how, at = chance.randrange(3), chance.randrange(len(text))
        if how == 0:
            text[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            del text[at : at + chance.randint(1, 40)]
        else:
            text[at:at] = chance.randbytes(chance.randint(1, 40))
        try:
            found = LogCopy.read({**files, path: bytes(text)}.__getitem__, SIGNER.key)
        except CardError:
            continue
        except KeyError:  # another size is stated, whose parts are not there
            continue
        wrong += list(found.entries) != entries or found.checkpoint.size != 7
    return wrong


def test_a_copy_in_a_folder(tmp_path):
    first = copy(ENTRIES[:300])
    first.save(tmp_path / "log")
    assert LogCopy.load(tmp_path / "log") == first
    later = copy(ENTRIES, first)
    later.save(tmp_path / "log")
    assert LogCopy.load(tmp_path / "log") == later
    (tmp_path / "log" / "tile" / "entries" / "000").write_bytes(packed(ENTRIES[1:257]))
    with pytest.raises(CardError, match="do not lead"):
        LogCopy.load(tmp_path / "log")
    with pytest.raises(CardError, match="no copy of a log"):
        LogCopy.load(tmp_path / "none")


def test_witnesses_of_a_copy():
    witness, other = (NoteSigner.new(f"{name}.example", COSIGNATURE) for name in ("one", "other"))
    note = shown(ENTRIES[:3])["checkpoint"].decode()
    signed = note + witness.line(split_note(note)[0], 1_700_000_000)
    found = copy(ENTRIES[:3], checkpoint=signed.encode())
    assert found.witnessed([witness.key, other.key]) == {"one.example": 1_700_000_000}


def test_entries_and_bundles():
    assert entry_of("a", {"z": 1, "b": "ü"}) == '{"b":"ü","kind":"a","z":1}'.encode()
    assert unpacked(packed([b"", b"abc"]), 2) == [b"", b"abc"]
    odd = [b"[]", b"\xff", b'{"kind":"x"}', b"[" * 5000]
    assert copy(odd).told("x") == [(2, {"kind": "x"})]
