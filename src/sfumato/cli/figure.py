"""figure: two of the papers' experiments on a table of one's own."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console
from sfumato.cli.tables import TableArgument, Tables

app = typer.Typer(no_args_is_help=True, help="The papers' experiments on a table of your own; nothing is released.")
Label = Annotated[str | None, typer.Option(metavar="COL", help="The column to predict; it is left out.")]
MaxRows = Annotated[int, typer.Option(min=10, help="Use a random sample if there are more rows.")]
Seed = Annotated[int, typer.Option(min=0, help="Of the sample and of the noise.")]


@app.command()
@with_blocks
def filtering(
    table: TableArgument,
    tables: Tables,
    console: Console,
    label: Label = None,
    b: Annotated[list[float] | None, typer.Option(help="Scale of the noise; repeatable. 0.1, 0.2, 0.3.")] = None,
    components: Annotated[float, typer.Option(help="Share of the principal components that is kept.")] = 0.5,
    max_rows: MaxRows = 5000,
    seed: Seed = 0,
) -> None:
    """Average privacy with and without PCA, before and after filtering [principal-laplace, Fig. 8].

    Example: sfumato figure filtering patients.csv --label diagnosis
    """
    from sfumato.jobs.figures import SCALES
    from sfumato.jobs.figures import filtering as run

    with console.listening() as progress:
        found = run(
            tables.open(table),
            label=label,
            scales=b or SCALES,
            components=components,
            max_rows=max_rows,
            seed=seed,
            progress=progress,
        )
    console.say("Average privacy: width of the error's central 95% over the columns' ranges; larger is safer.")
    heads = ("No-Filtering", "PCA+Filtering", "No-PCA+Filtering", "No-PCA", "linear, PCA", "linear, no PCA", "mean")
    console.say(f"{'b':>5}  " + "  ".join(heads))
    for one in found:
        figures = list(asdict(one).values())[1:]
        console.say(f"{one.b:>5g}  " + "  ".join(f"{x:>{len(h)}.3f}" for h, x in zip(heads, figures, strict=True)))
    console.say(
        "The first three are the paper's scenarios. The linear estimate is a stronger attack than filtering. Whoever "
        "knows the columns' means can guess them: what is wider than that is no privacy."
    )
    console.result({"filtering": [asdict(one) for one in found]})


@app.command()
@with_blocks
def condensation(
    table: TableArgument,
    tables: Tables,
    console: Console,
    label: Label = None,
    k: Annotated[list[int] | None, typer.Option(help="Group size; repeatable. 2, 5, 10, 20, 50, 100.")] = None,
    rotations: Annotated[int, typer.Option(help="Rotations that the search tries.")] = 50,
    max_rows: MaxRows = 5000,
    seed: Seed = 0,
) -> None:
    """Condensation by group size beside a searched rotation [random-rotation, 5.3, Figs 5-8].

    Example: sfumato figure condensation patients.csv --label diagnosis
    """
    from sfumato.jobs.figures import SIZES, against_condensation

    with console.listening() as progress:
        found = against_condensation(
            tables.open(table),
            label=label,
            sizes=k or SIZES,
            rotations=rotations,
            max_rows=max_rows,
            seed=seed,
            progress=progress,
        )
    console.say("Standard deviation of the attacker's error on columns scaled to [0, 1]; larger protects more.")
    console.say(f"{'':44}{'minimum':>9}{'average':>9}")
    lines = [(f"condensation, groups of {one.k}: nearest row", (one.minimum, one.average)) for one in found.condensed]
    lines += [
        (f"rotation, best of {found.rotations}, as published: naive", found.published),
        ("  ICA, as published", found.published_ica or (float("nan"), float("nan"))),
        (f"rotation, best of {found.rotations}, measured: naive", found.measured),
        ("  ICA, on any rotation tried, measured", found.measured_ica),
        ("guessing the mean", found.mean),
    ]
    for words, (least, mean) in lines:
        console.say(f"{words:44}{least:>9.3f}{mean:>9.3f}")
    if small := [one for one in found.condensed if one.in_smaller_groups]:
        told = ", ".join(f"{one.in_smaller_groups:,} for k = {one.k}" for one in small)
        console.say(f"A class of fewer rows than k is one group. Rows in such classes, of {found.rows:,}: {told}.")
    if found.left_out:
        console.say(f"Left out, since no class has so many rows: k = {', '.join(map(str, found.left_out))}.")
    console.say(
        "The paper compares condensation with the published figures of a rotation. The attackers differ: the original "
        "row nearest to a condensed one need not be its source. Published figures can lie above the mean alone."
    )
    console.result(found.to_dict())
