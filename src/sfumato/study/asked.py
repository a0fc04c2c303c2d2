"""What can be asked of studies and surveys: every option once, for the command line and for Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sfumato.core.asked import NOT_TYPED, REQUIRED, asked, choice, optional, papers_own, switch
from sfumato.core.errors import UsageError
from sfumato.core.progress import Progress

MOST_SITES = 10_000
WAYS = ("quantiles", "class")
"""How edges are found."""


def pairs_of(typed: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of columns as they are typed: A,B."""
    found = []
    for text in typed:
        one, comma, other = text.partition(",")
        if not comma:
            raise UsageError(f"--pair must be two columns with a comma between them. Got {text[:60]!r} instead.")
        found.append((one.strip(), other.strip()))
    return found


@dataclass(frozen=True, kw_only=True)
class CountsAsked:
    """The options of `plan_counts`."""

    sites: int = asked(
        1, "With --release: how many such sites will take part.", "More of them can measure finer tables.", metavar="S"
    )
    pairs: Sequence[tuple[str, str]] = asked(
        (),
        "Without --release: columns that belong together.",
        "By what is known of the subject.",
        kind="sequence of (str, str)",
        typed=list[str],
        read=pairs_of,
        metavar="A,B",
    )
    reason: str | None = optional(
        "With `pairs`: how you know that without looking at the table.", "It stands in the plan and on every card."
    )
    scores: bool = switch(
        "Write the study of a first round, in which sites measure pairs of columns.",
        "Scores of all pairs, with 30% of the study's budget.",
    )
    scored: Any = optional(
        "A site's release of that round; once for every site.",
        "Or the sum that the coordinator made of them: quantiles and forest of the plan come from the sum. The study "
        "gets the other 70% of the budget.",
        kind="sequence of releases or paths, or AddedCounts",
        typed=list[Path],
        metavar="DIR",
    )
    out: Path | str | None = optional("Study file to write, as JSON.", typed=NOT_TYPED)
    force: bool = switch("Replace `out`.", typed=NOT_TYPED)


@dataclass(frozen=True, kw_only=True)
class RehearseAsked:
    """The options of `rehearse`."""

    label: str | None = optional("The column to predict.", "Or a `schema` that has one.")
    schema: Any = optional(
        "Schema file; otherwise one is inferred.",
        "Its bounds and categories are then learned from the table.",
        kind="Schema or path",
        typed=Path,
    )
    mechanism: str = asked("kernel-resampling", "How every site blurs its rows.", "It keeps the table's columns.")
    parameters: Mapping[str, Any] | None = optional(
        "Parameter of the method; repeatable.", 'For example `{"bandwidth": "scaled"}`.'
    )
    classifier: str = asked(
        "knn",
        "What learns from the pooled rows.",
        "One of those that `sfumato list classifiers` lists, with parameters where wanted.",
    )
    site: str | None = optional(
        "The column that says whose site a row is from.",
        "It is left out. L sites are then the L largest.",
        metavar="COL",
    )
    skew: str | None = optional(
        "Deal by this column's order: sites differ in it.",
        "The column to predict makes sites differ in their classes.",
        metavar="COL",
    )
    skew_share: float = asked(
        0.8,
        "Of `skew`: the share of rows that is dealt in order; the rest is dealt at random.",
        at_least=0.0,
        at_most=1.0,
    )
    published: bool = papers_own("Of method and classifier. Refused where no paper has one.")
    repeats: int = asked(10, "Random splits of the table.", at_least=1)
    seed: int = asked(0, "For splits, dealing and noise.", at_least=0)
    progress: Progress | None = optional("Called as `progress(step, done, total)`.")


@dataclass(frozen=True, kw_only=True)
class SurveyPlanAsked:
    """The options of `plan_survey`."""

    population: Any = optional(
        "Plain answers of an earlier study, with their classes.",
        "Without one people are assumed.",
        kind="DataFrame, Arrow table or path",
        typed=Path,
        metavar="TABLE",
    )
    floors: Sequence[float] | None = optional("Floors to try; repeatable.", unset="(0.1, 0.25, 0.35)")
    strength: float = asked(0.5, "Without a population: how typical of its class an informative answer is.")
    informative: int = asked(3, "Without a population: how many questions separate the classes.")
    classifier: Any = asked(
        "naive-bayes",
        "Learner of the received bits.",
        kind='{"naive-bayes", "id3"} or scikit-learn classifier',
        typed=Literal["naive-bayes", "id3"],
    )
    published: bool = papers_own("Of a survey file: order by value, no balance and no floor.")
    limits: str | None = optional(
        "Percent of fundamentalists, pragmatists and people who hardly mind: 17/56/27.",
        "Each case then says who waited for how long, and who never sent.",
        metavar="A/B/C",
    )
    limit_levels: str = asked("1/4", "With `limits`: the largest level that the first two accept.", metavar="A/B")
    whole_tuple: float | None = optional(
        "Compare with whole-tuple response: each answer is sent with this probability.", metavar="THETA"
    )
    progress: Progress | None = optional("Is told what is being done, how much of it is done, and how much there is.")


@dataclass(frozen=True, kw_only=True)
class EdgesAsked:
    """The options of `survey_edges`."""

    by: str = choice(WAYS, "Equally many in each, or where classes change.")
    label: str | None = optional("Column of the classes, for --by class.", metavar="<str>")
    parts: int = asked(4, "At most so many intervals of a column.")
    digits: int = asked(3, "Digits that edges are rounded to: they are made of people's values.")


@dataclass(frozen=True, kw_only=True)
class RespondAsked:
    """What a respondent accepts; none of it leaves the device."""

    max_level: int = asked(REQUIRED, "The highest level you accept; it is not sent.", metavar="K")
    wait: float = asked(0.0, "Keep asking for this long if the level is higher.", metavar="SECONDS")
    max_epsilon: float | None = optional(
        "Send nothing if more than this could be learned; the default only requires it to be finite.", metavar="E"
    )
    pinned: Sequence[str] = asked(
        (),
        "A witness of your own choice, an address or a file; it must agree. Repeatable.",
        flag="--witness",
        metavar="WHERE",
    )
