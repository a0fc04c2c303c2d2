"""Signatures that other tools check too; a key that is made once; keys that replace and revoke each other."""

import json
import random
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.core.errors import CardError
from sfumato.guarantee.signer import (
    NAMESPACE,
    Signer,
    Stated,
    checked,
    follows,
    revoked,
    stated_in,
    statements_text,
)

MESSAGE = b'{\n "format": "sfumato-card"\n}'
needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")


@pytest.fixture
def signer(tmp_path):
    return Signer.at(tmp_path / "ledger.json.signer")


def ssh_checks(folder: Path, line: str, message: bytes, signature: str, namespace: str = "sfumato") -> bool:
    (folder / "allowed").write_text(f"owner@example.org {line}\n")
    (folder / "sig").write_text(signature)
    asked = ["ssh-keygen", "-Y", "verify", "-f", folder / "allowed", "-I", "owner@example.org", "-n", namespace]
    return subprocess.run([*asked, "-s", folder / "sig"], input=message, capture_output=True).returncode == 0


@needs_ssh
def test_ssh_keygen_checks_what_is_signed_here(signer, tmp_path):
    made = signer.sign(MESSAGE)
    assert ssh_checks(tmp_path, signer.public.in_ssh(), MESSAGE, made)
    assert not ssh_checks(tmp_path, signer.public.in_ssh(), MESSAGE + b" ", made)
    assert not ssh_checks(tmp_path, signer.public.in_ssh(), MESSAGE, made, "file")


def made_by_ssh(folder: Path, kind: str, namespace: str) -> tuple[str, str]:
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "", "-f", folder / "key"], check=True)
    (folder / "message").write_bytes(MESSAGE)
    asked = ["ssh-keygen", "-Y", "sign", "-q", "-f", folder / "key", "-n", namespace, folder / "message"]
    subprocess.run(asked, check=True, capture_output=True)
    return (folder / "key.pub").read_text().strip(), (folder / "message.sig").read_text()


@needs_ssh
def test_what_ssh_keygen_signs_is_checked_here(tmp_path):
    line, made = made_by_ssh(tmp_path, "ed25519", "sfumato")
    assert checked(made, MESSAGE).in_ssh() == line


@needs_ssh
@pytest.mark.parametrize(("kind", "namespace"), [("ecdsa", "sfumato"), ("rsa", "sfumato"), ("ed25519", "file")])
def test_another_kind_of_key_and_another_purpose_are_refused(tmp_path, kind, namespace):
    _, made = made_by_ssh(tmp_path, kind, namespace)
    with pytest.raises(CardError, match="another purpose" if namespace == "file" else "cannot be read"):
        checked(made, MESSAGE)


def test_a_signature_names_its_signer(signer):
    assert checked(signer.sign(MESSAGE), MESSAGE) == signer.public
    assert checked(signer.sign(MESSAGE).encode(), MESSAGE).fingerprint == signer.fingerprint


def test_another_message_and_another_purpose_are_refused(signer):
    with pytest.raises(CardError, match="does not fit"):
        checked(signer.sign(MESSAGE), MESSAGE[:-1])
    with pytest.raises(CardError, match="another purpose"):
        checked(signer.sign(MESSAGE, "sfumato-signer"), MESSAGE, NAMESPACE)


@pytest.mark.parametrize("text", ["", "x", "é", "-----BEGIN SSH SIGNATURE-----\n", "A" * 5000, "\x00" * 300])
def test_what_is_no_signature_is_refused(text):
    for given in (text, text.encode()):
        with pytest.raises(CardError, match="cannot be read"):
            checked(given, MESSAGE)


def edits(text: str, times: int, rng: random.Random):
    """Random edits: a character changed, lost, doubled, two exchanged, a piece cut off at either end."""
    for _ in range(times):
        at, other = rng.randrange(len(text)), rng.randrange(len(text))
        first, last = sorted((at, other))
        yield rng.choice(
            [
                text[:at] + chr(rng.randrange(9, 127)) + text[at + 1 :],
                text[:at] + text[at + 1 :],
                text[:at] + text[at] + text[at:],
                text[:first]
                + text[last : last + 1]
                + text[first + 1 : last]
                + text[first : first + 1]
                + text[last + 1 :],
                text[:at],
                text[at:],
                text[:at] + "\n" + text[at:],
            ]
        )


def test_every_edit_of_a_signature_is_refused(signer):
    made = signer.sign(MESSAGE)
    for edited in edits(made, 100, random.Random(1)):
        if edited != made:
            with pytest.raises(CardError):
                checked(edited, MESSAGE)


def test_the_key_is_private_stays_what_it_is_and_is_shown_nowhere(signer):
    assert stat.S_IMODE(signer.path.stat().st_mode) == 0o600
    again = Signer.at(signer.path)
    assert again == signer
    assert signer.secret.hex() not in repr(signer) + signer.sign(MESSAGE)


MAKE = """
import sys
from pathlib import Path
from sfumato.guarantee.signer import Signer
print("ready", flush=True)
sys.stdin.read()  # until all are ready
print(Signer.at(Path(sys.argv[1])).fingerprint)
"""


def test_of_many_processes_at_once_one_makes_the_key(tmp_path):
    command = [sys.executable, "-c", MAKE, str(tmp_path / "new" / "k")]
    made = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    for one in made:
        assert one.stdout.readline() == "ready\n"
    for one in made:
        one.stdin.close()
    found = [one.stdout.read() for one in made]
    assert [one.wait() for one in made] == [0] * 8
    assert len(set(found)) == 1
    assert len(found[0]) > 20


def test_asking_for_a_key_makes_none(tmp_path):
    assert Signer.known(tmp_path / "none" / "k") is None
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_others_could_read_or_exchange_is_refused(signer, tmp_path):
    signer.path.chmod(0o644)
    with pytest.raises(CardError, match="can be read by others"):
        Signer.at(signer.path)
    signer.path.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(signer.path)
    with pytest.raises(CardError, match="is a link"):
        Signer.at(link)
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "nowhere")
    with pytest.raises(CardError, match="is a link"):
        Signer.at(dangling)


def test_a_key_that_was_cut_short_is_refused_and_never_replaced(signer):
    whole = signer.path.read_text()
    for text in ("", whole[: len(whole) // 2], whole.replace(signer.secret.hex(), "00" * 32), "[]"):
        signer.path.write_text(text)
        with pytest.raises(CardError, match="damaged or cut short"):
            Signer.at(signer.path)
        assert signer.path.read_text() == text


def test_a_reader_follows_from_key_to_key_and_not_back(signer):
    second = signer.rotated()
    third = second.rotated()
    assert Signer.at(signer.path) == third
    assert len({signer.fingerprint, second.fingerprint, third.fingerprint}) == 3
    assert follows(third.fingerprint, signer.fingerprint, third.stated)
    assert follows(third.fingerprint, second.fingerprint, third.stated)
    assert not follows(signer.fingerprint, third.fingerprint, third.stated)
    assert not follows(third.fingerprint, signer.fingerprint, third.stated[1:])
    assert signer.secret.hex() not in signer.path.read_text()


def test_a_key_that_was_revoked_leads_nowhere(signer):
    second = signer.rotated()
    said = second.revocation(signer.fingerprint)
    third = second.without(said)
    assert third.fingerprint == second.fingerprint
    assert revoked(signer.fingerprint, third.stated)
    assert not revoked(second.fingerprint, third.stated)
    assert not follows(second.fingerprint, signer.fingerprint, third.stated)
    assert follows(second.fingerprint, second.fingerprint, third.stated)


def test_revoking_the_present_key_begins_another(signer):
    said = signer.revocation(signer.fingerprint)
    new = signer.without(said)
    assert new.fingerprint != signer.fingerprint
    assert revoked(signer.fingerprint, new.stated)
    assert not follows(new.fingerprint, signer.fingerprint, new.stated)
    with pytest.raises(CardError, match="was ever in"):
        new.revocation("-".join(["abbot"] * 16))


def test_a_statement_counts_only_from_the_key_it_is_about(signer, tmp_path):
    other = Signer.at(tmp_path / "other")
    said = signer.revocation(signer.fingerprint)
    forged = Stated(text=said.text, signature=other.sign(said.text.encode(), "sfumato-signer"))
    with pytest.raises(CardError, match="by another key"):
        forged.read()
    elsewhere = Stated(text=said.text, signature=signer.sign(said.text.encode()))
    with pytest.raises(CardError, match="another purpose"):
        elsewhere.read()


def test_statements_travel_in_a_file_and_edits_of_it_are_refused(signer, tmp_path):
    new = signer.rotated()
    file = tmp_path / "signer.json"
    file.write_text(statements_text(new.stated))
    assert stated_in(file) == list(new.stated)
    data = json.loads(file.read_text())
    data["statements"][0]["text"] = data["statements"][0]["text"].replace("rotation", "revocation")
    for text in (json.dumps(data), "{}", "", "[1]", '{"statements": [1]}', '{"statements": [{"text": "x"}]}'):
        file.write_text(text)
        with pytest.raises(CardError):
            stated_in(file)
