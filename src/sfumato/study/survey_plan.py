"""What the owner of a survey finds out before anybody is asked: how many respondents it needs, what it discloses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from sfumato.auditing.survey_audit import SurveyMeasures
from sfumato.auditing.survey_audit import measure_survey as measure_of
from sfumato.channels.guidance import disclosure as guided
from sfumato.channels.guidance.epsilon import record_epsilon
from sfumato.channels.guidance.guidance import SurveyCounts, SurveyRules
from sfumato.channels.guidance.space import AnswerSpace, quantile_edges, supervised_edges
from sfumato.core.array_types import Bits, Codes, Floats
from sfumato.core.asked import asks
from sfumato.core.errors import SchemaError, TableError, UsageError
from sfumato.core.progress import Progress, silent
from sfumato.guarantee import Card
from sfumato.study.asked import EdgesAsked, SurveyPlanAsked
from sfumato.study.protocol.study_file import load_survey
from sfumato.study.protocol.survey_file import RANDOM, SurveyStudy
from sfumato.study.protocol.survey_guidance import (
    answered,
    population_of,
    startup_counts,
    survey_encoding,
    survey_rules,
)
from sfumato.table import Schema, open_table
from sfumato.table.arrays import is_number, numbers, plain, text
from sfumato.table.column import nearest

# The public of a survey: people who let more or less show, who waits for how long, and who never sends.

KINDS = ("fundamentalists", "pragmatists", "marginally concerned")


@dataclass(frozen=True)
class Public:
    """How much people let show: `shares` of fundamentalists, pragmatists and people who hardly mind [2.2].

    The first accept level `levels[0]` at most, the second `levels[1]`, the last any.
    """

    shares: tuple[float, float, float] = guided.PUBLIC
    levels: tuple[int, int] = (1, 4)

    @classmethod
    def read(cls, shares: str, levels: str = "1/4") -> Public:
        """Shares in percent as the paper has them, "17/56/27", and levels, "1/4"."""
        try:
            parts = tuple(float(part) / 100 for part in shares.split("/"))
            limits = tuple(int(part) for part in levels.split("/"))
        except ValueError:
            raise UsageError(
                f"Limits are numbers between slashes, such as 17/56/27 and 1/4. Got {shares!s:.40}."
            ) from None
        if len(parts) != 3 or min(parts) < 0 or abs(sum(parts) - 1) > 1e-6:
            raise UsageError("A public needs three shares that add up to 1, or to 100%: for example 17/56/27.")
        if len(limits) != 2 or min(limits) < 1:
            raise UsageError("A public needs two levels of at least 1: for example 1/4.")
        return cls((parts[0], parts[1], parts[2]), (limits[0], limits[1]))


@dataclass(frozen=True)
class Kind:
    """One kind of people in a simulated survey, the mean over repeats.

    sent, never: shares of them whose answer was sent, and whose limit was never met. waited, waited_95: how many people
    arrived between a respondent and the sending, the mean and the 95% quantile of those who sent (None where none did).
    """

    name: str
    level: int | None
    sent: float
    never: float
    waited: float | None
    waited_95: float | None


def kinds_of(runs: Sequence[tuple[guided.SurveyRun, Codes]], public: Public, width: int) -> tuple[Kind, ...]:
    """The kinds of people in simulated surveys with their limits; of whom there are none, nothing is said. Waiting is
    that of the surveys in which some of them sent."""
    found = []
    for name, level, share in zip(KINDS, (*public.levels, None), public.shares, strict=True):
        if not share:
            continue
        figures = []
        for run, limits in runs:
            mine = limits == (width if level is None else level)
            there, waited = max(int(mine.sum()), 1), run.waited[mine[run.who]]
            late = (waited.mean(), np.quantile(waited, 0.95)) if len(waited) else (np.nan, np.nan)
            figures.append((len(waited) / there, mine[run.never].sum() / there, *late))
        known = [column[~np.isnan(column)] for column in np.array(figures, dtype=float).T]
        mean: list[Any] = [float(np.mean(column)) if len(column) else None for column in known]
        found.append(Kind(name, level, *mean))
    return tuple(found)


SIZES = (200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
FLOORS = (0.1, 0.25, 0.35)
TEST_ROWS = 2_000


@dataclass(frozen=True)
class Planned:
    """One floor with one number of respondents, over several simulated surveys.

    accuracy, spread: mean and standard deviation over repeats, on plain answers of other people.
    disclosure_by_question: bits that an answer tells at the end, over the sum of the questions' entropies. epsilon: of
    the last guidance, the mean. level: last k*, the mean. kinds: who waited, where people have limits.
    """

    floor: float
    respondents: int
    accuracy: float
    spread: float
    disclosure_by_question: float
    epsilon: float
    level: float
    kinds: tuple[Kind, ...] = ()


@dataclass(frozen=True)
class Plan:
    """All simulated cases, and the accuracies they lie between: of guessing the larger class, and of plain answers.

    whole_tuple: the older scheme as a baseline (`respondents`, `theta`, `accuracy`, `disclosure_by_question`), where
    asked for.
    warnings: what the simulation shows to be wrong with the survey itself.
    """

    target: float
    majority: float
    plain: float
    cases: tuple[Planned, ...]
    whole_tuple: dict[str, float] | None = None
    warnings: tuple[str, ...] = ()

    def needed(self, floor: float) -> int | None:
        """The least simulated number of respondents that reaches the target at this floor; None: none of them does."""
        enough = [case.respondents for case in self.cases if case.floor == floor and case.accuracy >= self.target]
        return min(enough, default=None)


@dataclass(frozen=True)
class Tried:
    """What is simulated: surveys of every size at every floor, `repeats` times.

    With `public` people have limits, wait, and some never send. With `theta` the largest of these surveys is also asked
    by whole-tuple response [Eq. 2].
    """

    rules: SurveyRules = field(default_factory=SurveyRules)
    floors: Sequence[float] = FLOORS
    sizes: Sequence[int] = SIZES
    repeats: int = 3
    startup: SurveyCounts | None = None
    classifier: Any = "naive-bayes"
    public: Public | None = None
    theta: float | None = None
    seed: int = 0


def simulated_plan(
    space: AnswerSpace,
    target: float,
    population: tuple[ArrayLike, ArrayLike],
    tried: Tried,
    progress: Progress = silent,
) -> Plan:
    """Simulate surveys until the `target` accuracy is reached; larger ones are not tried at a floor that reached it.

    `population` are plain answers (m x questions) with classes: of an earlier study, or assumed (`assumed_population`).
    Half of them respond (drawn with replacement), the other half are classified.
    """
    codes, y = np.atleast_2d(np.asarray(population[0])), np.asarray(population[1], dtype=np.int64)
    if not 0 < target <= 1:
        raise UsageError(f"The target accuracy must be a share between 0 and 1. Got {target!r} instead.")
    if len(codes) < 40 or y.shape != (len(codes),) or len(np.unique(y)) < 2:
        raise TableError("A plan needs at least 40 plain answers, of two classes or more, each with its class.")
    trials = _Trials(space, codes, y, tried)
    cases: list[Planned] = []
    sizes, total = sorted(tried.sizes), len(tried.floors) * len(tried.sizes)
    for row, floor in enumerate(tried.floors):
        for column, size in enumerate(sizes):
            progress("Simulating", row * len(sizes) + column, total)
            cases.append(trials.case(replace(tried.rules, floor=floor), size))
            if cases[-1].accuracy >= target:
                break
    progress("Simulating", total, total)
    majority = float(np.bincount(y).max() / len(y))
    plain = trials.accuracy(lambda ask, _: (space.onehot(codes[ask]), y[ask]))
    largest = max(case.respondents for case in cases)
    baseline = None if tried.theta is None else trials.whole_tuple(largest, tried.theta)
    found = Plan(target, majority, plain, tuple(cases), baseline)
    return found if tried.startup is not None else replace(found, warnings=_of_random_start_up(found, tried.rules.k))


def _of_random_start_up(plan: Plan, fixed: int | None) -> tuple[str, ...]:
    """Guidance of one direction that began at random learns only about that direction, and so stays where it was.

    A level that is fixed to 1 begins so for certain; one that follows from mu is judged by what it came to.
    """
    last = max(plan.cases, key=lambda case: case.respondents)
    stuck = last.level == 1 and last.accuracy < (plan.majority + plan.plain) / 2
    if fixed != 1 and not stuck:
        return ()
    return (
        "With `start_up: random` at level 1 the guidance is one direction drawn at random, and bits tell nothing "
        f"about any other: accuracy stays near guessing however many respond ({last.accuracy:.3f} with "
        f"{last.respondents:,}; guessing {plan.majority:.3f}, plain answers {plan.plain:.3f}). Give real rows as "
        "`start_up`, or a higher level (`k`, or a smaller `mu`).",
    )


@dataclass(frozen=True)
class _Trials:
    """People of whom half are asked and the other half classified, anew in every repeat."""

    space: AnswerSpace
    codes: Codes
    y: Codes
    tried: Tried

    def case(self, rules: SurveyRules, size: int) -> Planned:
        """Guided surveys of one size at one floor."""
        codes, y, space, found, runs = self.codes, self.y, self.space, [], []
        startup, public = self.tried.startup, self.tried.public
        for repeat in range(self.tried.repeats):
            seed = self.tried.seed + repeat
            ask, test, rng = self._halves(repeat)
            who = rng.choice(ask, size)
            start = guided.random_startup(space, int(y.max()) + 1, seed=seed) if startup is None else startup
            limits = None
            if public is not None:
                limits = guided.mixed_limits(size, space.width, shares=public.shares, levels=public.levels, seed=seed)
            run = guided.simulate(codes[who], y[who], space, rules, limits=limits, startup=start, seed=seed)
            if limits is not None:
                runs.append((run, limits))
            V = run.versions[-1].guidance.V
            hit = self._accuracy(run.bits, run.y, test)
            told = guided.disclosure(codes[ask], space, V, rules.floor, rules.link, draws=500, seed=repeat).by_question
            record = record_epsilon(V, space, rules.floor, rules.link).value
            found.append((hit, told, record, float(V.shape[1])))
        accuracy, told, epsilon, level = np.mean(found, axis=0).tolist()
        spread = float(np.std([row[0] for row in found]))
        kinds = () if public is None else kinds_of(runs, public, space.width)
        return Planned(rules.floor, size, accuracy, spread, told, epsilon, level, kinds)

    def whole_tuple(self, size: int, theta: float) -> dict[str, float]:
        """The same people asked by whole-tuple response; a classifier on what they send, for plain answers."""

        def sent(ask: Codes, rng: np.random.Generator) -> tuple[Bits, Codes]:
            who = rng.choice(ask, size)
            bits = guided.whole_tuple_response(self.space.onehot(self.codes[who]), rng.random(size), theta)
            return bits, self.y[who]

        told = guided.whole_tuple_disclosure(self.codes, self.space, theta).by_question
        figures = {"accuracy": self.accuracy(sent), "disclosure_by_question": told}
        return {"respondents": size, "theta": theta, **figures}

    def accuracy(self, sent: Callable[[Codes, np.random.Generator], tuple[Bits, Codes]]) -> float:
        """The mean over repeats, for what those who are asked have `sent`."""
        halves = map(self._halves, range(self.tried.repeats))
        return float(np.mean([self._accuracy(*sent(ask, rng), test) for ask, test, rng in halves]))

    def _accuracy(self, bits: Bits, labels: Codes, test: Codes) -> float:
        """Of what `sfumato train` learns, on plain answers; where all who sent are of one class, it is the answer."""
        from sfumato.learn.classifiers.survey_bits import SurveyClassifier  # brings scikit-learn with it

        y = self.y[test]
        if len(np.unique(labels)) < 2:
            return float((y == (labels[0] if len(labels) else 0)).mean())
        model = SurveyClassifier(self.tried.classifier).fit(bits, labels)
        return float((model.predict(self.space.onehot(self.codes[test])) == y).mean())

    def _halves(self, repeat: int) -> tuple[Codes, Codes, np.random.Generator]:
        rng, count = np.random.default_rng(self.tried.seed + repeat), len(self.codes)
        order = rng.permutation(count)
        return order[count // 2 :], order[: count // 2][:TEST_ROWS], rng


def assumed_population(
    space: AnswerSpace, classes: int = 2, *, informative: int = 3, strength: float = 0.5, rows: int = 10_000
) -> tuple[Codes, Codes]:
    """People as an owner may imagine them who has no earlier study: answers are random but for `informative` questions.

    To each of these, a person gives with probability `strength` the answer that is typical of the class.
    """
    if not 0 <= strength <= 1 or classes < 2:
        raise UsageError("Assume at least two classes, and a strength between 0 and 1.")
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, rows)
    codes = np.column_stack([rng.integers(0, size, rows) for size in space.sizes])
    open_questions = [question for question, size in enumerate(space.sizes) if size > 1]
    for question in rng.permutation(open_questions)[:informative]:
        typical = rng.permutation(space.sizes[question])[np.arange(classes) % space.sizes[question]]
        follows = rng.random(rows) < strength
        codes[follows, question] = typical[y[follows]]
    return codes, y


# The same of a survey file, and what its guidance discloses of people.


@asks(SurveyPlanAsked)
def plan_survey(survey: SurveyStudy | Path | str, accuracy: float, options: SurveyPlanAsked) -> Plan:
    """How many respondents a survey needs for an accuracy, at several floors, by simulation; no person is asked.

    Parameters
    ----------
    survey : path or survey
        The survey file.
    accuracy : float
        Share of people whose class is to be predicted rightly.
    {options}

    Returns
    -------
    Plan
        `cases`, one for each floor and number of respondents; `needed(floor)`; the accuracies of guessing and of plain
        answers.
    """
    found = load_survey(survey, published=options.published)
    space = found.space
    if options.population is None:
        people = assumed_population(
            space, len(found.classes), informative=options.informative, strength=options.strength
        )
    else:
        people = population_of(found, answered(found, open_table(options.population).read()))
    tried = Tried(
        rules=survey_rules(found),
        floors=options.floors or ((0.0,) if options.published else FLOORS),
        startup=None if found.start_up == RANDOM else startup_counts(found),
        classifier=options.classifier,
        public=None if options.limits is None else Public.read(options.limits, options.limit_levels),
        theta=options.whole_tuple,
    )
    return simulated_plan(space, accuracy, people, tried, options.progress or silent)


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
    found = load_survey(survey)
    table = answered(found, open_table(population).read(), seed)
    V = guidance_at_the_end(found, table, seed)
    return measure_of(*population_of(found, table), found.space, V, survey_rules(found), seed)


def guidance_of_part(survey: SurveyStudy, part: Path) -> str:
    """The guidance behind a part that `sfumato survey export` wrote, as its card has it."""
    card = Card.load(part)
    if card.source_schema != survey_encoding(survey).schema.to_dict() or "guidance" not in card.transform:
        raise UsageError(f"{part} is not a part of this survey. Give a folder that `sfumato survey export` wrote.")
    return str(card.transform["guidance"])


def guidance_at_the_end(survey: SurveyStudy, table: pa.Table, seed: int) -> Floats:
    """What a survey of these people would end with, by simulation."""
    space, rules, start = survey.space, survey_rules(survey), startup_counts(survey)
    ended = guided.simulate(*population_of(survey, table), space, rules, startup=start, seed=seed, keep_rows=False)
    return ended.versions[-1].guidance.V


# Where to cut numbers, found in an earlier or public table: by quantiles, or where the classes change.
#
# Quartiles are what the paper cuts at [guided-survey, 6]. They know nothing of the classes: on its own F1, where
# classes change at 40 and 60 years of age, they cap every classifier near 83%. Edges by class do not. Every edge is
# made from people's values, so that it must come from other people than those who are asked, and is rounded.

FEWEST = 20  # rows below which an edge would be some single person's value
UNASKED = EdgesAsked()


@asks(EdgesAsked)
def survey_edges(
    table: Any, columns: Sequence[str] = (), options: EdgesAsked = UNASKED
) -> dict[str, tuple[float, ...]]:
    """Where to cut numbers into intervals, from an earlier or public table; for survey files and schemas.

    Everybody reads the edges, and they follow from the rows of the table: take a public one, or one of people who
    agreed, never the people who are asked or released.

    Parameters
    ----------
    table : DataFrame, Arrow table or path
        Rows of other people.
    columns : sequence of str, default ()
        Columns to cut; all that hold numbers, if none is named. One in which no cut tells the classes apart gets the
        median.
    {options}

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
    label = options.label
    if options.by == "class" and label is None:
        raise UsageError("Edges by class need the column of the classes: name it with --label.")
    if options.parts < 2 or options.digits < 1:
        raise UsageError("A number is cut into at least 2 parts, and an edge has at least 1 digit.")
    rows = open_table(table).read()
    for name in (*columns, *([] if label is None else [label])):
        if name not in rows.column_names:
            raise SchemaError(f"The table has no column {name!r}.{nearest(name, rows.column_names)}")
    wanted = columns or [f.name for f in rows.schema if is_number(f.type) and f.name != label]
    classes = None if label is None else np.asarray(text(rows[label], label).fill_null("").to_pylist(), dtype=object)
    return {name: _edges(rows, name, classes, options) for name in wanted}


def _edges(table: pa.Table, name: str, classes: Any, options: EdgesAsked) -> tuple[float, ...]:
    parts, digits = options.parts, options.digits
    found = numbers(plain(table[name]), name)
    known = np.isfinite(found.numbers) if found.empty is None else ~found.empty & np.isfinite(found.numbers)
    values = found.numbers[known]
    if len(values) < FEWEST:
        raise TableError(f"The column {name!r} has fewer than {FEWEST} numbers: an edge would be one person's value.")
    if options.by == "class":
        edges = supervised_edges(values, classes[known], parts) or quantile_edges(values, 2)
    else:
        edges = quantile_edges(values, parts)
    rounded = np.unique([float(f"{edge:.{digits}g}") for edge in edges])
    if not ((rounded > values.min()) & (rounded <= values.max())).any():  # no edge has people on both sides
        raise TableError(
            f"The column {name!r} cannot be cut: rounded to {digits} digits, no edge lies between its numbers. "
            "Give more --digits, or edges by hand."
        )
    return tuple(float(edge) for edge in rounded)


def cut_schema(schema: Schema, edges: Mapping[str, Sequence[float]], reason: str | None = None) -> Schema:
    """The schema with these columns as categories that are cut at `edges`.

    With a `reason` (where the edges come from, so that everybody may know them) they are public, else learned.
    """
    source = "learned" if reason is None else "public"
    for name, found in edges.items():
        if schema[name].role == "label":
            raise SchemaError(f"The column to predict {name!r} is not cut.")
        cut = {"kind": "categorical", "low": None, "high": None, "categories": None, "edges": tuple(found)}
        schema = schema.with_column(name, **cut, source=source, reason=reason)
    return schema


def cut_survey(file: Mapping[str, Any], edges: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """A survey file (as YAML reads it) whose questions of these names are numbers that are cut at `edges`."""
    asked = file.get("questions")
    if not isinstance(asked, Sequence) or not all(isinstance(question, Mapping) for question in asked):
        raise SchemaError("The survey needs a list of `questions`.")
    names = [str(question.get("name")) for question in asked]
    for name in edges:
        if name not in names:
            raise SchemaError(f"The survey has no question {name!r}.{nearest(name, names)}")
    cut = {name: {"kind": "number", "edges": list(found)} for name, found in edges.items()}
    questions = [{**question, **cut.get(name, {})} for question, name in zip(asked, names, strict=True)]
    return {**file, "questions": questions}
