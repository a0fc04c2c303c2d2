"""survey plan, audit, new, preview, codes, status, export: the survey operator's commands."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.at_coordinator import AtCoordinator
from sfumato.cli.at_server import AtServer, server_part
from sfumato.cli.blocks import with_blocks
from sfumato.cli.console import Console, Force, Quiet
from sfumato.cli.study import StudyId, make_study
from sfumato.cli.survey_terms import PublicStartUp, respondents_link
from sfumato.errors import OutputError, SchemaError, UsageError
from sfumato.wording import counted

if TYPE_CHECKING:  # --help needs none of it
    from sfumato.protocol.survey_file import SurveyStudy

app = typer.Typer(no_args_is_help=True, help="Surveys whose respondents blur their answers themselves.")

SurveyFile = Annotated[Path, typer.Argument(metavar="SURVEY_FILE", help="The survey, as YAML.")]


def read_survey(path: Path) -> SurveyStudy:
    """The survey in a file."""
    from sfumato.protocol.study_file import load_study
    from sfumato.protocol.survey_file import SurveyStudy

    if not path.is_file():
        raise UsageError(f"There is no survey file {path}.")
    survey = load_study(path)
    if not isinstance(survey, SurveyStudy):
        raise SchemaError(f"{path} describes another kind of study. A survey begins with `kind: survey`.")
    return survey


@app.command()
@with_blocks
def plan(
    file: SurveyFile,
    accuracy: Annotated[float, typer.Option(metavar="SHARE", help="Accuracy that the classifier should reach.")],
    console: Console,
    population: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Plain answers of an earlier study, with their classes.")
    ] = None,
    floor: Annotated[list[float] | None, typer.Option(help="Floors to try; repeatable.")] = None,
    strength: Annotated[
        float, typer.Option(help="Without a population: how typical of its class a telling answer is.")
    ] = 0.5,
    informative: Annotated[int, typer.Option(help="Without a population: how many questions tell the classes.")] = 3,
) -> None:
    """How many respondents are needed for an accuracy, at several floors, by simulation; nobody is asked.

    Without a population people are assumed, and the plan is worth what the assumption is.

    Example: sfumato survey plan survey.yaml --accuracy 0.85 --population earlier.csv
    """
    from dataclasses import asdict

    from sfumato.jobs.survey_plan import FLOORS, assumed_population, plan_survey
    from sfumato.protocol.start_up import RANDOM
    from sfumato.protocol.survey_guidance import answer_space, startup_counts, survey_rules
    from sfumato.protocol.survey_table import population_of
    from sfumato.table import open_table

    survey = read_survey(file)
    space = answer_space(survey)
    if population is None:
        people = assumed_population(space, len(survey.classes), informative=informative, strength=strength)
    else:
        people = population_of(survey, open_table(population).read())
    startup = None if survey.start_up == RANDOM else startup_counts(survey)
    with console.listening() as progress:
        found = plan_survey(
            space,
            accuracy,
            people,
            rules=survey_rules(survey),
            floors=floor or FLOORS,
            startup=startup,
            progress=progress,
        )
    origin = "assumed people" if population is None else f"people of {population}"
    console.say(f"Simulated with {origin}. Plain answers would reach {found.plain:.3f}, guessing {found.majority:.3f}.")
    console.say("floor  respondents  accuracy         disclosure  epsilon  level")
    for case in found.cases:
        console.say(
            f"{case.floor:5.2f}  {case.respondents:11,}  {case.accuracy:.3f} +- {case.spread:.3f}"
            f"  {case.disclosure:10.1%}  {case.epsilon:7.1f}  {case.level:5.1f}"
        )
    for tried in dict.fromkeys(case.floor for case in found.cases):
        needed = found.needed(tried)
        words = f"needs {needed:,} respondents" if needed else "was not reached by any number that was tried"
        console.say(f"Floor {tried:g}: accuracy {accuracy:g} {words}.")
    console.result({**asdict(found), "needed": {str(case.floor): found.needed(case.floor) for case in found.cases}})


@app.command()
@with_blocks
def new(
    file: SurveyFile,
    server: AtServer,
    console: Console,
    public_start_up: PublicStartUp = False,
) -> None:
    """Make a survey on this machine's server; the same as `sfumato study new`.

    Respondents get the link that is printed: its hash says which survey they are asked to answer, whatever the server
    shows them. A survey cannot be edited afterwards: make a new one.

    Example: sfumato survey new survey.yaml --data server
    """
    read_survey(file)
    make_study(file, server, console, public_start_up=public_start_up)


@app.command()
def preview(
    file: SurveyFile,
    port: Annotated[int, typer.Option(help="Port to listen at; 0 takes a free one.")] = 0,
    quiet: Quiet = False,
) -> None:
    """Show the survey in a browser on this machine until Ctrl-C; nothing that is answered is kept.

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
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write them to, one a line; only you can read it.")],
    at: AtCoordinator,
    console: Console,
) -> None:
    """Make codes of invitation for a survey that asks for them; which answer used which code cannot be told.

    Example: sfumato survey codes k3f9abcd2345 --number 500 --out codes.txt --to https://study.example
    """
    from sfumato.files import write_whole

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
    """How a survey goes: answers, versions of the guidance, the level and what it allows to learn.

    Example: sfumato survey status k3f9abcd2345 --to https://study.example --token-file owner.token
    """
    from sfumato.guarantee.rounding import epsilon_at_most

    with at.connected(console) as connected:
        found = connected.survey_progress(study)
    latest = found["versions"][-1]
    console.say(f"{counted(found['answers'], 'answer')}, of which the guidance has counted {found['counted']:,}.")
    epsilon = epsilon_at_most(latest["epsilon"], none="none (no floor)")
    console.say(f"Guidance version {latest['version']}: level {latest['k']}, epsilon {epsilon} for one answer.")
    if found["codes"]:
        console.say(f"Invitations: {found['codes']['used']:,} of {found['codes']['given']:,} codes were used.")
    console.result(found)


@app.command("audit")
@with_blocks
def audit_survey(
    file: SurveyFile,
    population: Annotated[Path, typer.Option(metavar="TABLE", help="Plain answers of people who play respondents.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write; it holds the people and is private.")],
    console: Console,
    part: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A part that `survey export` wrote: its guidance is audited.")
    ] = None,
    seed: Annotated[int, typer.Option(help="For the audit's own sampling.")] = 0,
    force: Force = False,
) -> None:
    """Attack simulated answers with every attack, and let malicious collectors make up the guidance.

    Without --part the guidance is the one that a survey of these people would end with.

    Example: sfumato survey audit survey.yaml --population earlier.csv --out survey-audit
    """
    from sfumato.cli.audit import attack_lines
    from sfumato.guarantee import Card
    from sfumato.guidance import encode_matrix, simulate
    from sfumato.jobs.survey_audit import audit_survey as run
    from sfumato.jobs.survey_audit import miner_dict
    from sfumato.protocol.survey_guidance import answer_space, startup_counts, survey_rules
    from sfumato.protocol.survey_table import answers_in_words, population_of, survey_encoding
    from sfumato.report import write_report
    from sfumato.table import open_table

    survey = read_survey(file)
    table = open_table(population).read()
    if part is not None:
        card = Card.load(part)
        if card.source_schema != survey_encoding(survey).schema.to_dict() or "guidance" not in card.transform:
            raise UsageError(f"{part} is not a part of this survey. Give a folder that `sfumato survey export` wrote.")
        guidance = str(card.transform["guidance"])
    else:
        codes, y = population_of(survey, table)
        rules, start = survey_rules(survey), startup_counts(survey)
        ended = simulate(codes, y, answer_space(survey), rules, startup=start, seed=seed, keep_rows=False)
        guidance = encode_matrix(ended.versions[-1].guidance.V)
    with console.listening() as progress:
        found = run(
            answers_in_words(survey, table),
            survey_encoding(survey).schema,
            guidance,
            out,
            floor=survey.floor,
            link=survey.link,
            seed=seed,
            force=force,
            progress=progress,
            report=write_report,
        )
    for line in attack_lines(found.audit.data):
        console.say(line)
    console.say()
    console.say("Collectors who make up the guidance, at the question that they read best:")
    for one in found.miners:
        read = one.reading
        console.say(
            f"  {one.kind:<11} floor {one.floor:4.2f}  certain of {read.identified:5.1%}, right about "
            f"{read.right:5.1%} (usual answer {read.baseline:5.1%})  {one.question}"
        )
    console.say(f"Report (private): {out / 'answers' / 'report.html'}")
    miners = [miner_dict(one) for one in found.miners]
    console.result({"folder": str(out), "miners": miners, "attacks": found.audit.data["attacks"]})


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

    Train on them like on any release: sfumato train DIR/part-* --classifier bernoulli-naive-bayes --out model.skops

    Example: sfumato survey export k3f9abcd2345 --out bits --to https://study.example --token-file owner.token
    """
    from sfumato.client.survey_export import export_survey

    with at.connected(console) as connected:
        parts = export_survey(connected, study, out, force=force)
    rows = sum(json.loads((part / "card.json").read_text())["rows"] for part in parts)
    console.say(f"Wrote {counted(rows, 'answer')} of {counted(len(parts), 'version')} to {out}.")
    console.result({"folder": str(out), "parts": len(parts), "rows": rows})
