"""recommend: I have a table; what now?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.api.cli.blocks import with_blocks
from sfumato.api.cli.console import Console, Force
from sfumato.api.cli.release import Label
from sfumato.api.cli.tables import Query, TableArgument, Tables
from sfumato.core.errors import UnmetWishError
from sfumato.core.files import check_free
from sfumato.core.wording import to_type

if TYPE_CHECKING:
    from sfumato.advising.recommendation import Recommendation


@with_blocks
def recommend(
    table: TableArgument,
    tables: Tables,
    console: Console,
    label: Label = None,
    person: Annotated[
        str | None, typer.Option(metavar="COL", help="The column that says whose rows they are; never released.")
    ] = None,
    schema: Annotated[Path | None, typer.Option(metavar="FILE", help="Schema file; otherwise one is inferred.")] = None,
    trust: Annotated[
        str,
        typer.Option(metavar="WHOM", help="Whom people trust with rows: 'owner', 'nobody', or 'people' (a survey)."),
    ] = "owner",
    max_risk: Annotated[
        float | None, typer.Option(metavar="R", help="The most that any belief may rise by a person's row, 0 to 1.")
    ] = None,
    max_posterior: Annotated[
        float | None, typer.Option(metavar="P", help="How sure an attacker may become of a fact (see --prior).")
    ] = None,
    prior: Annotated[float | None, typer.Option(help="How sure they were before; 0.1 if not given.")] = None,
    max_loss: Annotated[
        float | None, typer.Option(metavar="L", help="Accuracy that may be lost, 0 to 1; needs --rows.")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(metavar="E", help="A bound for anybody's values.")] = None,
    use_table: Annotated[
        bool, typer.Option("--use-table", help="Choose by trials on your own rows: measured, and nothing is proved.")
    ] = False,
    rows: Annotated[int | None, typer.Option(help="About how many rows there are: a number that is public.")] = None,
    max_rows_per_person: Annotated[
        int | None, typer.Option(metavar="N", help="The most rows that one person has; the bound is for all of them.")
    ] = None,
    query: Query = None,
    tries: Annotated[int | None, typer.Option(metavar="N", help="With --use-table: try N methods, not all.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of splits and of the noise that is tried.")] = 0,
    workers: Annotated[
        int | None, typer.Option(help="Processes at a time; as many as there are cores, one for a small table.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="Private ledger that charged the release TABLE, if not the usual one.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="CONFIG", help="Config file for `sanitize --config`.")] = None,
    force: Force = False,
) -> None:
    """Say which method, how strong, and what public tables kept under it, before anything is released.

    No row has a say: the answer follows from the wish and from --trust, and holds against every attacker once all
    ranges are public. With --use-table settings are tried on your rows, and nothing can be proved then. TABLE can also
    be the folder of a release of made-up rows: choosing on these costs nothing more. Exit code 9: nothing that keeps
    the wish is of use. Without a wish, on a terminal, it asks, and prints the command that says the same. Everything
    side by side, on your own rows: sfumato compare.

    Examples:
      sfumato recommend patients.csv --schema schema.yaml --max-posterior 0.2 --out config.yaml
      sfumato recommend patients.csv --schema schema.yaml --trust nobody --epsilon 4
      sfumato recommend patients.csv --schema schema.yaml --max-loss 0.1 --rows 1000
      sfumato recommend first-release --epsilon 4 --out config.yaml
      sfumato recommend patients.csv --label diagnosis --use-table --max-risk 0.2 --json
    """
    from sfumato.advising.advice import Advice
    from sfumato.api.recommend import recommend as run

    check_free(out, force=force)
    released = (Path(table) / "card.json").is_file()
    wished = (max_risk, max_posterior, prior, max_loss, epsilon, rows, max_rows_per_person, tries)
    given = {"label": label, "person": person, "schema": schema, "out": out}
    if all(one is None for one in wished) and trust == "owner" and not use_table and not released and console.can_ask:
        trust, max_posterior, max_rows_per_person = _asked()
        told = {"trust": trust, "max_posterior": f"{max_posterior:g}", "max_rows_per_person": max_rows_per_person}
        console.say(f"The same without questions:\n  {to_type('recommend', table, **given, **told)}\n")

    with console.listening() as progress:
        found = run(
            Path(table) if released else tables.open(table, query),
            label=label,
            person=person,
            schema=schema,
            trust=trust,
            max_risk=max_risk,
            max_posterior=max_posterior,
            prior=prior,
            max_loss=max_loss,
            epsilon=epsilon,
            use_table=use_table,
            rows=rows,
            max_rows_per_person=max_rows_per_person,
            tries=tries,
            seed=seed,
            workers=workers,
            ledger=ledger,
            out=out,
            progress=progress,
        )
    console.tell(found.paragraph())
    written = out if found.met else None
    command = found.command(
        table, schema=None if schema is None else str(schema), config=None if written is None else str(written)
    )
    if not isinstance(found, Advice):
        _say_what_was_tried(console, found)
    console.say()
    console.say(f"{'To release' if found.met else 'The nearest, all the same'}:\n  {command}")
    console.result({**found.to_dict(), "command": command, "written": None if written is None else str(written)})
    if not found.met:
        raise UnmetWishError(found.why_not())


HOLDERS = {"we": "owner", "nobody": "nobody", "people": "people"}
RECEIVERS = {"anybody": 2, "partners": 3, "colleagues": 5}
"""Who may get rows, and what is proposed to them: how many chances in 10 a fact with 1 in 10 may reach."""


def _asked() -> tuple[str, float, int | None]:
    """What people know, one question a line: who holds the rows and gets them, how sure anybody may become, and how
    many rows a person has."""
    holder = _ask("Who may hold the table? (we, nobody: rows are blurred one by one, people: each their own)", HOLDERS)
    receiver = _ask("Who will get the rows, to count or to learn from? (anybody, partners, colleagues)", RECEIVERS)
    sure = _ask_number(
        "A fact has 1 chance in 10. How sure may they become of it, in 10?", RECEIVERS[receiver], 1.01, 9.99
    )
    rows = int(_ask_number("How many rows may one person have at most?", 1, 1, 1_000_000))
    return HOLDERS[holder], round(sure / 10, 6), None if rows == 1 else rows


def _ask(question: str, answers: Mapping[str, object]) -> str:
    usual = next(iter(answers))
    while (said := str(typer.prompt(question, default=usual)).strip().lower()) not in answers:
        typer.echo(f"Please type {' or '.join(answers)}.")
    return said


def _ask_number(question: str, usual: int, least: float, most: float) -> float:
    while not least <= (said := float(typer.prompt(question, default=usual, type=float))) <= most:
        typer.echo(f"Please type a number from {least:g} to {most:g}.")
    return said


def _say_what_was_tried(console: Console, found: Recommendation) -> None:
    from sfumato.advising.recommendation import by_extra, in_points, in_short

    console.say()
    console.tell("Extra: how many more of 100 each attacker gets right with the release than without, as measured:")
    for name, points in by_extra(found.forecast):
        console.say(f"  {name:<24} {in_points(points)}")
    console.say()
    console.tell("Settings that were tried, the best of each method; measured on the rows that choose:")
    for setting in found.nearest:
        mark = "keeps it" if setting.keeps(found.wish) else "apart" if setting.outcome.apart else "does not"
        line = in_short(setting.candidate.mechanism, setting.parameters, setting.outcome)
        console.tell(f"{mark:<9} {line}", indent="  ")
    for name, why in found.left_out.items():
        console.tell(f"not tried {name}: {why}", indent="  ")
