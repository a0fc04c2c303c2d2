"""survey new, preview, codes, status, close, export: the survey operator's commands."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.api.cli.blocks import with_blocks
from sfumato.api.cli.console import AsPublished, Console, Force, Quiet
from sfumato.api.cli.study import PublicStartUp, StudyId, make_study, respondents_link
from sfumato.api.cli.tables import AtCoordinator, AtServer
from sfumato.core.errors import OutputError
from sfumato.core.wording import counted
from sfumato.study import server_part

if TYPE_CHECKING:  # --help needs none of it
    from sfumato.study.protocol.survey_file import SurveyStudy

app = typer.Typer(no_args_is_help=True, help="Surveys whose respondents blur their own answers.")

SurveyFile = Annotated[Path, typer.Argument(metavar="SURVEY_FILE", help="The survey, as YAML.")]


def read_survey(path: Path, *, published: bool = False) -> SurveyStudy:
    """The survey in a file."""
    from sfumato.api.survey import read_survey as read

    return read(path, published=published)


@app.command()
@with_blocks
def new(
    file: SurveyFile,
    server: AtServer,
    console: Console,
    public_start_up: PublicStartUp = False,
    as_published: AsPublished = False,
) -> None:
    """Create a survey on this machine's server; the same as `sfumato study new`.

    Respondents get the link that is printed: its hash says which survey they are asked to answer, whatever the server
    shows them. A survey cannot be edited afterwards: create a new one.

    Example: sfumato survey new survey.yaml --data server
    """
    read_survey(file, published=as_published)
    make_study(file, server, console, public_start_up=public_start_up, as_published=as_published)


@app.command()
def preview(
    file: SurveyFile,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Show the survey in a browser on this machine until Ctrl-C; no answer is kept.

    Example: sfumato survey preview survey.yaml
    """
    survey = read_survey(file)
    with tempfile.TemporaryDirectory() as folder:
        settings = server_part("settings").Settings(data=Path(folder), worker=False)
        store = server_part("store").Store.open(settings)
        identity, _ = store.studies.create(survey)
        fragment = respondents_link(identity, store.studies.find(identity).hash)
        store.close()

        def ready(address: str) -> None:
            print(f"{address}{fragment}", flush=True)

        with contextlib.suppress(KeyboardInterrupt):
            server_part("run").serve(settings, "127.0.0.1", port, ready)
    Console(quiet).say("Stopped; nothing was kept.")


@app.command()
@with_blocks
def codes(
    study: StudyId,
    number: Annotated[int, typer.Option(help="How many single-use codes.")],
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="File to write them to, one per line; only you can read it.")
    ],
    at: AtCoordinator,
    console: Console,
) -> None:
    """Create invitation codes for a survey that requires them; the server cannot tell which answer used which code.

    Example: sfumato survey codes k3f9abcd2345 --number 500 --out codes.txt --to https://study.example
    """
    from sfumato.core.files import write_whole

    if out.exists():
        raise OutputError(f"{out} exists already. Choose another name.")
    with at.connected(console) as connected:
        made = connected.survey_codes(study, number)
        link = respondents_link(study, connected.study(study).hash)
    write_whole(out, "".join(f"{code}\n" for code in made), private=True)
    console.say(f"Wrote {counted(len(made), 'code')} to {out}. Each opens one answer: {at.to}{link}&code=CODE")
    console.result({"codes": len(made), "file": str(out)})


@app.command()
@with_blocks
def status(
    study: StudyId,
    at: AtCoordinator,
    console: Console,
) -> None:
    """Show the progress of a survey: answers, versions of the guidance, the level, and what it lets anybody learn.

    Example: sfumato survey status k3f9abcd2345 --to https://study.example --token-file owner.token
    """
    from sfumato.guarantee.rounding import epsilon_at_most, rounded_up

    with at.connected(console) as connected:
        found = connected.survey_progress(study)
    latest = found["versions"][-1]
    console.say(f"{counted(found['answers'], 'answer')}, of which the guidance has counted {found['counted']:,}.")
    epsilon = epsilon_at_most(latest["epsilon"], none="none (no floor)")
    console.say(f"Guidance version {latest['version']}: level {latest['k']}, epsilon {epsilon} for one answer.")
    if told := found.get("disclosure_at_even_choices"):
        console.say(
            f"Disclosed at even choices: {told['share']:.1%} of the {told['of_bits']:.1f} bits that answers hold if "
            "every choice is equally likely, on average over people. A plan and an audit take people's own answers, "
            f"and their shares differ. No guidance of level {latest['k']} discloses more than "
            f"{rounded_up(found['most_bits'])} bits of an answer on average, whoever answers."
        )
    if found["state"] == "closed":
        console.say("The survey is closed: no more answers are accepted.")
    if found["codes"]:
        console.say(f"Invitations: {found['codes']['used']:,} of {found['codes']['given']:,} codes were used.")
    console.result(found)


@app.command()
@with_blocks
def close(
    study: StudyId,
    at: AtCoordinator,
    console: Console,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask first.")] = False,
) -> None:
    """Close a survey by hand: it accepts no more answers, for good. What was received stays.

    Answers that still wait on people's devices are not sent any more. A day of closing stands in the survey file
    (`closes`); this is for an earlier end.

    Example: sfumato survey close k3f9abcd2345 --to https://study.example --token-file owner.token
    """
    if not yes:
        typer.confirm("A closed survey cannot be opened again. Close it?", abort=True, err=True)
    with at.connected(console) as connected:
        connected.survey_close(study)
    console.say("The survey is closed. It accepts no more answers from now on.")
    console.result({"study": study, "state": "closed"})


@app.command()
@with_blocks
def export(
    study: StudyId,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")],
    at: AtCoordinator,
    console: Console,
    force: Force = False,
) -> None:
    """Fetch the received bits with their cards, one folder for each version of the guidance.

    Train on them as on any release: sfumato train DIR/part-* --classifier bernoulli-naive-bayes --out model.skops

    Example: sfumato survey export k3f9abcd2345 --out bits --to https://study.example --token-file owner.token
    """
    from sfumato.study.client.coordinator import export_survey

    with at.connected(console) as connected:
        parts = export_survey(connected, study, out, force=force)
    rows = sum(json.loads((part / "card.json").read_text())["rows"] for part in parts)
    console.say(f"Wrote {counted(rows, 'answer')} of {counted(len(parts), 'version')} to {out}.")
    console.result({"folder": str(out), "parts": len(parts), "rows": rows})
