"""verify: whether a release is consistent with its card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.api.cli.blocks import with_blocks
from sfumato.api.cli.console import Console
from sfumato.core.errors import CardError, CoordinatorError, UsageError


@with_blocks
def verify(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="Folder of a release.")],
    console: Console,
    log: Annotated[
        str | None, typer.Option(metavar="WHERE", help="Add up what this public log has of the same people.")
    ] = None,
    log_key: Annotated[str | None, typer.Option(metavar="KEY", help="Key that the log must be signed by.")] = None,
) -> None:
    """Check a release that you received: guarantee, files and rows against its card.

    It needs neither the table nor a ledger nor a key, and writes nothing. Consistent means that nothing contradicts the
    card; what cannot be checked from outside is listed.

    Exit codes: 0 consistent, 6 not consistent, 2 no such release or a wrong option.

    Examples:
      sfumato verify release
      sfumato verify release --json
      sfumato verify release --log https://study.example
    """
    from sfumato.api.verify import verify as run

    try:
        found = run(release, log=log, log_key=log_key)
    except (UsageError, CoordinatorError) as error:
        console.result(
            {"release": str(release), "ok": False, "signed_by": None, "cannot_check": [], "error": str(error)}
        )
        raise
    console.recite(found.in_words())
    console.result(found.to_dict())
    if not found.ok:
        if console.quiet or console.as_json:
            raise CardError(found.headline)
        raise typer.Exit(CardError.exit_code)
