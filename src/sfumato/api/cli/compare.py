"""compare: methods x strengths x attackers x learners on one's own table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.api.cli.blocks import with_blocks
from sfumato.api.cli.console import Console
from sfumato.api.cli.release import Label
from sfumato.api.cli.tables import Query, TableArgument, Tables
from sfumato.core.errors import UsageError
from sfumato.core.wording import MEASURED, PROVED, counted, right_of_100


@with_blocks
def compare(
    table: TableArgument,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write, or to go on in.")],
    tables: Tables,
    console: Console,
    label: Label = None,
    schema: Annotated[Path | None, typer.Option(metavar="FILE", help="Schema file; otherwise one is inferred.")] = None,
    mechanism: Annotated[list[str] | None, typer.Option(help="Compare this one; repeatable.")] = None,
    attack: Annotated[list[str] | None, typer.Option(help="An attacker to try; repeatable.")] = None,
    learner: Annotated[list[str] | None, typer.Option(help="A classifier to train; repeatable.")] = None,
    strengths: Annotated[
        str, typer.Option(metavar="U,U,...", help="From 0 (protects most) to 1 (tells most).")
    ] = "0.25,0.5,0.75",
    splits: Annotated[int, typer.Option(help="Random splits into released rows and people not in the table.")] = 3,
    workers: Annotated[int | None, typer.Option(help="Processes at a time; as many as there are cores.")] = None,
    query: Query = None,
    seed: Annotated[int, typer.Option(min=0, help="Of splits and of the noise that is tried.")] = 0,
    max_extra: Annotated[
        float | None, typer.Option(metavar="N", help="Your limit: so many more of 100 an attacker may get right.")
    ] = None,
) -> None:
    """Try every method at several strengths against every attacker, and show what learners keep.

    Nothing is released, and the ledger is not told. Trials that are finished are kept: run it again to go on. The
    folder is private; compare.html shows use against extra, all settings and every attacker.

    Examples:
      sfumato compare patients.csv --label diagnosis --out comparison
      sfumato compare patients.csv --schema schema.yaml --mechanism square-wave --mechanism additive-noise --out c
    """
    from sfumato.api.compare import compare as run

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
            max_extra=max_extra,
            progress=progress,
        )
    for line in _lines(found.data):
        console.say(line)
    for name, why in found.data["no_learner"].items():
        console.say(f"  no learner for {name}: {why}")
    for name, why in found.data["not_compared"].items():
        console.say(f"  not compared {name}: {why}")
    above = [one["mechanism"] for one in found.data["settings"] if one.get("above_claim")]
    if above:
        console.say(f"AUDITED ABOVE CLAIMED: {', '.join(above)}. Do not release with it, and report it (SECURITY.md).")
    console.say(f"All settings and every attacker (private): {out / 'compare.html'}")
    console.result(found.data)


def _lines(data: Mapping[str, Any]) -> list[str]:
    """Settings worth a look, the least extra first, as on the page; then those against which a risk was not tried."""
    from sfumato.auditing.report.comparison import FORMAL, gained, in_order, within

    limit, measured = data["limit"], [one for one in data["settings"] if one["refused"] is None]
    worth = [measured[i] for i in in_order(measured) if measured[i]["worth"]]
    kept = "" if limit is None else f"; {sum(within(one, limit) for one in worth)} within your limit of {limit:g} extra"
    lines = [f"{len(worth)} of {counted(len(measured), 'setting')} beaten by no other both in use and in extra{kept}."]
    if measured:
        ceiling, majority = (100 * measured[0][name] for name in ("ceiling", "majority"))
        lines.append("Extra: how many more of 100 an attacker gets right with the release than without.")
        lines.append(f"Originals: {ceiling:.0f} of 100 right; commonest class: {majority:.0f}.")
    for number, one in enumerate(worth, start=1):
        proof = PROVED if one["kind"] in FORMAL else MEASURED
        proof += "; within your limit" if within(one, limit) else ""
        lines.append(f"{number:>3} {one['mechanism']}, {one['setting']}")
        lines.append(f"    {_right(one)}, {gained(one)}; {proof}")
    for one in (one for one in measured if one["untried"] or one["extra"] is None):
        right = "" if one["accuracy"] is None else f"{_right(one)}, "
        lines.append(f"  ? {one['mechanism']}, {one['setting']}: {right}{gained(one)}")
    return lines


def _right(one: Mapping[str, Any]) -> str:
    return right_of_100(one["accuracy"], one["best_learner"], "rows left out")
