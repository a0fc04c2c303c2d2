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
    with_audit: Annotated[bool, typer.Option(help="Show what the audit in DIR measured, too.")] = False,
    force: Force = False,
) -> None:
    """Write one page to print: what is proved, what was released, what is not protected, and hashes.

    It holds what follows from the released files and their card, and may be handed on. Figures of an audit are facts
    about private rows: with --with-audit they are shown, and if that audit is private, so is the page.

    Examples:
      sfumato certificate release
      sfumato certificate release --with-audit --out for-the-board.html
    """
    from sfumato.door.certificate import certificate as run

    written = run(folder, out=out, with_audit=with_audit, force=force)
    console.say(f"Wrote {written}. Open it in a browser, and print it.")
    console.result({"certificate": str(written)})
