"""Fingerprints as words, and public keys as OpenSSH writes them."""

import base64
import hashlib
import os

import pytest

from sfumato.core.errors import UsageError
from sfumato.guarantee.signer import WORDS, PublicKey, Signer, from_words, in_words


def test_a_byte_is_one_word_and_a_word_is_known_by_its_first_four_letters():
    assert len(set(WORDS)) == 256
    assert len({word[:4] for word in WORDS}) == 256
    assert list(WORDS) == sorted(WORDS)
    assert all(word.isascii() and word.isalpha() and word.islower() and 4 <= len(word) <= 8 for word in WORDS)


def test_words_come_back_however_they_were_typed():
    spelt = in_words(os.urandom(16))
    for typed in (spelt, spelt.upper(), spelt.replace("-", " "), spelt.replace("-", ",  "), f" {spelt}\n"):
        assert from_words(typed) == spelt


@pytest.mark.parametrize(
    "typed", ["", "abbot", "-".join(["abbot"] * 15), "-".join(["abbot"] * 17), "abbot " * 15 + "x"]
)
def test_what_is_no_fingerprint_is_refused(typed):
    with pytest.raises(UsageError, match="16 words"):
        from_words(typed)


def test_the_fingerprint_is_the_first_half_of_the_one_of_ssh(tmp_path):
    key = Signer.at(tmp_path / "k").public
    blob = base64.b64decode(key.in_ssh().split()[1])
    assert key.fingerprint == in_words(hashlib.sha256(blob).digest()[:16])
    assert PublicKey.of_ssh(key.in_ssh()) == key


def test_a_line_that_is_no_key_of_ours_is_refused(tmp_path):
    line = Signer.at(tmp_path / "k").public.in_ssh()
    others = (line[:-4], line + "AAAA", line.replace("ed25519", "rsa", 1), f"{line} me@host", f" {line}", "")
    for other in others:
        with pytest.raises(ValueError, match=r"\w"):
            PublicKey.of_ssh(other)
