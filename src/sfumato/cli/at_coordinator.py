"""How commands are told which coordinator to talk to: one block of options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.blocks import OptionBlock
from sfumato.cli.console import Console

if TYPE_CHECKING:  # brings scikit-learn with it, which --help does not need
    from sfumato.client import Coordinator

To = Annotated[str, typer.Option("--to", metavar="URL", help="The coordinator's address, https://...")]
TokenFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="File with the token; otherwise the variable SFUMATO_TOKEN is read.")
]
InsecureHttp = Annotated[bool, typer.Option(help="Allow http:// to another machine, unencrypted.")]


@dataclass(frozen=True)
class AtCoordinator(OptionBlock):
    """Where the coordinator is, and who asks."""

    to: To
    token_file: TokenFile = None
    insecure_http: InsecureHttp = False

    def connected(self, console: Console) -> Coordinator:
        """The coordinator; warnings about the token's file are shown."""
        from sfumato.client import Coordinator
        from sfumato.client.address import read_token

        with console.listening():
            return Coordinator(self.to, read_token(self.token_file), insecure_http=self.insecure_http)
