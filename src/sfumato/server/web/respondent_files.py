"""The respondent's page as files that the server sends, with the policy that a browser holds it to."""

from __future__ import annotations

from importlib.resources import files

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' https:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
"""Witnesses are asked over https; nothing else leaves."""


class RespondentFiles(StaticFiles):
    """The static folder that a respondent's browser runs."""

    def __init__(self) -> None:
        super().__init__(directory=str(files("sfumato.server.web").joinpath("survey")), html=True)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Content-Security-Policy"] = POLICY
        response.headers["Cache-Control"] = "no-cache"  # asked for again, so that a mended page reaches everybody
        return response
