"""The public log of a coordinator for its readers: a copy that is kept and continued, and a witness's word on it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from sfumato.core.errors import CardError, UsageError
from sfumato.ledger.notes import COSIGNATURE, NoteKey, kept_signer, signatures, split_note
from sfumato.ledger.public_log import CHECKPOINT, KEY, LOG, LogCopy
from sfumato.study.client.connection import Address, Connection, Speaker, body_of

LARGEST_PART = 8 << 20


class LogReader(Speaker):
    """Reads the log of the coordinator at `url`; nothing is sent that tells who asks."""

    def __init__(self, url: str, *, insecure_http: bool = False, transport: Any = None) -> None:
        base, mark, pinned = url.partition("#")
        address = Address.read(base.rstrip("/").removesuffix(LOG) + mark + pinned, insecure_http=insecure_http)
        self._connection = Connection(address, None, transport=transport)

    def _part(self, path: str) -> bytes:
        with self._connection.answer("GET", f"{LOG}/{path}") as response:
            return body_of(response, LARGEST_PART)

    def copy(self, key: NoteKey | None = None, known: LogCopy | None = None) -> LogCopy:
        """The log as it is now; `key` is what it must be signed by, without one the key that it shows."""
        pinned = key or (known.key if known else None)
        try:
            shown = NoteKey.read(self._part(KEY).decode(errors="replace"))
        except ValueError as error:
            raise CardError(f"The coordinator shows no key of a log: {error}") from None
        if pinned is not None and shown != pinned:
            raise CardError(
                f"The log is signed by another key than the one that you expect: {shown.text}. Do not rely on it, and "
                "ask the coordinator why."
            )
        return LogCopy.read(self._part, shown, known)

    def cosign(self, note: str) -> None:
        """Send a checkpoint with a witness's signature."""
        self._connection.ask("POST", f"{LOG}/cosignatures", json={"note": note}, once=True)


def read_key(text: str | None) -> NoteKey | None:
    """A key of a log as it was typed."""
    if text is None:
        return None
    try:
        return NoteKey.read(text)
    except ValueError as error:
        raise UsageError(f"The key of the log cannot be read. {error}") from None


def follow(url: str, folder: Path, *, key: str | None = None, insecure_http: bool = False) -> LogCopy:
    """Bring the copy in a folder up to date, once all of it was checked; a log that does not continue it is refused."""
    known = LogCopy.load(folder) if (folder / CHECKPOINT).exists() else None
    with LogReader(url, insecure_http=insecure_http) as reader:
        found = reader.copy(read_key(key), known)
    found.save(folder)
    return found


def open_log(where: str | Path, key: str | None = None, *, insecure_http: bool = False) -> LogCopy:
    """A log as it is now, or the copy in a folder as it was followed."""
    if str(where).startswith(("https://", "http://")):
        with LogReader(str(where), insecure_http=insecure_http) as reader:
            return reader.copy(read_key(key))
    if not Path(where).is_dir():
        raise UsageError(f"There is no folder {where}. Give a copy that `sfumato study log` keeps, or an address.")
    found, pinned = LogCopy.load(Path(where)), read_key(key)
    if pinned not in (None, found.key):
        raise CardError(f"The copy in {where} is of a log with another key: {found.key.text}.")
    return found


def witness(url: str, found: LogCopy, secret: Path, *, insecure_http: bool = False) -> NoteKey:
    """Sign the checkpoint of a copy that was followed, as a witness with the key in a file, and send the signature."""
    signer = kept_signer(secret, secret.stem, COSIGNATURE)
    if signer.key.kind != COSIGNATURE:
        raise UsageError(f"{secret} is the key of a log, and not of a witness. Name another file.")
    text, lines = split_note(found.note)
    own = [
        line for line, (name, key, _) in zip(lines, signatures(lines), strict=True) if (name, key) == found.key.named
    ]
    with LogReader(url, insecure_http=insecure_http) as reader:
        reader.cosign("\n".join([text, *own, signer.line(text, int(time.time()))]))
    return signer.key
