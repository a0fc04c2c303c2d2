"""survey plan, audit, edges: what is found out before anybody is asked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from shutil import get_terminal_size
from typing import Annotated, Any

from sfumato.api.cli.blocks import keywords
from sfumato.api.cli.console import Console, Force, argument
from sfumato.api.cli.survey import SurveyFile, app
from sfumato.auditing.asked import SurveyAuditAsked
from sfumato.core.asked import REQUIRED, asked, optional
from sfumato.core.errors import SchemaError, UsageError
from sfumato.core.files import check_free, write_whole
from sfumato.study.asked import EdgesAsked, SurveyPlanAsked


@app.command()
def plan(
    file: SurveyFile,
    options: SurveyPlanAsked,
    console: Console,
    accuracy: float = asked(REQUIRED, "Accuracy that the classifier should reach.", metavar="SHARE"),
) -> None:
    """Simulate how many respondents an accuracy needs, at several floors; no person is asked.

    Without a population, people are invented, and the plan is only as good as that assumption. With --limits people
    wait until the level suits them, and the plan tells for how long and who never sends.

    Example: sfumato survey plan survey.yaml --accuracy 0.85 --population earlier.csv
    """
    from dataclasses import asdict

    from sfumato.study.survey_plan import plan_survey

    with console.listening() as progress:
        found = plan_survey(file, accuracy, **keywords(options), progress=progress)
    origin = "assumed people" if options.population is None else f"people of {options.population}"
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
            limit = "any level" if kind.level is None else f"level {kind.level}"
            waited = ""
            if kind.waited is not None:
                waited = f", after {kind.waited:,.0f} others arrived (95%: {kind.waited_95:,.0f})"
            never = f"; {kind.never:.0%} never" if kind.never else ""
            console.say(f"         {kind.name} ({limit}): {kind.sent:.0%} sent{waited}{never}")
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
def audit_survey(
    file: SurveyFile,
    options: SurveyAuditAsked,
    console: Console,
    population: Path = asked(REQUIRED, "Plain answers of people who play respondents.", metavar="TABLE"),
    part: Path | None = optional("A part that `survey export` wrote: its guidance is audited.", metavar="DIR"),
) -> None:
    """Try every attacker on simulated answers, and let malicious collectors make up the guidance.

    It ends with the paper's two degrees: of disclosure, over all guidance of this level, and of error.

    Without --part, the guidance is what a survey of these people would end with. An empty cell is "prefer not to say".

    Example: sfumato survey audit survey.yaml --population earlier.csv --out survey-audit
    """
    from sfumato.api.cli.audit import attack_lines, wrapped
    from sfumato.auditing.survey_audit import audit_survey as run
    from sfumato.channels.guidance.guidance import encode_matrix
    from sfumato.study.protocol.study_file import load_survey
    from sfumato.study.protocol.survey_guidance import answered, answers_in_words, survey_encoding, survey_rules
    from sfumato.study.survey_plan import guidance_at_the_end, guidance_of_part
    from sfumato.table import open_table

    survey = load_survey(file)
    table, rules = answered(survey, open_table(population).read(), options.seed), survey_rules(survey)
    if part is not None:
        guidance = guidance_of_part(survey, part)
    else:
        guidance = encode_matrix(guidance_at_the_end(survey, table, options.seed))
    schema = survey_encoding(survey).schema
    with console.listening() as progress:
        words = answers_in_words(survey, table)
        found, miners, measures = run(words, schema, guidance, rules, replace(options, progress=progress))
    width = min(get_terminal_size().columns, 100)
    console.say_each(line for told in attack_lines(found.data) for line in wrapped(told, width))
    console.say()
    console.say("Collectors who make up the guidance, for the question that they read best:")
    for one in miners:
        console.say(
            f"  {one['kind']:<11} floor {one['floor']:4.2f}  certain of {one['identified']:5.1%}, right about "
            f"{one['right']:5.1%} (usual answer {one['baseline']:5.1%})  {one['question']}"
        )
    console.say_each(measures.sentences())
    console.say(f"Report (private): {Path(options.out) / 'answers' / 'report.html'}")
    console.result(
        {"folder": str(options.out), "miners": miners, "attacks": found.data["attacks"], "measures": measures.to_dict()}
    )


@dataclass(frozen=True)
class CutInto:
    """The survey file or schema that gets the edges."""

    survey: Path | None = optional("Survey file whose numbers are cut.", metavar="FILE")
    schema: Path | None = optional("Schema whose columns are cut.")
    reason: str | None = optional("With --schema: why everybody may know these edges. Without one they are learned.")
    out: Path | None = optional("File to write, with --survey or --schema.", metavar="FILE")
    force: Force = False

    def read_survey(self) -> dict[str, Any]:
        """The file as it is written: a question without edges is no mistake here. Empty where none was given."""
        from sfumato.table.schema import read_yaml

        if self.survey is None:
            return {}
        if not self.survey.is_file():
            raise UsageError(f"There is no survey file {self.survey}.")
        try:
            found = read_yaml(self.survey)
        except SchemaError as error:
            raise SchemaError(f"{self.survey}: {error}") from None
        return found if isinstance(found, dict) else {}

    def numbers(self) -> list[str]:
        """The numbers that the survey asks for, or that the schema releases."""
        from sfumato.table import Schema

        questions = self.read_survey().get("questions") or []
        asked = [str(q.get("name")) for q in questions if isinstance(q, dict) and q.get("kind") == "number"]
        columns = () if self.schema is None else Schema.load(self.schema).columns  # the label may be a number, too
        return asked or [c.name for c in columns if c.role == "private" and c.kind in ("numeric", "integer")]


@app.command()
def edges(
    table: Annotated[Path, argument("TABLE", "Rows of other people: an earlier or public table.")],
    options: EdgesAsked,
    into: CutInto,
    console: Console,
    column: list[str] | None = optional("Column to cut; repeatable. All numbers, if none."),
) -> None:
    """Find where numbers are cut into intervals, and write it into a survey file or a schema.

    Everybody reads the edges, and they follow from the rows of TABLE: take a public table, or one of people who agreed,
    never the people who are asked or released.

    Example: sfumato survey edges earlier.csv --by class --label ill --survey survey.yaml --out survey-cut.yaml
    """
    import yaml

    from sfumato.study.protocol.survey_file import SurveyStudy
    from sfumato.study.survey_plan import cut_schema, cut_survey, survey_edges
    from sfumato.table import Schema

    if into.survey is not None and into.schema is not None:
        raise UsageError("Give --survey or --schema, not both.")
    if (into.out is None) is not (into.survey is None and into.schema is None):
        raise UsageError("--out goes with --survey or --schema: it is the file with the edges in it.")
    check_free(into.out, force=into.force)
    wanted = list(column or ()) or into.numbers()
    found = survey_edges(table, wanted, **keywords(options))
    if not found:
        raise UsageError(f"{table} has no numbers to cut. Choices of words need no edges.")
    for name, cuts in found.items():
        console.say(f"{name}: [{', '.join(f'{cut:g}' for cut in cuts)}]")
    if into.out is not None:
        if into.schema is not None:
            cut_schema(Schema.load(into.schema), found, into.reason).save(into.out)
        else:
            whole = cut_survey(into.read_survey(), found)
            SurveyStudy.from_dict(whole)
            write_whole(into.out, yaml.safe_dump(whole, sort_keys=False, allow_unicode=True))
        console.say(f"Wrote {into.out}.")
    console.result({"edges": {name: list(cuts) for name, cuts in found.items()}, "file": into.out})
