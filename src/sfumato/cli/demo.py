"""demo: the whole road in under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console, Force
from sfumato.errors import UsageError
from sfumato.wording import counted

if TYPE_CHECKING:
    from sfumato.jobs.demo import Demonstration


@with_blocks
def demo(
    console: Console,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")] = Path("demo-out"),
    consortium: Annotated[bool, typer.Option(help="Four sites and a coordinator instead; writes nothing.")] = False,
    sites: Annotated[int | None, typer.Option(metavar="L", help="With --consortium: L sites of equal size.")] = None,
    force: Force = False,
) -> None:
    """Recommend, sanitize, audit, train and predict on a table that ships with scikit-learn, and write the report.

    With --consortium, starts a server on this machine; four sites sanitize and push, and a model is trained on all of
    them. Everything is removed afterwards.

    Examples:
      sfumato demo --out demo-out
      sfumato demo --consortium
      sfumato demo --consortium --sites 8
    """
    if consortium:
        _consortium(console, sites)
        return
    if sites is not None:
        raise UsageError("--sites belongs to --consortium. Give both, or neither.")
    from sfumato.jobs.demo import demonstrate
    from sfumato.report import write_report

    console.say("Breast cancer (569 patients, 30 measurements): three quarters are in the table, others test it.")
    with console.listening() as progress:
        done = demonstrate(out, force=force, progress=progress, report=write_report)
    console.say()
    console.say(f"Proved ({done.card.guarantee['kind']}). {done.advice.paragraph()}")
    console.say()
    for line in _side_by_side(done):
        console.say(line)
    console.say()
    tried = [one for one in done.audit.data["attacks"] if one.get("score") is not None]
    console.say(f"{counted(len(tried), 'attacker')} tried to find the patients again; every one stands in the report.")
    console.say(
        f"Of use: a model of the made-up rows is right about {100 * done.accuracy:.0f} of 100 other patients "
        f"(commonest diagnosis: {100 * done.commonest:.0f})."
    )
    report = out / "release" / "report.html"
    console.say()
    console.say(f"Report (private): {report}")
    console.say("Several sites: sfumato demo --consortium. A survey: sfumato survey preview (docs/survey.md).")
    console.result(
        {
            "folder": str(out),
            "report": str(report),
            "recommended": done.advice.to_dict(),
            "guarantee": dict(done.card.guarantee),
            "attacks": done.audit.data["attacks"],
            "accuracy": {"auto": done.accuracy},
        }
    )


def _side_by_side(done: Demonstration) -> list[str]:
    """The first rows before and after: the made-up ones belong to nobody, so no row answers another."""
    shown = [*done.before.column_names[:3], done.before.column_names[-1]]
    both = [table.select(shown).slice(0, 5).to_pylist() for table in (done.before, done.after)]

    def cells(row: dict[str, Any]) -> str:
        return "".join(f"{row[n]:>9.4g}" if isinstance(row[n], float) else f"{row[n]:>11}" for n in shown)

    return ["  first rows of the table" + " " * 22 + "first made-up rows"] + [
        f"{cells(old)}   {cells(new)}" for old, new in zip(*both, strict=True)
    ]


def _consortium(console: Console, sites: int | None) -> None:
    from sfumato.cli.at_server import server_part
    from sfumato.cli.consortium import show_consortium
    from sfumato.jobs.consortium import check_sites

    check_sites(sites)
    server_part("run")  # without the server's extra this is the one line that is printed
    many = "Four hospitals" if sites is None else counted(sites, "hospital")
    console.say(f"{many} share breast cancer (569 patients, 30 measurements) one way, by kernel resampling.")
    console.say()
    with console.listening():
        shown = show_consortium(console.say, sites)
    console.say()
    console.say(shown.risk_line)
    console.say()
    released = {entry["site"]: entry for entry in shown.pooled["alone"]}
    console.say(f"{'error on other patients, after training on':<46} original rows  released rows")
    for site, found in shown.alone.items():
        name = f"{site} alone ({shown.rows[site]} patients)"
        error = released.get(site, {}).get("error")
        console.say(f"  {name:<44} {found['error']:>13.3f}  {'-' if error is None else f'{error:.3f}':>13}")
    name = f"all {'four' if sites is None else sites} together ({sum(shown.rows.values())} patients)"
    console.say(f"  {name:<44} {shown.original['error']:>13.3f}  {shown.pooled['error']:>13.3f}")
    console.say()
    console.say(shown.line)
    console.result(shown.to_dict())
