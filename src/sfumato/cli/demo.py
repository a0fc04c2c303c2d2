"""demo: the whole road in under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console, Force
from sfumato.errors import UsageError
from sfumato.wording import counted


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
    from sfumato.cli.audit import attack_lines
    from sfumato.jobs.demo import demonstrate
    from sfumato.report import write_report

    console.say("Breast cancer (569 patients, 30 measurements): three quarters are released, the rest is the control.")
    with console.listening() as progress:
        done = demonstrate(out, force=force, progress=progress, report=write_report)
    console.say()
    console.say(done.advice.paragraph())
    console.say()
    console.say(done.card.guarantee["words"])
    console.say()
    for line in attack_lines(done.audit.data):
        console.say(line)
    console.say()
    console.say(
        f"A model trained on the release is right about {done.accuracy:.1%} of other patients; always naming the "
        f"commonest diagnosis, {done.commonest:.1%}."
    )
    report = out / "release" / "report.html"
    console.say()
    console.say(f"Report (private): {report}")
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
