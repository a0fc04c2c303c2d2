"""plan_survey, measure_survey, survey_edges: what the owner of a survey finds out before anybody is asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfumato.auditing.survey_audit import SurveyMeasures
from sfumato.auditing.survey_audit import measure_survey as measure
from sfumato.channels.guidance import AnswerSpace, simulate
from sfumato.core.errors import SchemaError, UsageError
from sfumato.core.progress import Progress, silent
from sfumato.study.number_edges import number_edges
from sfumato.study.protocol.study_file import load_study
from sfumato.study.protocol.survey_file import RANDOM, SurveyStudy
from sfumato.study.protocol.survey_guidance import answer_space, startup_counts, survey_rules
from sfumato.study.protocol.survey_table import answered, population_of
from sfumato.study.survey_plan import FLOORS, Plan, Public, assumed_population
from sfumato.study.survey_plan import plan_survey as plan
from sfumato.table import open_table


def read_survey(file: SurveyStudy | Path | str, *, published: bool = False) -> SurveyStudy:
    """The survey in a file, or as it is given; `published` is the file's `as_published: true`, said elsewhere."""
    if isinstance(file, SurveyStudy):
        return file
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"There is no survey file {path}.")
    survey = load_study(path, published=published)
    if not isinstance(survey, SurveyStudy):
        raise SchemaError(f"{path} describes another kind of study. A survey begins with `kind: survey`.")
    return survey


def plan_survey(
    survey: SurveyStudy | Path | str,
    accuracy: float,
    *,
    population: Any = None,
    floors: Sequence[float] | None = None,
    classifier: Any = "naive-bayes",
    limits: str | None = None,
    limit_levels: str = "1/4",
    whole_tuple: float | None = None,
    strength: float = 0.5,
    informative: int = 3,
    published: bool = False,
    progress: Progress | None = None,
) -> Plan:
    """How many respondents a survey needs for an accuracy, at several floors, by simulation; nobody is asked.

    Parameters
    ----------
    survey : path or survey
        The survey file.
    accuracy : float
        Share of people whose class is to be predicted rightly.
    population : DataFrame, Arrow table or path, optional
        Plain answers of an earlier study, with their classes. Without one people are assumed.
    floors : sequence of float, optional
        Floors to try: 0.1, 0.25 and 0.35 if none is given.
    classifier : {"naive-bayes", "id3"} or scikit-learn classifier, default "naive-bayes"
        Learner of the received bits.
    limits : str, optional
        Percent of fundamentalists, pragmatists and people who hardly mind, such as "17/56/27"; each case then says who
        waited for how long, and who never sent.
    limit_levels : str, default "1/4"
        The largest level that the first two kinds accept.
    whole_tuple : float, optional
        Compare with whole-tuple response, where each answer is sent as it is with this probability.
    strength : float, default 0.5
        Of assumed people: how typical of its class a telling answer is.
    informative : int, default 3
        Of assumed people: how many questions tell the classes apart.
    published : bool, default False
        Of a survey file: order by value, no balance and no floor, as in the paper.
    progress : callable, optional
        Is told what is being done, how much of it is done, and how much there is.

    Returns
    -------
    Plan
        `cases`, one for each floor and number of respondents; `needed(floor)`; the accuracies of guessing and of plain
        answers.
    """
    found = read_survey(survey, published=published)
    space = answer_space(found)
    if population is None:
        people = assumed_population(space, len(found.classes), informative=informative, strength=strength)
    else:
        people = population_of(found, answered(found, open_table(population).read()))
    return plan(
        space,
        accuracy,
        people,
        rules=survey_rules(found),
        floors=floors or ((0.0,) if published else FLOORS),
        startup=None if found.start_up == RANDOM else startup_counts(found),
        classifier=classifier,
        public=None if limits is None else Public.read(limits, limit_levels),
        theta=whole_tuple,
        progress=progress or silent,
    )


def measure_survey(survey: SurveyStudy | Path | str, population: Any, *, seed: int = 0) -> SurveyMeasures:
    """The degrees of disclosure and of error [guided-survey, Definitions 1 and 2] of a survey of these people.

    Parameters
    ----------
    survey : path or survey
        The survey file.
    population : DataFrame, Arrow table or path
        Plain answers of people who play respondents, with their classes.
    seed : int, default 0
        For the simulation.

    Returns
    -------
    SurveyMeasures
        At the level that a survey of these people ends with: what its guidance discloses, the worst guidance that was
        found, the bound that no guidance exceeds, and the degree of error. `sentences()` says it in words.
    """
    found = read_survey(survey)
    space: AnswerSpace = answer_space(found)
    codes, y = population_of(found, answered(found, open_table(population).read(), seed))
    ended = simulate(codes, y, space, survey_rules(found), startup=startup_counts(found), seed=seed, keep_rows=False)
    V = ended.versions[-1].guidance.V
    return measure(codes, y, space, V, floor=found.floor, link=found.link, seed=seed)


def survey_edges(
    table: Any,
    columns: Sequence[str] = (),
    *,
    by: str = "quantiles",
    label: str | None = None,
    parts: int = 4,
    digits: int = 3,
) -> dict[str, tuple[float, ...]]:
    """Where to cut numbers into intervals, from an earlier or public table; for survey files and schemas.

    Everybody reads the edges, and they follow from the rows of the table: take a public one, or one of people who
    agreed, never the people who are asked or released.

    Parameters
    ----------
    table : DataFrame, Arrow table or path
        Rows of other people.
    columns : sequence of str, default ()
        Columns to cut; all that hold numbers, if none is named.
    by : {"quantiles", "class"}, default "quantiles"
        Equally many people in each interval, or cuts where the classes change.
    label : str, optional
        Column of the classes, for "class".
    parts : int, default 4
        At most so many intervals of a column.
    digits : int, default 3
        Digits that edges are rounded to.

    Returns
    -------
    dict
        Edges by column: `sf.Column(name, "categorical", edges=...)` takes them.

    Examples
    --------
    >>> import sfumato as sf
    >>> sf.survey_edges({"age": list(range(20, 80))}, parts=3)
    {'age': (39.7, 59.3)}
    """
    return number_edges(open_table(table).read(), columns, by=by, label=label, parts=parts, digits=digits)
