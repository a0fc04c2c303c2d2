"""The respondent's page as files that the server sends, with the policy that a browser holds it to."""

from __future__ import annotations

import hashlib
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

HASHES = "page_hashes.json"


def page_files() -> dict[str, bytes]:
    """Name -> content, in the order of names."""
    folder = files("sfumato.study.server.web").joinpath("survey")
    return {item.name: item.read_bytes() for item in sorted(folder.iterdir(), key=lambda item: item.name)}


def page_hash(found: dict[str, bytes]) -> str:
    """By which anybody recognises the published one: `LC_ALL=C sha256sum * | sha256sum` says it in the folder."""
    lines = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(found.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def published_hashes() -> dict[str, Any]:
    """`released`: version -> hash of its page; `current`: of the files that this package was built from."""
    read: dict[str, Any] = json.loads(files("sfumato.study.server.web").joinpath(HASHES).read_text(encoding="utf-8"))
    return read


def write_page(folder: Path) -> None:
    """Copy the page into an existing folder: plain files, to be served by anybody from anywhere."""
    for name, content in page_files().items():
        (folder / name).write_bytes(content)


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' https:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""Witnesses are asked over https; nothing else leaves."""


class RespondentFiles(StaticFiles):
    """The static folder that a respondent's browser runs."""

    def __init__(self) -> None:
        super().__init__(directory=str(files("sfumato.study.server.web").joinpath("survey")), html=True)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["Cache-Control"] = "no-cache"  # asked for again, so that a mended page reaches everybody
        return response
