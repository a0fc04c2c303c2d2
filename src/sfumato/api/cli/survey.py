"""survey new, preview, codes, status, close, export: for its owner; verify, witness, page: for others; respond."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfumato.api.cli.console import AsPublished, Console, Force, Quiet, Yes, argument, option
from sfumato.api.cli.study import PublicStartUp, StudyId, respondents_link
from sfumato.api.cli.study import new as new_study
from sfumato.api.cli.tables import AtCoordinator, AtServer, InsecureHttp, IntoFolder
from sfumato.core.asked import REQUIRED, asked, optional, switch
from sfumato.core.errors import NothingNewError, UsageError
from sfumato.core.files import check_free, write_whole
from sfumato.core.wording import counted
from sfumato.study import server_part
from sfumato.study.asked import RespondAsked

if TYPE_CHECKING:
    from sfumato.study.client.respondent import Drawn, Prepared
    from sfumato.study.client.survey_server import SurveyServer
    from sfumato.study.protocol.survey_file import SurveyStudy


app = typer.Typer(no_args_is_help=True, help="Surveys whose respondents blur their own answers.")

SurveyFile = Annotated[Path, argument("SURVEY_FILE", "The survey, as YAML.")]


@app.command()
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
    from sfumato.study.protocol.study_file import load_survey

    load_survey(file, published=as_published)
    new_study(file, server, console, public_start_up, as_published)


@app.command()
def preview(
    file: SurveyFile, port: int = asked(0, "Port to listen on; 0 picks a free one."), quiet: Quiet = False
) -> None:
    """Show the survey in a browser on this machine until Ctrl-C; no answer is kept.

    Example: sfumato survey preview survey.yaml
    """
    from sfumato.study.protocol.study_file import load_survey

    survey = load_survey(file)
    with tempfile.TemporaryDirectory() as folder:
        settings = server_part("settings").Settings(data=Path(folder), worker=False)
        store = server_part("store").Store.open(settings)
        identity, _ = store.studies.create(survey)
        fragment = respondents_link(identity, store.studies.find(identity).hash)
        store.close()

        def ready(address: str) -> None:
            print(f"{address}{fragment}", flush=True)

        with contextlib.suppress(KeyboardInterrupt):
            server_part("app").serve(settings, "127.0.0.1", port, ready)
    Console(quiet).say("Stopped; nothing was kept.")


@app.command()
def codes(
    study: StudyId,
    at: AtCoordinator,
    console: Console,
    number: int = asked(REQUIRED, "How many single-use codes."),
    out: Path = asked(REQUIRED, "File to write them to, one per line; only you can read it.", metavar="FILE"),
    force: Force = False,
) -> None:
    """Create invitation codes for a survey that requires them; the server cannot tell which answer used which code.

    Example: sfumato survey codes k3f9abcd2345 --number 500 --out codes.txt --to https://study.example
    """
    check_free(out, force=force)
    with at.connected(console) as connected:
        made = connected.survey_codes(study, number)
        link = respondents_link(study, connected.study(study).hash)
    write_whole(out, "".join(f"{code}\n" for code in made), private=True)
    console.say(f"Wrote {counted(len(made), 'code')} to {out}. Each opens one answer: {at.to}{link}&code=CODE")
    console.result({"codes": len(made), "file": str(out)})


@app.command()
def status(study: StudyId, at: AtCoordinator, console: Console) -> None:
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
def close(study: StudyId, at: AtCoordinator, console: Console, yes: Yes = False) -> None:
    """Close a survey by hand: it accepts no more answers, for good. What was received stays.

    Answers that still wait on people's devices are not sent any more. A day of closing stands in the survey file
    (`closes`); this is for an earlier end.

    Example: sfumato survey close k3f9abcd2345 --to https://study.example --token-file owner.token
    """
    if not yes:
        console.confirm(
            "A closed survey cannot be opened again. Close it?",
            unasked="A closed survey cannot be opened again. If it is to be closed, add --yes.",
            kept="the survey stays open",
        )
    with at.connected(console) as connected:
        connected.survey_close(study)
    console.say("The survey is closed. It accepts no more answers from now on.")
    console.result({"study": study, "state": "closed"})


@app.command()
def export(study: StudyId, into: IntoFolder, at: AtCoordinator, console: Console) -> None:
    """Fetch the received bits with their cards, one folder for each version of the guidance.

    Train on them as on any release: sfumato train DIR/part-* --classifier bernoulli-naive-bayes --out model.skops

    Example: sfumato survey export k3f9abcd2345 --out bits --to https://study.example --token-file owner.token
    """
    from sfumato.study.client.coordinator import export_survey

    with at.connected(console) as connected:
        parts = export_survey(connected, study, into.out, force=into.force)
    rows = sum(json.loads((part / "card.json").read_text(encoding="utf-8"))["rows"] for part in parts)
    console.say(f"Wrote {counted(rows, 'answer')} of {counted(len(parts), 'version')} to {into.out}.")
    console.result({"folder": str(into.out), "parts": len(parts), "rows": rows})


@dataclass(frozen=True)
class AtSurvey:
    """The survey behind a link."""

    link: Annotated[str, argument("URL", "The survey's link: https://host/survey/#survey=ID&hash=HASH.")]
    insecure_http: InsecureHttp = False

    def server(self) -> SurveyServer:
        """To be used in a `with` block."""
        from sfumato.study.client.survey_server import SurveyServer

        return SurveyServer(self.link, insecure_http=self.insecure_http)


@app.command()
def verify(
    at: AtSurvey,
    console: Console,
    last: int = asked(0, "Recompute this many of the newest versions; 0 for all."),
    witnesses: list[str] | None = optional(
        "A witness of your own choice, an address or a file; it must agree. Repeatable.",
        flag="--witness",
        metavar="WHERE",
    ),
) -> None:
    """Follow a survey's public log from its beginning, and recompute the guidance from the published counts.

    Example: sfumato survey verify 'https://study.example/survey/#survey=k3f9abcd2345&hash=HASH'
    """
    from sfumato.study.client.survey_server import verify_survey

    if last < 0:
        raise UsageError(f"--last must be at least 0. Got {last} instead.")
    with at.server() as server, console.listening() as progress:
        found = verify_survey(server, last=last or None, pinned=witnesses or (), progress=progress)
    named = "the one in the link" if found.pinned else "the link names none: compare it by other means"
    console.say(
        f"{found.entries} versions follow from each other; {found.recomputed} were recomputed from their counts and "
        f"are right. {found.answers:,} answers were counted.\nhead {found.head} (version {found.version}); "
        f"{found.witnesses}\nsurvey {found.survey} ({named})"
    )
    console.result(found._asdict())


@app.command()
def witness(
    at: AtSurvey,
    console: Console,
    out: Path = asked(REQUIRED, "File to publish where respondents can read it.", metavar="FILE"),
) -> None:
    """Be a witness: check that the log continues what FILE says, and write its newest entry there for others to see.

    Run it every few minutes and publish FILE; respondents compare it with what the server shows them. Its address goes
    into the link (&witness=ADDRESS), so that the server does not name its own witnesses.

    Example: sfumato survey witness 'https://study.example/survey/#survey=k3f9abcd2345&hash=HASH' --out public/head.json
    """
    from sfumato.study.client.survey_server import witness_survey

    with at.server() as server:
        found = witness_survey(server, out)
    console.say(f"Witnessed version {found['version']}: {out}")
    console.result(found)


@app.command()
def page(
    console: Console,
    out: Path | None = optional("Folder to write, for anybody to serve.", metavar="DIR"),
    show_hash: bool = switch("Only print the hash of the page's files.", flag="--hash"),
    force: Force = False,
) -> None:
    """Write the respondents' page to a folder, for a host other than the survey's server, or print its hash.

    A page from elsewhere asks for the survey at the address in its link:
    https://elsewhere/DIR/#survey=https://study.example/api/v1/surveys/ID&hash=HASH

    The hash is that of all files together (LC_ALL=C sha256sum * | sha256sum) and is published for every version.

    Example: sfumato survey page --out survey-page
    """
    from sfumato.core.files import new_folder

    part = server_part("web.rendering")
    if (out is None) is not show_hash:
        raise UsageError("Give either --out DIR or --hash.")
    digest, published = part.page_hash(part.page_files()), part.published_hashes()
    if digest != published["current"]:
        raise UsageError(
            "The page in this installation is not the one that was packaged: its files were changed. Install sfumato "
            "again."
        )
    version = next((name for name, known in published["released"].items() if known == digest), None)
    if out is not None:
        with new_folder(out, force=force) as folder:
            part.write_page(folder)
    console.say(f"{digest}  {f'page of version {version}' if version else 'page of no released version'}")
    console.result({"hash": digest, "version": version, "folder": out})


CODE_VARIABLE = "SFUMATO_CODE"


@dataclass(frozen=True)
class Sending:
    """Whether, and how often, something is sent."""

    again: Annotated[bool, option("Answer even if an answer from this file was sent before.")] = False
    dry_run: Annotated[bool, option("Show what would be sent, and send nothing.")] = False
    yes: Yes = False


def respond(
    at: AtSurvey,
    accepts: RespondAsked,
    sending: Sending,
    console: Console,
    answers: Path = asked(REQUIRED, "Your answers, name: answer, as YAML or JSON.", metavar="FILE"),
    code_file: Path | None = optional(f"Your invitation; otherwise the variable {CODE_VARIABLE}.", metavar="FILE"),
) -> None:
    """Answer a survey: ask for the level, recompute the guidance, blur the answers here, show the bits, send them.

    The hash in the link says which survey this must be; without one, what is shown is taken on trust. An invitation is
    exchanged for a ticket first, which does not reveal whose answer it comes with.

    A question that the file leaves out counts as "prefer not to say". Bits are drawn once: if sending fails, the same
    command sends the same bits again. An answer that was sent is not drawn a second time without --again. A dry run
    shows the bits that wait, if some do; else an example, since the run that sends draws its own.

    Example: sfumato respond 'https://study.example/survey/#survey=k3f9&hash=HASH' --answers me.yaml --max-level 3
    """
    from sfumato.study.client.private_notes import RememberedHeads
    from sfumato.study.client.respondent import Device, TicketBox, alone, pending_path, prepare, send, waiting, was_sent

    given, code = read_answers(answers), read_code(code_file)
    heads = RememberedHeads.usual()
    server = at.server()
    pending = pending_path(heads.path.parent, server, answers)
    tickets = TicketBox(pending.with_name(pending.name.replace("answer-", "ticket-")))
    with server, nullcontext() if sending.dry_run else alone(pending):
        if was_sent(pending) and not (sending.again or sending.dry_run):
            raise NothingNewError(
                f"The answers in {answers} were sent to this survey before, and another draw would reveal more about "
                "them. Nothing was sent. Add --again if the file now contains another person's answers."
            )
        if pending.exists() and not was_sent(pending):
            if sending.dry_run:
                survey, drawn = server.describe()[0], waiting(pending)
                console.say("These bits were drawn before, and the same command sends them:")
                console.say_each(marks(survey, drawn))
                console.say("Nothing was sent.")
                console.result({"survey": survey.hash, "bits": drawn.bits, "waiting": True, "sent": False})
                return
            new = send(server, waiting(pending), pending)
            tickets.clear()
            console.say("The bits that were drawn before are " + ("now sent." if new else "with the survey already."))
            console.result({"sent": True, "counted": new})
            return
        device = Device(heads, None if sending.dry_run else tickets, code)
        prepared = prepare(server, given, accepts, device)
        console.say_each(shown(prepared, linked=server.link.hash is not None, example=sending.dry_run))
        told: dict[str, Any] = {"survey": prepared.survey.hash, "level": prepared.k, "epsilon": prepared.epsilon}
        told |= {"witnesses": prepared.witnesses, "bits": prepared.drawn.bits}
        if sending.dry_run:
            console.say(
                "Nothing was sent. The run that sends draws bits of its own: these only show what they are like."
            )
            console.result({**told, "waiting": False, "sent": False})
            return
        if not sending.yes:
            nobody = "Nothing was sent: no person is here to look at it. Add --yes to send without asking."
            console.confirm("Send?", unasked=nobody)
        new = send(server, prepared.drawn, pending)
        tickets.clear()
    console.say("Sent." if new else "The survey already had this answer.")
    console.result({**told, "sent": True, "counted": new})


def read_answers(path: Path) -> dict[str, Any]:
    """The answers of one person; the error never quotes them."""
    from sfumato.core.errors import SchemaError
    from sfumato.table.schema import read_yaml

    if not path.is_file():
        raise UsageError(f"There is no file {path} with answers.")
    try:
        found = read_yaml(path)
    except SchemaError as error:
        raise UsageError(f"{path}: {error}") from None
    if not isinstance(found, dict) or not found or not all(isinstance(name, str) for name in found):
        raise UsageError(f"{path} must hold one line for each question, like `smokes: no`.")
    return found


def read_code(file: Path | None) -> str | None:
    """A code of invitation, from a file or the environment, so that it stays out of the shell's history."""
    if file is None:
        return os.environ.get(CODE_VARIABLE) or None
    if not file.is_file():
        raise UsageError(f"There is no file {file} with an invitation.")
    return file.read_text(encoding="utf-8").strip() or None


def shown(prepared: Prepared, *, linked: bool, example: bool) -> list[str]:
    """Exactly what would leave this machine, or an example of it, and what it is worth to others."""
    from sfumato.guarantee.rounding import epsilon_at_most

    survey = prepared.survey
    return [
        f"{survey.name}, asked by {survey.by}",
        f"{survey.hash} " + ("(as in the link)" if linked else "(the link names none: compare it by other means)"),
        f"Level {prepared.k}; epsilon {epsilon_at_most(prepared.epsilon)} for all answers together; "
        f"{prepared.witnesses}.",
        f"{'Bits like these' if example else 'These bits'} would be sent:",
        *marks(survey, prepared.drawn),
        "A sent answer cannot be withdrawn: the server cannot tell whose it is.",
    ]


def marks(survey: SurveyStudy, drawn: Drawn) -> Iterator[str]:
    """The bits of an answer, question by question."""
    bits = iter(range(survey.width))
    for question in survey.questions:
        told = (f"{choice.value}={int(next(bits) in drawn.bits)}" for choice in question.choices)
        yield f"  {question.name}: {' '.join(told)}"
    yield f"  (1: the mark is set), with your answer to {survey.label.name!r} as it is: {survey.classes[drawn.label]}"
