"""compare: methods x strengths x attackers x learners on one's own table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sfumato.advising.asked import CompareAsked
from sfumato.api.cli.blocks import keywords, with_blocks
from sfumato.api.cli.console import Console
from sfumato.api.cli.tables import Query, TableArgument, Tables
from sfumato.core.wording import MEASURED, PROVED, counted, right_of_100


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
