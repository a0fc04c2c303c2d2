"""certificate: a release on one page to print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console, Force


@with_blocks
def certificate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a release.")],
    console: Console,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="File to write, if not in the folder.")] = None,
    force: Force = False,
) -> None:
    """Write one page to print: what was released, proved and measured, what is not protected, and hashes.

    Where an audit.json lies in the folder, its figures are shown; if that audit is private, so is the page.

    Example: sfumato certificate release
    """
    from sfumato.door.certificate import certificate as run

    written = run(folder, out=out, force=force)
    console.say(f"Wrote {written}. Open it in a browser, and print it.")
    console.result({"certificate": str(written)})
