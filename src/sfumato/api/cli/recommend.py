"""recommend: I have a table; what now? compare: its long form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.advising.asked import CompareAsked, RecommendAsked
from sfumato.api.cli.blocks import keywords, typed_again, with_blocks
from sfumato.api.cli.console import Console, Force
from sfumato.api.cli.tables import Query, TableArgument, Tables
from sfumato.core.errors import UnmetWishError
from sfumato.core.files import check_free
from sfumato.core.wording import MEASURED, PROVED, counted, right_of_100, to_type

if TYPE_CHECKING:
    from sfumato.advising.recommendation import Recommendation


@with_blocks
def recommend(
    table: TableArgument,
    options: RecommendAsked,
    tables: Tables,
    console: Console,
    query: Query = None,
    force: Force = False,
) -> None:
    """Say which method, how strong, and what public tables kept under it, before anything is released.

    No row has a say: the answer follows from the wish and from --trust, and holds against every attacker once all
    ranges are public. With --use-table settings are tried on your rows, and nothing can be proved then. TABLE can also
    be the folder of a release of made-up rows: choosing on these costs nothing more. Exit code 9: nothing that keeps
    the wish is of use. Without a wish, on a terminal, it asks, and prints the command that says the same. Everything
    side by side, on your own rows: sfumato compare. The key that signs your releases: sfumato signer.

    Examples:
      sfumato recommend patients.csv --schema schema.yaml --max-posterior 0.2 --out config.yaml
      sfumato recommend patients.csv --schema schema.yaml --trust nobody --epsilon 4
      sfumato recommend patients.csv --schema schema.yaml --max-loss 0.1 --rows 1000
      sfumato recommend first-release --epsilon 4 --out config.yaml
      sfumato recommend patients.csv --label diagnosis --use-table --max-risk 0.2 --json
    """
    from sfumato.advising.advice import Advice
    from sfumato.advising.recommend import recommend as run

    check_free(options.out, force=force)
    released = (Path(table) / "card.json").is_file()
    if console.can_ask and not released and not _wished(options):
        options = replace(options, **_asked())
        console.say(f"The same without questions:\n  {to_type('recommend', table, **typed_again(options))}\n")
    with console.listening() as progress:
        found = run(Path(table) if released else tables.open(table, query), **keywords(options), progress=progress)
    console.tell(found.paragraph())
    out = options.out if found.met else None
    names = {"schema": options.schema, "config": out}
    command = found.command(table, **{name: str(file) for name, file in names.items() if file is not None})
    if not isinstance(found, Advice):
        _say_what_was_tried(console, found)
    console.say()
    console.say(f"{'To release' if found.met else 'The nearest, all the same'}:\n  {command}")
    console.result({**found.to_dict(), "command": command, "written": None if out is None else str(out)})
    if not found.met:
        raise UnmetWishError(found.why_not())


def _wished(options: RecommendAsked) -> bool:
    """Whether anything was asked for, besides which table it is and where the answer goes."""
    about = {name: getattr(options, name) for name in ("label", "person", "schema", "ledger", "out", "seed")}
    return options != RecommendAsked(**about, progress=options.progress)


HOLDERS = {"we": "owner", "nobody": "nobody", "people": "people"}
RECEIVERS = {"anybody": 2, "partners": 3, "colleagues": 5}
"""Who may get rows, and what is proposed to them: how many chances in 10 a fact with 1 in 10 may reach."""


def _asked() -> dict[str, Any]:
    """What people know, one question a line: who holds the rows and gets them, how sure anybody may become, and how
    many rows a person has."""
    holder = _ask("Who may hold the table? (we, nobody: rows are blurred one by one, people: each their own)", HOLDERS)
    receiver = _ask("Who will get the rows, to count or to learn from? (anybody, partners, colleagues)", RECEIVERS)
    sure = _ask_number(
        "A fact has 1 chance in 10. How sure may they become of it, in 10?", RECEIVERS[receiver], 1.01, 9.99
    )
    rows = int(_ask_number("How many rows may one person have at most?", 1, 1, 1_000_000))
    cap = None if rows == 1 else rows
    return {"trust": HOLDERS[holder], "max_posterior": round(sure / 10, 6), "max_rows_per_person": cap}


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
        console.tell(f"  {mark:<9} {line}")
    for name, why in found.left_out.items():
        console.tell(f"  not tried {name}: {why}")


# compare: methods x strengths x attackers x learners on one's own table.


@with_blocks
def compare(
    table: TableArgument,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write, or to go on in.")],
    options: CompareAsked,
    tables: Tables,
    console: Console,
    query: Query = None,
) -> None:
    """The long form of recommend: try every method at several strengths against every attacker on your own rows.

    It shows what learners keep, and proves nothing of what is chosen by it. Nothing is released, and the ledger is not
    told. Trials that are finished are kept: run it again to go on. The folder is private; compare.html shows use
    against extra, all settings and every attacker.

    Examples:
      sfumato compare patients.csv --label diagnosis --out comparison
      sfumato compare patients.csv --schema schema.yaml --mechanism square-wave --mechanism additive-noise --out c
    """
    from sfumato.advising.compare import compare as run

    with console.listening() as progress:
        found = run(tables.open(table, query), out, **keywords(options), progress=progress)
    for line in _lines(found.data):
        console.tell(line)
    for name, why in found.data["no_learner"].items():
        console.tell(f"  no learner for {name}: {why}")
    for name, why in found.data["not_compared"].items():
        console.tell(f"  not compared {name}: {why}")
    above = [one["mechanism"] for one in found.data["settings"] if one.get("above_claim")]
    if above:
        console.tell(f"AUDITED ABOVE CLAIMED: {', '.join(above)}. Do not release with it, and report it (SECURITY.md).")
    console.say(f"All settings and every attacker (private): {out / 'compare.html'}")
    console.result(found.data)


def _lines(data: Mapping[str, Any]) -> list[str]:
    """Settings worth a look, the least extra first, as on the page; then those against which a risk was not tried."""
    from sfumato.auditing.report.comparison import in_order, within

    limit, measured = data["limit"], [one for one in data["settings"] if one["refused"] is None]
    worth = [measured[i] for i in in_order(measured) if measured[i]["worth"]]
    kept = "" if limit is None else f"; {sum(within(one, limit) for one in worth)} within your limit of {limit:g} extra"
    lines = [f"{len(worth)} of {counted(len(measured), 'setting')} beaten by no other both in use and in extra{kept}."]
    if measured:
        ceiling, majority = (100 * measured[0][name] for name in ("ceiling", "majority"))
        lines.append("Extra: how many more of 100 an attacker gets right with the release than without.")
        lines.append(f"Originals: {ceiling:.0f} of 100 right; commonest class: {majority:.0f}.")
    for number, one in enumerate(worth, start=1):
        lines += [f"{number:>3} {one['mechanism']}, {one['setting']}", f"    {_worth(one, limit)}"]
    return lines + [_apart(one) for one in measured if one["untried"] or one["extra"] is None]


def _worth(one: Mapping[str, Any], limit: float | None) -> str:
    from sfumato.auditing.report.comparison import FORMAL, gained, within

    proof = PROVED if one["kind"] in FORMAL else MEASURED
    return f"{_right(one)}, {gained(one)}; {proof}{'; within your limit' if within(one, limit) else ''}"


def _apart(one: Mapping[str, Any]) -> str:
    """A setting against which a risk was not tried; its extra is the least that is known."""
    from sfumato.auditing.report.comparison import gained

    right = "" if one["accuracy"] is None else f"{_right(one)}, "
    return f"  ? {one['mechanism']}, {one['setting']}: {right}{gained(one)}"


def _right(one: Mapping[str, Any]) -> str:
    return right_of_100(one["accuracy"], one["best_learner"], "rows left out")
