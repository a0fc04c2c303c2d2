"""study rehearse: what sharing one's own table between sites would cost and hide."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console, Force, parse_parameters
from sfumato.cli.tables import TableArgument, Tables
from sfumato.errors import UsageError
from sfumato.files import check_free, write_whole


@with_blocks
def rehearse(
    table: TableArgument,
    tables: Tables,
    console: Console,
    label: Annotated[str | None, typer.Option(metavar="COL", help="The column to predict.")] = None,
    schema: Annotated[Path | None, typer.Option(metavar="FILE", help="Schema file; otherwise one is inferred.")] = None,
    sites: Annotated[str, typer.Option(metavar="L,L,...", help="Numbers of sites to try.")] = "1,2,4,8",
    mechanism: Annotated[str, typer.Option(help="How every site blurs its rows.")] = "kernel-resampling",
    param: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Parameter of the method; repeatable.")
    ] = None,
    classifier: Annotated[str, typer.Option(help="What learns from the pooled rows.")] = "knn",
    repeats: Annotated[int, typer.Option(help="Random splits of the table.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="For splits, dealing and noise.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the figures: .csv or .parquet.")] = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Also draw them: .svg.")] = None,
    force: Force = False,
) -> None:
    """Deal TABLE to L sites, let each blur its rows, and measure loss and exposure against L.

    A quarter of the rows is held apart. Nothing is released. lost: what pooled releases add to the error.
    alone: the error with one site's own rows, which sharing should beat. gap: of the sites' density estimates to one
    from the rows held apart; it says nothing about privacy. hits: released rows that lie nearest to their source.
    membership: chance to tell who is in the table, 0.5 is a coin toss.

    Examples:
      sfumato study rehearse patients.csv --label diagnosis --sites 1,2,4,8 --plot sites.svg
      sfumato study rehearse patients.csv --label diagnosis --param bandwidth=scaled --classifier svm
    """
    from sfumato.door.rehearse import rehearse as run
    from sfumato.table import write_table

    for file in (out, plot):
        check_free(file, force=force)
    with console.listening() as progress:
        rehearsal = run(
            tables.open(table),
            _counts(sites),
            label=label,
            schema=schema,
            mechanism=mechanism,
            parameters=parse_parameters(param or []),
            classifier=classifier,
            repeats=repeats,
            seed=seed,
            progress=progress,
        )
    found = rehearsal.found
    console.say(f"{'sites':>5}  original  pooled  alone     lost           gap   hits  membership")
    for one in found:
        gap = "    -" if one.density_gap is None else f"{one.density_gap:.3f}"
        verdict = "" if one.worth_it or one.sites == 1 else "   loses to staying alone"
        console.say(
            f"{one.sites:>5}  {one.original:>8.3f}  {one.pooled:>6.3f}  {one.alone:.3f}  "
            f"{one.phi:+.3f} ± {one.spread:.3f}  {gap}  {one.hits:.3f}       {one.membership:.3f}{verdict}"
        )
    if out is not None:
        import pyarrow as pa

        write_table(pa.Table.from_pylist([one.to_dict() for one in found]), out, private=True)
        console.say(f"Figures (private): {out}")
    if plot is not None:
        write_whole(plot, rehearsal.plot(), private=True)
        console.say(f"Picture (private): {plot}")
    console.result({"sites": [one.to_dict() for one in found], "classifier": classifier, "repeats": repeats})


def _counts(given: str) -> list[int]:
    try:
        return [int(one) for one in given.split(",")]
    except ValueError:
        raise UsageError(f"--sites takes numbers with commas between them, such as 1,2,4,8. Got {given!r}.") from None
