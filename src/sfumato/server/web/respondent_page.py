"""The respondent's page as a folder of files, and the hash by which anybody recognises the published one."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

HASHES = "page_hashes.json"


def page_folder() -> Traversable:
    return files("sfumato.server.web").joinpath("survey")


def page_files() -> dict[str, bytes]:
    """Name -> content, in the order of names."""
    return {item.name: item.read_bytes() for item in sorted(page_folder().iterdir(), key=lambda item: item.name)}


def page_hash(found: dict[str, bytes]) -> str:
    """What `LC_ALL=C sha256sum * | sha256sum` says in the folder."""
    lines = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(found.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def published_hashes() -> dict[str, Any]:
    """`released`: version -> hash of its page; `current`: of the files that this package was built from."""
    read: dict[str, Any] = json.loads(files("sfumato.server.web").joinpath(HASHES).read_text(encoding="utf-8"))
    return read


def write_page(folder: Path) -> None:
    """Copy the page into an existing folder: plain files, to be served by anybody from anywhere."""
    for name, content in page_files().items():
        (folder / name).write_bytes(content)
