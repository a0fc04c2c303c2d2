"""canary: does tree-resampling tell no more than it claims?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console
from sfumato.cli.tables import Query, TableArgument, Tables


@with_blocks
def canary(
    table: TableArgument,
    schema: Annotated[Path, typer.Option(metavar="FILE", help="Schema file with public bounds and categories.")],
    tables: Tables,
    console: Console,
    epsilon: Annotated[float, typer.Option(help="The claim to be tried.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Belongs to --epsilon; above 0.")] = 1e-6,
    fits: Annotated[int, typer.Option(metavar="N", help="Fits with planted records, and as many without.")] = 200,
    seed: Annotated[int | None, typer.Option(help="Repeatable noise.")] = None,
    query: Query = None,
) -> None:
    """Try the claim of tree-resampling: fit it many times with and without planted records, and tell the two apart.

    The claim must hold for every table, so a public or an invented one will do. Nothing is released and the ledger is
    not charged. If TABLE is private, so is what is printed.

    Example: sfumato canary invented.csv --schema schema.yaml --epsilon 1
    """
    from sfumato.door.canary import canary as run

    with console.listening() as progress:
        found = run(
            tables.open(table, query),
            schema=schema,
            epsilon=epsilon,
            delta=delta,
            fits=fits,
            seed=seed,
            progress=progress,
        )
    console.say(found.in_words())
    console.result(found.to_dict())
