"""Files that one person alone can open, in the form of age (https://c2sp.org/age), and the files of keys for it.

A key of `age-keygen` can be used here, and a file that was made here is opened by `age --decrypt`.
"""

from __future__ import annotations

from pathlib import Path

from pyrage import DecryptError, IdentityError, RecipientError, decrypt, encrypt
from pyrage.x25519 import Identity, Recipient

from sfumato.core.errors import CardError, UsageError
from sfumato.core.files import is_private

PUBLIC, SECRET = "age1", "AGE-SECRET-KEY-1"
"""What keys begin with."""


def recipient(text: str) -> Recipient:
    """The public key age1...; else `UsageError`."""
    try:
        return Recipient.from_str(text.strip())
    except RecipientError:
        raise UsageError("That is not a public key of age (age1...): a letter is missing or wrong.") from None


def load_recipient(path: Path | str) -> Recipient:
    """From the file of a public key."""
    line = _only_line(path, "the auditor's public key (age1...)")
    if line.upper().startswith(SECRET):
        raise UsageError(f"{path} is a secret key: only its owner may have it. Ask them for the public one.")
    return recipient(line)


def load_identity(path: Path | str) -> Identity:
    """From a file that its owner alone can read, as `age-keygen` and `sfumato auditor key` write it."""
    line = _only_line(path, "the auditor's secret key (AGE-SECRET-KEY-1...)")
    if line.lower().startswith(PUBLIC):
        raise UsageError(f"{path} is a public key, which opens nothing. Give the secret one that belongs to it.")
    if not is_private(Path(path)):
        raise CardError(
            f"The secret key {path} can be read by others on this machine. Find out who could have; then make a "
            f"new one, or: chmod 600 {path}"
        )
    try:
        return Identity.from_str(line)
    except IdentityError:
        raise UsageError(f"{path} is not the secret key of an auditor: a letter is missing or wrong.") from None


def seal(content: bytes, to: Recipient) -> bytes:
    """A file with this content, which only the owner of the secret key can open."""
    return bytes(encrypt(content, [to]))


def unsealed(sealed: bytes, by: Identity) -> bytes:
    """The content of a file; `CardError` where it was sealed to another key, or is not whole."""
    try:
        return bytes(decrypt(sealed, [by]))
    except DecryptError:
        raise CardError(
            "The sealed file cannot be opened with this key: it was sealed to another one, or was changed or cut short."
        ) from None


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
