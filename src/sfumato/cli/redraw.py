"""redraw: more rows from the model of a release, without the table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console, Force, LedgerPath
from sfumato.wording import counted


@with_blocks
def redraw(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="Folder of a release with model.json.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")],
    console: Console,
    rows: Annotated[int | None, typer.Option(metavar="N", help="Rows to draw; the noisy count if not given.")] = None,
    format: Annotated[str, typer.Option(help="parquet, csv, sav, zsav, dta, xpt, xlsx or ods.")] = "parquet",
    seed: Annotated[int | None, typer.Option(help="The same rows every time; it weakens nothing.")] = None,
    ledger: LedgerPath = None,
    force: Force = False,
) -> None:
    """Draw rows again from the model of RELEASE, whose rows are made up. The table is not needed.

    All that is drawn from one model rests on the same noisy measurements, so it costs nothing. `sfumato sanitize`
    measures the table again, and is paid for again.

    Example: sfumato redraw release --rows 100000 --out more
    """
    from sfumato.door.redraw import redraw as run

    with console.listening() as progress:
        made = run(release, rows=rows, out=out, format=format, seed=seed, ledger=ledger, force=force, progress=progress)
    card = made.card
    console.say(f"Drew {counted(card.rows, 'row')} into {out}, at no further cost. {card.guarantee['words']}")
    console.say(f"To share: release.{format}, card.json, model.json. Nothing in the folder is private.")
    console.result({"folder": str(out), "rows": card.rows, "guarantee": dict(card.guarantee)})
