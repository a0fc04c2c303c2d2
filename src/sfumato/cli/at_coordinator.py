"""How commands are told which coordinator to talk to: one block of options."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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


def until_done(ask: Callable[[], list[Any]], what: str, progress: Any, pause: float = 0.5) -> list[Any]:
    """What the coordinator was asked to do, once all of it is done or has failed."""
    while True:
        found = ask()
        progress(what, round(100 * sum(one.progress for one in found)), 100 * len(found))
        if all(one.state in ("done", "failed") for one in found):
            return found
        time.sleep(pause)
