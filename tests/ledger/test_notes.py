"""Signed notes against those of another program, and against whoever edits them."""

from __future__ import annotations

import base64
import random

import pytest

from sfumato.core.errors import CardError
from sfumato.ledger.notes import (
    COSIGNATURE,
    EMPTY,
    Checkpoint,
    LogProof,
    NoteError,
    NoteKey,
    NoteSigner,
    ProofError,
    inclusion,
    kept_signer,
    leaf_hash,
    nodes_of,
    opened,
    root_of,
    split_note,
    time_signed,
)

# From the documentation of Go's golang.org/x/mod/sumdb/note: keys and a note that two of them signed.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETERS_SECRET = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
ENOCH = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"
TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
PETERS_LINE = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
ENOCHS_LINE = (
    "— EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n"
)
ENTRIES = [b"one", b"two", b"three", b"four", b"five"]
NODES = nodes_of([leaf_hash(one) for one in ENTRIES])


@pytest.fixture(scope="module")
def signer():
    return NoteSigner.new("study.example/log")


def note_of(signer, size=5):
    return Checkpoint(signer.key.name, size, root_of(NODES, size)).signed_by(signer)


def test_a_note_of_another_program():
    note = f"{TEXT}\n{PETERS_LINE}{ENOCHS_LINE}"
    assert NoteSigner.read(PETERS_SECRET).line(TEXT) == PETERS_LINE
    assert NoteSigner.read(PETERS_SECRET).key == NoteKey.read(PETER)
    assert time_signed(note, NoteKey.read(PETER)) == time_signed(note, NoteKey.read(ENOCH)) == 0
    assert time_signed(f"{TEXT}\n{PETERS_LINE}", NoteKey.read(ENOCH)) is None
    with pytest.raises(NoteError, match="changed"):
        time_signed(note.replace("answer", "Answer"), NoteKey.read(PETER))


def test_keys_come_back(signer):
    assert NoteKey.read(signer.key.text) == signer.key
    assert NoteSigner.read(signer.text).key == signer.key
    assert signer.text not in repr(signer)


NO_KEYS = [PETER.replace("c7", "c8"), PETER.replace("P", "Q", 1), PETER + "+", PETER[:-1], "+" + PETER]


@pytest.mark.parametrize("text", ["", "a", "a+b", "a+00000000+AQ==", PETER.replace("rN", "r N"), *NO_KEYS])
def test_what_is_no_key(text):
    with pytest.raises(NoteError):
        NoteKey.read(text)


def test_a_checkpoint_comes_back(signer):
    found = opened(note_of(signer), signer.key)
    assert found == Checkpoint("study.example/log", 5, root_of(NODES, 5))
    assert Checkpoint.read(Checkpoint("a", 0, EMPTY).text) == Checkpoint("a", 0, EMPTY)
    assert Checkpoint.read(found.text + "an extension\n") == found


def test_a_checkpoint_is_believed_by_its_own_key_only(signer):
    other = NoteSigner.new("study.example/log")
    with pytest.raises(NoteError, match="not signed by"):
        opened(note_of(other), signer.key)
    with pytest.raises(NoteError, match="is of the log"):
        opened(note_of(NoteSigner.new("elsewhere/log")), signer.key)
    witness = NoteSigner.new("study.example/log", COSIGNATURE)
    text = Checkpoint("study.example/log", 5, root_of(NODES, 5)).text
    with pytest.raises(NoteError, match="not signed by"):
        opened(f"{text}\n{witness.line(text, 7)}", witness.key)


def test_a_witness_signs_the_time(signer):
    witness, note = NoteSigner.new("witness.example/w", COSIGNATURE), note_of(signer)
    text, lines = split_note(note)
    cosigned = note + witness.line(text, 1_700_000_000)
    assert time_signed(cosigned, witness.key) == 1_700_000_000
    assert opened(cosigned, signer.key).size == 5
    assert time_signed(note, witness.key) is None
    packed = base64.b64decode(witness.line(text, 1_700_000_000).split()[-1])
    later = packed[:4] + (1_700_000_001).to_bytes(8, "big") + packed[12:]
    with pytest.raises(NoteError, match="does not fit"):
        time_signed(f"{note}— witness.example/w {base64.b64encode(later).decode()}\n", witness.key)
    assert len(lines) == 1


def test_a_proof_comes_back_and_holds(signer):
    for index, entry in enumerate(ENTRIES):
        proof = LogProof(index, tuple(inclusion(NODES, index, 5)), note_of(signer))
        assert LogProof.read(proof.text) == proof
        assert proof.check(leaf_hash(entry), signer.key).size == 5
        with pytest.raises(NoteError, match="not in the log"):
            proof.check(leaf_hash(entry + b"!"), signer.key)
    first, rest = proof.text.split("\n", 1)
    assert LogProof.read(f"{first}\nextra AAAA\n{rest}") == proof


def test_no_edited_proof_is_believed(signer):
    """A thousand edits of the text of a receipt: refused, or it says the same under the same signature."""
    proof = LogProof(3, tuple(inclusion(NODES, 3, 5)), note_of(signer)).text
    assert believed_after_edits(random.Random(1), proof, 1000, signer) == []


def believed_after_edits(chance, proof, times, signer):
    """Edited texts that are believed though they say something else than the original."""
    wrong = []
    for _ in range(times):
        text = edited(chance, proof)
        try:
            found = LogProof.read(text)
            found.check(leaf_hash(ENTRIES[3]), signer.key)
        except (NoteError, ProofError):
            continue
        known = LogProof.read(proof)
        if (found.index, found.path) != (known.index, known.path) or split_note(found.note)[0] != split_note(
            known.note
        )[0]:
            wrong.append(text)
    return wrong


def edited(chance, text):
    at, how = chance.randrange(len(text)), chance.randrange(4)
    if how == 0:
        return text[:at] + text[at + chance.randint(1, 9) :]
    if how == 1:
        return text[:at] + chance.choice("0189aAzZ+/=\n —index") + text[at:]
    if how == 2:
        return text[:at] + chance.choice("0189aAzZ+/=\n —") + text[at + 1 :]
    other = chance.randrange(len(text))
    return text[: min(at, other)] + text[max(at, other) :] + text[min(at, other) : max(at, other)]


@pytest.mark.parametrize("text", ["", "\n", "a\n", "a\n\n", "a\n\nb\n", "a\n\n— b\n", "a\x00\n\n— b AAAAAAA=\n"])
def test_what_is_no_note(text):
    with pytest.raises(NoteError):
        time_signed(text, NoteKey.read(PETER))


@pytest.mark.parametrize("size", ["05", "-1", "", "5 ", "٥", "1e3", "9" * 20])
def test_what_is_no_size(size):
    with pytest.raises(NoteError):
        Checkpoint.read(f"a\n{size}\n{base64.b64encode(EMPTY).decode()}\n")


def test_the_key_is_private_and_made_once(tmp_path):
    path = tmp_path / "log.key"
    made = kept_signer(path, "a/log")
    assert path.stat().st_mode & 0o777 == 0o600
    assert kept_signer(path, "another name", known=True).key == made.key
    path.write_text("PRIVATE+KEY+a/log+00000000+AAAA\n")
    with pytest.raises(CardError, match="cannot be read"):
        kept_signer(path, "a/log")
    path.unlink()
    with pytest.raises(CardError, match="missing, and its log has entries"):
        kept_signer(path, "a/log", known=True)
