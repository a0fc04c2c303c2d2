"""Sealed files: the vectors that age publishes, our own files, and what was changed."""

from __future__ import annotations

import base64
import hashlib
import random

import pytest

from sfumato.core.errors import CardError, UsageError
from sfumato.release.auditable import Identity, load_identity, load_recipient, recipient, seal, unsealed

PIECE = 1 << 16
# From age's own testkit (C2SP CCTV): x25519, and armor_full_last_line; the armour is base64 of the file.
TESTKIT_KEY = "AGE-SECRET-KEY-1XMWWC06LY3EE5RYTXM9MFLAZ2U56JJJ36S0MYPDRWSVLUL66MV4QX3S7F6"
HEADER = (
    "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBURWlGMHlwcXIrYnB2Y3FY"
    "TnlDVkpwTDdPdXdQZFZ3UEw3S1FFYkZET0NjCkVtRUNBRWNLTituL1ZzOVNiV2lW"
    "K0h1MHIrRThSNzdEZFdZeWQ4M253N1UKLS0tIFZuKzU0anFpaVVDRStXWmNFVlkz"
)
TESTKIT = {
    "013f54400c82da08037759ada907a8b864e97de81c088a182062c4b5622fd2ab": "ZjFzcUhqbHUvejFMQ1EvVDdYbTdxSTAK7s9ix86RtDMn"
    "TmjU8vkTTLdMW/73vqpSyPC8DpksHoMx+2Y=",
    "724a112a2cac139a4fca3ea0f799f2e5ccd1d0db46af654dee40567bff16ee33": "ZjFzcUhqbHUvejFMQ1EvVDdYbTdxSTAK7s9ix86RtDMn"
    "TmjU8vkTTLdMW3bj4iHSYS3WWUtZB5wJqKgEe8kpsp0iOnD2CNG4DVKBC0Z7SAcCFb8xdwV9CRavSEE7OU1c",
}


@pytest.fixture
def testkit(tmp_path):
    path = tmp_path / "testkit.key"
    path.write_text(f"# created: today\n{TESTKIT_KEY}\n")
    path.chmod(0o600)
    return load_identity(path)


def test_keys_are_those_of_the_specification(tmp_path):
    """C2SP age.md: the identity of 32 bytes 0x42, and its recipient."""
    path = tmp_path / "key"
    path.write_text("AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX\n")
    path.chmod(0o600)
    public = str(load_identity(path).to_public())
    assert public == "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
    assert str(recipient(public)) == public


@pytest.mark.parametrize(("digest", "rest"), TESTKIT.items())
def test_files_of_the_testkit_are_opened(testkit, digest, rest):
    assert hashlib.sha256(unsealed(base64.b64decode(HEADER + rest), testkit)).hexdigest() == digest


@pytest.mark.parametrize("size", [0, 1, 999, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE])
def test_what_is_sealed_is_opened_by_its_key_alone(size):
    identity, content = Identity.generate(), random.Random(size).randbytes(size)
    sealed = seal(content, identity.to_public())
    assert unsealed(sealed, identity) == content
    assert size < 32 or content[:32] not in sealed
    with pytest.raises(CardError, match="sealed to another"):
        unsealed(sealed, Identity.generate())


def test_no_change_of_a_sealed_file_is_believed():
    """Each byte flipped, the file cut short everywhere, something added."""
    identity = Identity.generate()
    sealed = seal(b"secret " * 9, identity.to_public())
    changed = [sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :] for at in range(len(sealed))]
    for bad in [*changed, *(sealed[:end] for end in range(len(sealed))), sealed + b"x"]:
        with pytest.raises(CardError):
            unsealed(bad, identity)


def test_a_piece_that_was_left_out_or_moved_is_found():
    identity = Identity.generate()
    sealed = seal(bytes(3 * PIECE), identity.to_public())
    start = len(sealed) - 3 * (PIECE + 16)
    head, pieces = sealed[:start], [sealed[start + n * (PIECE + 16) :][: PIECE + 16] for n in range(3)]
    for order in ([0, 2], [1, 0, 2], [0, 1], [0, 1, 2, 2]):
        with pytest.raises(CardError):
            unsealed(head + b"".join(pieces[n] for n in order), identity)


def test_a_key_with_a_wrong_letter_is_refused():
    text = str(Identity.generate().to_public())
    for at in range(4, len(text)):
        with pytest.raises(UsageError):
            recipient(text[:at] + ("q" if text[at] != "q" else "p") + text[at + 1 :])
    for bad in ("", "age1", "age1abc", text[:-1], text + "q", text.title(), "age1é"):
        with pytest.raises(UsageError):
            recipient(bad)


def test_files_of_keys_say_what_is_wrong_with_them(tmp_path):
    path, identity = tmp_path / "key", Identity.generate()
    path.write_text(str(identity))
    path.chmod(0o644)
    with pytest.raises(CardError, match="can be read by others"):
        load_identity(path)
    with pytest.raises(UsageError, match="is a secret key"):
        load_recipient(path)
    path.write_text("")
    with pytest.raises(UsageError, match="holds 0"):
        load_recipient(path)
    with pytest.raises(UsageError, match="cannot be read"):
        load_recipient(tmp_path / "absent")
    assert "SECRET" not in repr(identity)
