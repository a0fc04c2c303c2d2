"""invariance: which learners answer the same after a rotation of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console
from sfumato.cli.tables import TableArgument, Tables
from sfumato.wording import counted


@with_blocks
def invariance(
    table: TableArgument,
    tables: Tables,
    console: Console,
    label: Annotated[str | None, typer.Option(metavar="COL", help="The column of classes to predict.")] = None,
    target: Annotated[
        str | None, typer.Option(metavar="COL", help="Instead of --label: a column of numbers, for regressions.")
    ] = None,
    schema: Annotated[Path | None, typer.Option(metavar="FILE", help="Schema; learned from TABLE by default.")] = None,
    learner: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Classifier ('svm scaled=false') or regression; repeatable."),
    ] = None,
    rotations: Annotated[int, typer.Option(help="Rotations that are tried.")] = 5,
    max_rows: Annotated[int, typer.Option(help="Use a random sample if there are more rows.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of sample, split and rotations.")] = 0,
) -> None:
    """Say which learners answer the same after a rotation of TABLE, and why. Nothing is released or written.

    Examples:
      sfumato invariance patients.csv --label diagnosis
      sfumato invariance patients.csv --label diagnosis --learner svm --learner "svm gamma=0.5 scaled=false"
      sfumato invariance patients.csv --target bmi
    """
    from sfumato.door.invariance import invariance as run

    with console.listening() as progress:
        found = run(
            tables.open(table),
            label=label,
            target=target,
            schema=schema,
            learners=learner or None,
            rotations=rotations,
            max_rows=max_rows,
            seed=seed,
            progress=progress,
        )
    console.say(
        f"{counted(found.rows, 'row')}, {counted(found.columns, 'encoded column')}, "
        f"{counted(found.rotations, 'rotation')}; {found.label!r} is predicted. Least share of equal answers:"
    )
    width = max([len(one.learner) for one in found.found], default=8)
    console.say(f"{'':{width}}  {'zero':>7}{'random':>8}  {'error':>6}{'rotated':>9}  the same with")
    for one in found.found:
        console.say(
            f"{one.learner:{width}}  {one.zero:>7.3f}{one.random:>8.3f}  {one.error:>6.3f}{one.rotated_error:>9.3f}"
            f"  {one.measured}" + (f" (in theory: {one.when})" if one.when and one.when != one.measured else "")
        )
    for why in dict.fromkeys(one.why for one in found.found if one.why):
        those = ", ".join(one.learner for one in found.found if one.why == why)
        console.say(f"{those}: {why}")
    for name, reason in found.refused.items():
        console.say(f"{name}: not tried. {reason}")
    console.result(found.to_dict())
