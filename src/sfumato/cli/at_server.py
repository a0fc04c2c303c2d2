"""How commands are told which server of this machine they work on: one block of options."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.blocks import OptionBlock
from sfumato.errors import UsageError


def server_part(name: str) -> Any:
    """A module of the server, or a word about what to install."""
    try:
        return importlib.import_module(f"sfumato.server.{name}")
    except ImportError as error:
        raise UsageError(
            f"The server needs {error.name}, which is not installed: pip install 'sfumato[server]'."
        ) from None


@dataclass(frozen=True)
class AtServer(OptionBlock):
    """Commands that work on this machine's server itself."""

    data: Annotated[Path, typer.Option(metavar="DIR", help="The server's data folder.")]
    database: Annotated[
        str | None,
        typer.Option(metavar="URL", help="PostgreSQL URL; otherwise SQLite in --data (or SFUMATO_DATABASE)."),
    ] = None

    def settings(self) -> Any:
        """The server's settings; the folder is made."""
        found = server_part("settings").Settings.from_environment(data=self.data, database=self.database)
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        return found

    def store(self) -> Any:
        """The server's store, to be closed."""
        return server_part("store").Store.open(self.settings())
