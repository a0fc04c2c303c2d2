"""demo: the whole road in under a minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.console import Console, Force, Json, Quiet


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")] = Path("demo-out"),
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Sanitize, audit, train and predict on a table that ships with scikit-learn, and write the report.

    Example: sfumato demo --out demo-out
    """
    from sfumato.cli.audit import attack_lines
    from sfumato.jobs.demo import demonstrate
    from sfumato.report import write_report

    console = Console(quiet, as_json)
    console.say("Breast cancer (569 patients, 30 measurements): three quarters are released, the rest is the control.")
    with console.listening() as progress:
        done = demonstrate(out, force=force, progress=progress, report=write_report)
    console.say()
    console.say(done.card.guarantee["words"])
    console.say()
    for line in attack_lines(done.audit.data):
        console.say(line)
    console.say()
    for name, accuracy in done.accuracy.items():
        console.say(f"{name:<14} trained on the release, tested on other patients: accuracy {accuracy:.3f}")
    console.say(
        f"{'(no release)':<14} always the commonest diagnosis:                          accuracy {done.commonest:.3f}"
    )
    report = out / "release" / "report.html"
    console.say()
    console.say(f"Report (private): {report}")
    console.result(
        {
            "folder": str(out),
            "report": str(report),
            "guarantee": dict(done.card.guarantee),
            "attacks": done.audit.data["attacks"],
            "accuracy": done.accuracy,
        }
    )
