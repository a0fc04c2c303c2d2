"""survey plan, audit: what is found out before anybody is asked."""

from __future__ import annotations

from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from sfumato.api.cli.blocks import with_blocks
from sfumato.api.cli.console import AsPublished, Console, Force
from sfumato.api.cli.survey import SurveyFile, read_survey
from sfumato.core.errors import UsageError

if TYPE_CHECKING:  # --help needs none of it
    from sfumato.study.survey_plan import Kind

app = typer.Typer()

Classifier = Literal["naive-bayes", "id3"]


def _waiting(kind: Kind) -> str:
    """One line of a plan: who they are, how many sent, how long they waited."""
    limit = "any level" if kind.level is None else f"level {kind.level}"
    words = f"{kind.name} ({limit}): {kind.sent:.0%} sent"
    if kind.waited is not None:
        words += f", after {kind.waited:,.0f} others arrived (95%: {kind.waited_95:,.0f})"
    return f"{words}; {kind.never:.0%} never" if kind.never else words


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
        float, typer.Option(help="Without a population: how typical of its class an informative answer is.")
    ] = 0.5,
    informative: Annotated[
        int, typer.Option(help="Without a population: how many questions separate the classes.")
    ] = 3,
    classifier: Annotated[Classifier, typer.Option(help="Learner of the received bits.")] = "naive-bayes",
    as_published: AsPublished = False,
    limits: Annotated[
        str | None,
        typer.Option(
            metavar="A/B/C", help="Percent of fundamentalists, pragmatists and people who hardly mind: 17/56/27."
        ),
    ] = None,
    limit_levels: Annotated[
        str, typer.Option(metavar="A/B", help="With --limits: the largest level that the first two accept.")
    ] = "1/4",
    whole_tuple: Annotated[
        float | None,
        typer.Option(
            metavar="THETA", help="Compare with whole-tuple response: each answer is sent with this probability."
        ),
    ] = None,
) -> None:
    """Simulate how many respondents an accuracy needs, at several floors; no person is asked.

    Without a population, people are invented, and the plan is only as good as that assumption. With --limits people
    wait until the level suits them, and the plan tells for how long and who never sends.

    Example: sfumato survey plan survey.yaml --accuracy 0.85 --population earlier.csv
    """
    from dataclasses import asdict

    from sfumato.api.survey import plan_survey

    with console.listening() as progress:
        found = plan_survey(
            file,
            accuracy,
            population=population,
            floors=floor,
            classifier=classifier,
            limits=limits,
            limit_levels=limit_levels,
            whole_tuple=whole_tuple,
            strength=strength,
            informative=informative,
            published=as_published,
            progress=progress,
        )
    origin = "assumed people" if population is None else f"people of {population}"
    console.say(
        f"Simulated with {origin}. Plain answers would reach {found.plain:.3f}, always the commonest answer "
        f"{found.majority:.3f}."
    )
    console.say("floor  respondents  accuracy         disclosed by question  epsilon  level")
    for case in found.cases:
        console.say(
            f"{case.floor:5.2f}  {case.respondents:11,}  {case.accuracy:.3f} +- {case.spread:.3f}"
            f"  {case.disclosure_by_question:21.1%}  {case.epsilon:7.1f}  {case.level:5.1f}"
        )
        for kind in case.kinds:
            console.say(f"         {_waiting(kind)}")
    console.say("Disclosed by question: bits that an answer tells, over the sum of the single questions' entropies.")
    for tried in dict.fromkeys(case.floor for case in found.cases):
        needed = found.needed(tried)
        words = f"needs {needed:,} respondents" if needed else "was not reached by any number that was tried"
        console.say(f"Floor {tried:g}: accuracy {accuracy:g} {words}.")
    if found.whole_tuple is not None:
        told = found.whole_tuple
        console.say(
            f"Whole-tuple response with theta {told['theta']:g} and {told['respondents']:,} respondents: accuracy "
            f"{told['accuracy']:.3f}, disclosed by question {told['disclosure_by_question']:.1%}, and no epsilon: a "
            "row shows the whole answer, or all of it turned over."
        )
    for warning in found.warnings:
        console.say(warning)
    console.result({**asdict(found), "needed": {str(case.floor): found.needed(case.floor) for case in found.cases}})


@app.command("audit")
@with_blocks
def audit_survey(
    file: SurveyFile,
    population: Annotated[Path, typer.Option(metavar="TABLE", help="Plain answers of people who play respondents.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write; it contains the people and is private.")],
    console: Console,
    part: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A part that `survey export` wrote: its guidance is audited.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="For the audit's own sampling.")] = 0,
    force: Force = False,
) -> None:
    """Try every attacker on simulated answers, and let malicious collectors make up the guidance.

    It ends with the paper's two degrees: of disclosure, over all guidance of this level, and of error.

    Without --part, the guidance is what a survey of these people would end with. An empty cell is "prefer not to say".

    Example: sfumato survey audit survey.yaml --population earlier.csv --out survey-audit
    """
    from sfumato.api.cli.audit import attack_lines, wrapped
    from sfumato.auditing.report import write_report
    from sfumato.auditing.survey_audit import audit_survey as run
    from sfumato.auditing.survey_audit import miner_dict
    from sfumato.channels.guidance import encode_matrix, simulate
    from sfumato.guarantee import Card
    from sfumato.study.protocol.survey_guidance import answer_space, startup_counts, survey_rules
    from sfumato.study.protocol.survey_table import answered, answers_in_words, population_of, survey_encoding
    from sfumato.table import open_table

    survey = read_survey(file)
    table = answered(survey, open_table(population).read(), seed)
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
    for told in attack_lines(found.audit.data):
        for line in wrapped(told, min(get_terminal_size().columns, 100)):
            console.say(line)
    console.say()
    console.say("Collectors who make up the guidance, for the question that they read best:")
    for one in found.miners:
        read = one.reading
        console.say(
            f"  {one.kind:<11} floor {one.floor:4.2f}  certain of {read.identified:5.1%}, right about "
            f"{read.right:5.1%} (usual answer {read.baseline:5.1%})  {one.question}"
        )
    for sentence in found.measures.sentences():
        console.say(sentence)
    console.say(f"Report (private): {out / 'answers' / 'report.html'}")
    console.result(
        {
            "folder": str(out),
            "miners": [miner_dict(one) for one in found.miners],
            "attacks": found.audit.data["attacks"],
            "measures": found.measures.to_dict(),
        }
    )
