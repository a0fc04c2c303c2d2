"""open: the owner's desk in a browser, on this computer only."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sfumato.api.cli.blocks import with_blocks
from sfumato.api.cli.console import Console


@with_blocks
def open_desk(
    console: Console,
    table: Annotated[Path | None, typer.Argument(metavar="[TABLE]", help="Table to begin with.")] = None,
    browser: Annotated[bool, typer.Option(help="Show the desk in a browser; without, only print its address.")] = True,
    port: Annotated[int, typer.Option(metavar="N", help="Port on this computer; 0 takes a free one.")] = 0,
) -> None:
    """Open the desk: a page on this computer alone, from a dropped table to a release and its certificate.

    Everything that it does is also a command, which it shows. It ends with Ctrl-C, with its own button, or ten minutes
    after its last page.

    Examples:
      sfumato open
      sfumato open patients.csv
      sfumato open patients.csv --no-browser --port 8765
    """
    from sfumato.api.desk.serve import open_desk as serve

    def say(line: str) -> None:
        console.say(line)
        sys.stdout.flush()

    serve(table, port=port, browser=browser, say=say)
