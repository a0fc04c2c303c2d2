"""What a run puts by is kept whole, for its owner alone, wherever it lay meanwhile; and nothing is left beside it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO

import pytest

from sfumato.guarantee import person_hash as spool_module
from sfumato.guarantee.person_hash import Spool


def refuse(*_: object, **__: object) -> None:
    raise OSError("no such thing here")


def tempfile_in(folder: Path) -> IO[bytes]:
    return tempfile.TemporaryFile(dir=folder)


@pytest.mark.parametrize("where", ["memory", "disk", "disk without names to give", "disk without unnamed files"])
def test_what_was_put_by_is_kept_whole(tmp_path, monkeypatch, where):
    if where != "memory":
        monkeypatch.setattr(spool_module, "SPOOL_BYTES", 100)
    if where == "disk without names to give":
        monkeypatch.setattr(spool_module, "_link", refuse)
    if where == "disk without unnamed files":
        monkeypatch.setattr(spool_module, "_unnamed", tempfile_in)
    pieces = [bytes([number]) * 60 for number in range(5)]
    spool = Spool(tmp_path)
    for piece in pieces:
        spool.write(piece)
    assert list(tmp_path.iterdir()) == []
    assert spool.from_start().read() == b"".join(pieces)
    spool.save(tmp_path / "kept")
    (kept,) = tmp_path.iterdir()
    assert kept.read_bytes() == b"".join(pieces)
    assert kept.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are given one on Linux only")
def test_a_file_without_a_name_is_not_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(spool_module, "SPOOL_BYTES", 100)
    monkeypatch.setattr(spool_module, "new_file", refuse)
    spool = Spool(tmp_path)
    spool.write(bytes(200))
    spool.save(tmp_path / "kept")
    assert (tmp_path / "kept").read_bytes() == bytes(200)
