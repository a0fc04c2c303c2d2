"""compare: mechanisms x strengths x adversaries x learners on one's own table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console
from sfumato.cli.release import Label
from sfumato.cli.tables import Query, TableArgument, Tables
from sfumato.errors import UsageError


@with_blocks
def compare(
    table: TableArgument,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write, or to go on in.")],
    tables: Tables,
    console: Console,
    label: Label = None,
    schema: Annotated[Path | None, typer.Option(metavar="FILE", help="Schema file; otherwise one is inferred.")] = None,
    mechanism: Annotated[list[str] | None, typer.Option(help="Compare this one; repeatable.")] = None,
    attack: Annotated[list[str] | None, typer.Option(help="An adversary to believe in; repeatable.")] = None,
    learner: Annotated[list[str] | None, typer.Option(help="A classifier to train; repeatable.")] = None,
    strengths: Annotated[
        str, typer.Option(metavar="U,U,...", help="From 0 (protects most) to 1 (tells most).")
    ] = "0.25,0.5,0.75",
    splits: Annotated[int, typer.Option(help="Random splits into released rows and holdout.")] = 3,
    workers: Annotated[int | None, typer.Option(help="Processes at a time; as many as there are cores.")] = None,
    query: Query = None,
    seed: Annotated[int, typer.Option(min=0, help="Of splits and of the noise that is tried.")] = 0,
) -> None:
    """Try every mechanism at several strengths against every adversary, and show what learners keep.

    Nothing is released, and the ledger is not told. Cells that are finished are kept: run it again to go on. The folder
    is private; compare.html shows frontier and threat matrix.

    Examples:
      sfumato compare patients.csv --label diagnosis --out comparison
      sfumato compare patients.csv --schema schema.yaml --mechanism square-wave --mechanism additive-noise --out c
    """
    from sfumato.door.compare import compare as run

    try:
        ladder = [float(one) for one in strengths.split(",")]
    except ValueError:
        raise UsageError("--strengths wants numbers between 0 and 1, for example 0.25,0.5,0.75.") from None
    with console.listening() as progress:
        found = run(
            tables.open(table, query),
            out,
            label=label,
            schema=schema,
            mechanisms=mechanism,
            attacks=attack,
            learners=learner,
            strengths=ladder,
            splits=splits,
            workers=workers,
            seed=seed,
            progress=progress,
        )
    for one in found.data["settings"]:
        if one["refused"] is not None:
            continue
        accuracy = "  none" if one["accuracy"] is None else f"{one['accuracy']:6.1%}"
        mark = " " if one["dominated"] or one["untried"] or None in (one["accuracy"], one["risk"]) else "*"
        worst = "  none" if one["risk"] is None else f"{one['risk']:+6.1%} ({one['strongest']})"
        worst += f", not tried: {', '.join(one['untried'])}" if one["untried"] else ""
        console.say(
            f"{mark} {one['mechanism']:<22} {one['setting']:<32} accuracy {accuracy}  strongest adversary {worst}"
        )
    for name, why in found.data["no_learner"].items():
        console.say(f"  no learner for {name}: {why}")
    for name, why in found.data["not_compared"].items():
        console.say(f"  not compared {name}: {why}")
    above = [one["mechanism"] for one in found.data["settings"] if one.get("above_claim")]
    if above:
        console.say(f"AUDITED ABOVE CLAIMED: {', '.join(above)}. Do not release with it, and report it (SECURITY.md).")
    console.say(f"* not beaten in both. Page (private): {out / 'compare.html'}")
    console.result(found.data)
