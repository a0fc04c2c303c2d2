"""study reconstruct: the coordinator recovers how a column was spread behind the noise of all sites."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.cli.at_coordinator import AtCoordinator, until_done
from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console, Force
from sfumato.cli.study import StudyId
from sfumato.errors import CoordinatorError, UsageError
from sfumato.files import check_free
from sfumato.wording import counted


@with_blocks
def reconstruct(
    study: StudyId,
    column: Annotated[list[str], typer.Option(metavar="COL", help="A column of the releases; may be repeated.")],
    at: AtCoordinator,
    console: Console,
    method: Annotated[str, typer.Option(help="parzen-program or expectation-maximization.")] = "parzen-program",
    out: Annotated[Path | None, typer.Option(metavar="OUT", help="Folder to write the densities into.")] = None,
    wait: Annotated[bool, typer.Option(help="Wait for the densities; else they appear on the owner's page.")] = True,
    force: Force = False,
) -> None:
    """Have the server reconstruct the distribution of columns from all releases; for the study's owner.

    Every release counts with the noise of its own card. The owner's page shows the densities with their band. With
    --out they are written as `sfumato reconstruct` writes them.

    Example: sfumato study reconstruct k3f9abcd2345 --column income --out density --to https://study.example
    """
    from sfumato.client.answers import plain

    if out is not None and not wait:
        raise UsageError("--out needs the densities, and --no-wait does not wait for them. Leave out one of the two.")
    check_free(out, force=force)
    with at.connected(console) as connected:
        asked = [connected.reconstruct(study, name, method) for name in dict.fromkeys(column)]
        if wait:
            with console.listening() as progress:
                wanted = [one.id for one in asked]
                asked = until_done(
                    lambda: [connected.density(study, one) for one in wanted], "Reconstructing", progress
                )
    if out is not None and all(one.state == "done" for one in asked):
        _write(asked, out, force=force)
        console.say(f"Wrote {out}.")
    for one in asked:
        rows = (one.found or {}).get("rows")
        of = f" from {counted(int(rows), 'released row')} of {counted(len(one.sites), 'site')}" if rows else ""
        console.say(f"{plain(one.id)}  {plain(one.column)}  {plain(one.failure or one.state)}{of}")
    console.result({"densities": [one.to_dict() for one in asked]})
    if failed := [one for one in asked if one.state == "failed"]:
        raise CoordinatorError(f"{len(failed)} of {counted(len(asked), 'column')} could not be reconstructed.")


def _write(densities: list[Any], out: Path, *, force: bool) -> None:
    from sfumato.files import new_folder
    from sfumato.jobs.reconstruct import folder_names, write_found
    from sfumato.reconstruction.plain import from_plain

    names = [one.column for one in densities]
    places = [""] if len(names) == 1 else folder_names(names)
    with new_folder(out, force=force) as folder:
        for one, place in zip(densities, places, strict=True):
            write_found(from_plain(one.found or {}), folder, place)
