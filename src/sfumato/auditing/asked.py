"""What can be asked of `audit` and of the laboratory: every option once, for the command line and for Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.core.asked import NOT_TYPED, REQUIRED, Read, asked
from sfumato.core.progress import Progress, silent

if TYPE_CHECKING:
    from sfumato.table import Schema

CALLED = "Called as `progress(step, done, total)`."
WHAT, HOW, WHERE = "What is audited", "Who attacks, and how", "For whom, and where to"


def between_commas(typed: str) -> tuple[str, ...]:
    """Names as they are typed."""
    return tuple(name.strip() for name in typed.split(",") if name.strip())


@dataclass(frozen=True, kw_only=True)
class AuditAsked:
    """The options of `audit`, in the order in which `sfumato.audit` shows them. Only what is light is loaded here."""

    original: Any = asked(
        REQUIRED, "The private table.", more="The one that the release was made from.", group=WHAT, read=Read.TABLE
    )
    holdout: Any = asked(
        None, "Similar people who are not in the table.", more="They are the control.", group=WHAT, read=Read.TABLE
    )
    label: str | None = asked(None, "The column to predict, for a release without a card.", group=WHAT, metavar="COL")
    schema: Schema | Path | str | None = asked(
        None, "Schema, for a release without a card.", group=WHAT, metavar="FILE"
    )
    guess: Path | str | None = asked(
        None,
        "Another attacker's guesses, to judge as well.",
        more="A table of source columns, with one row for each row of the release.",
        metavar="FILE",
    )
    key: Path | str | None = asked(None, "Key of the release, if it is not in its folder.", metavar="PATH")
    attacks: Sequence[str] | None = asked(
        None, "Run this attacker only; repeatable. All by default.", group=HOW, flag="--attack", metavar="NAME"
    )
    parameters: Mapping[str, Any] = asked(
        dict,
        "Setting of an attacker; repeatable. See docs/attacks.md.",
        more='For example `{"posterior-breach.rho1": 0.05}`, or `{"posterior-breach": {"rho1": 0.05}}`.',
        group=HOW,
        read=Read.PARAMETERS,
        flag="--param",
        metavar="ATTACK.NAME=VALUE",
    )
    public: bool = asked(
        False,
        "For others: the proof, and what follows from the released files alone.",
        more="No attacker runs.",
        group=WHERE,
    )
    with_audit: bool = asked(
        False,
        "With `public`: what was measured on private rows too, rounded.",
        more="No guarantee covers it.",
        group=WHERE,
    )
    max_rows: int = asked(20_000, "Attack a random sample if there are more rows.", more="At least 2.", at_least=2)
    repeats: int | None = asked(
        None,
        "Splits to train classifiers on; 0: none. 10, or 0 with `attacks`, by default.",
        more="0 leaves out all that learners would make of it.",
        group=HOW,
        unset="10, or 0 where attacks are named",
        at_least=0,
        metavar="N",
    )
    tolerance: float = asked(
        0.05,
        "How near a guessed number counts as right, as a share of the column's range, between 0 and 1.",
        typed=NOT_TYPED,
    )
    unknown: str = asked(
        "missing",
        "Categories only in `holdout`: missing (counted, treated as empty) or refuse.",
        choices=("missing", "refuse"),
    )
    published: bool = asked(
        False,
        "The paper's own variant wherever our default differs.",
        more="Of attackers and classifiers: see docs/as-published.md.",
        flag="--as-published",
    )
    beside: Any = asked(
        None,
        "Another release of the same people: attack both.",
        more="With its private match file: both are attacked together, by putting together what their channels say and "
        'by looking for people who are in one only. `audit.data["together"]` and the notes say what that gives. Both '
        "must keep the table's columns.",
        kind="Release or path",
        typed=Path,
        flag="--with",
        metavar="DIR",
    )
    beside_original: Any = asked(
        None,
        "The table that `beside` was made from, if it is another one.",
        kind="table",
        read=Read.TABLE,
        flag="--with-original",
    )
    clusters: int = asked(
        0,
        "Also tell what is left of K clusters; 0: not.",
        more="Left of the original's, by the adjusted Rand index.",
        metavar="K",
    )
    match: str | None = asked(
        None,
        "Column of both tables that says whose row is whose.",
        more="For a release without a card. Otherwise rows in the same order are recognized, and others are matched as "
        "an attacker would.",
        metavar="COL",
    )
    mapping: Path | str | None = asked(
        None,
        "Row numbers (from 1): columns `release` and `original`.",
        more="Without the column `release`, one for each row of the release, in order.",
        metavar="FILE",
    )
    columns: Mapping[str, str] = asked(
        dict,
        "A column that the release renamed; repeatable.",
        more='`{"age": "AGE"}`, the original\'s name first.',
        read=Read.PAIRS,
        metavar="OLD=NEW",
    )
    hierarchies: Mapping[str, Path | str] = asked(
        dict,
        "What generalised cells of a column stand for, a file in ARX's form; repeatable.",
        more='`{"job": "jobs.csv"}`. Ranges, intervals, prefixes ("902**"), sets ("{A, B}") and "*" are understood '
        "without one.",
        read=Read.PAIRS,
        flag="--hierarchy",
        metavar="COL=FILE",
    )
    quasi_identifiers: Sequence[str] | None = asked(
        None,
        "What others may know of a person: count who is alike in it.",
        more="k-anonymity, uniques, l-diversity and t-closeness over these columns. By default those that the schema "
        "marks with `quasi_identifier: true`.",
        typed=str,
        read=between_commas,
        metavar="COL,COL",
    )
    sensitive: Sequence[str] | None = asked(
        None,
        "Whose diversity to tell; by default the column to predict, or all others.",
        typed=str,
        read=between_commas,
        metavar="COL,COL",
    )
    population: int | None = asked(
        None,
        "People that the table is a sample of: who is unique among them.",
        more="An estimate; at least 2.",
        at_least=2,
        metavar="N",
    )
    max_extra: float | None = asked(
        None,
        "Your limit: how many more of 100 any attacker may get right by the release.",
        more="From 0 to 100.",
        at_least=0,
        at_most=100,
        group=WHERE,
        metavar="N",
    )
    config: Path | str | None = asked(
        None,
        "The release's config: `max_extra` in it is your limit too.",
        more="Where none is given here.",
        metavar="FILE",
    )
    device: str | None = asked(
        None,
        "Make large products there: cuda, another device of PyTorch, or cupy.",
        more="The answers are the same. See docs/large-tables.md.",
    )
    device_memory: float = asked(4.0, "What a block of products may take there.", more="In GB, above 0.", metavar="GB")
    engine: str = asked(
        "memory",
        "memory; or spark, for an original larger than a machine.",
        more="The executors then read the original (files, or a data frame of Spark), and only the people who are "
        "audited come here. The release needs its card and private match file.",
        choices=("memory", "spark"),
    )
    master: str | None = asked(
        None, "Where Spark runs; the default is here.", more="The cluster's address.", metavar="URL"
    )
    seed: int = asked(0, "For the audit's own sampling.", more="The same seed gives the same audit.", at_least=0)
    out: Path | str | None = asked(
        None,
        "Where to write; DIR, or DIR/public with `public`.",
        more="In Python nothing is written without it: audit.json and audit.parquet.",
        group=WHERE,
        metavar="DIR",
    )
    progress: Progress = asked(silent, CALLED, kind="callable", typed=NOT_TYPED)


# What can be asked of a survey's audit, and of the laboratory.


@dataclass(frozen=True, kw_only=True)
class SurveyAuditAsked:
    """The options of a survey's audit."""

    out: Path | str = asked(REQUIRED, "Folder to write; it contains the people and is private.", metavar="DIR")
    seed: int = asked(0, "For the audit's own sampling.", at_least=0)
    force: bool = asked(False, "Replace what is at `out`.")
    progress: Progress = asked(silent, CALLED, kind="callable", typed=NOT_TYPED)


@dataclass(frozen=True, kw_only=True)
class CanaryAsked:
    """The options of `canary`."""

    schema: Schema | Path | str = asked(
        REQUIRED,
        "Schema file with public bounds and categories.",
        more="And with classes, as `sanitize` needs them.",
        metavar="FILE",
    )
    epsilon: float = asked(1.0, "The claim to be tried.", more="In (0, 100].")
    delta: float = asked(1e-6, "Belongs to `epsilon`; above 0.")
    fits: int = asked(
        200,
        "Fits with planted records, and as many without.",
        more="From 20 to 100,000. A part's interval is about 12 / sqrt(fits) wide.",
        at_least=20,
        at_most=100_000,
        metavar="N",
    )
    seed: int | None = asked(None, "Repeatable noise.")
    progress: Progress = asked(silent, CALLED, kind="callable", typed=NOT_TYPED)


@dataclass(frozen=True, kw_only=True)
class InvarianceAsked:
    """The options of `invariance`."""

    label: str | None = asked(None, "The column of classes to predict.", metavar="COL")
    target: str | None = asked(None, "Instead of `label`: a column of numbers, for regressions.", metavar="COL")
    schema: Schema | Path | str | None = asked(
        None, "Schema; learned from the table by default.", more="Bounds and categories.", metavar="FILE"
    )
    learners: Sequence[str] | None = asked(
        None,
        "Classifier ('svm scaled=false') or regression; repeatable.",
        more="All of those that can answer, by default. With a `target`, regressions.",
        flag="--learner",
        metavar="NAME",
    )
    rotations: int = asked(5, "Rotations that are tried.", more="At least 1.", at_least=1)
    published: bool = asked(
        False,
        "The paper's own variant wherever our default differs.",
        more="Of learners that random-rotation is about; without `learners` those.",
        flag="--as-published",
    )
    max_rows: int = asked(1000, "Use a random sample if there are more rows.", more="At least 20.", at_least=20)
    seed: int = asked(0, "Of sample, split and rotations.", at_least=0)
    progress: Progress = asked(silent, CALLED, kind="callable", typed=NOT_TYPED)


@dataclass(frozen=True, kw_only=True)
class FigureAsked:
    """What every figure of the papers can be asked on a table of one's own."""

    label: str | None = asked(
        None, "The column to predict; it is left out.", more="Condensation stays within its classes.", metavar="COL"
    )
    schema: Schema | Path | str | None = asked(
        None, "Bounds and categories; learned from the table by default.", metavar="FILE"
    )
    max_rows: int = asked(5000, "Use a random sample if there are more rows.", at_least=10)
    seed: int = asked(0, "Of the sample and of all that is drawn.", at_least=0)
    progress: Progress = asked(silent, CALLED, kind="callable", typed=NOT_TYPED)


@dataclass(frozen=True, kw_only=True)
class ItemAsked(FigureAsked):
    """The options of `figure`."""

    set: str | None = asked(
        None,
        "Which of the paper's tables; alone a copy of it.",
        more="Copies: scikit-learn's, generated rows, or NAME.csv in the folder that SFUMATO_DATA names. With a table, "
        "whose printed figures to put beside.",
        metavar="NAME",
    )
    repeats: int | None = asked(None, "How often; the default is the item's own.", at_least=1, metavar="N")
    test: Any = asked(
        None,
        "Rows to test on, with the table's columns: a split of your own.",
        more="The table is then for training alone.",
        read=Read.TABLE,
    )


@dataclass(frozen=True, kw_only=True)
class FilteringAsked(FigureAsked):
    """The options of `figure_filtering`."""

    scales: Sequence[float] = asked(
        (0.1, 0.2, 0.3), "Scale b of the noise; repeatable.", more="Above 0.", typed=list[float], flag="--b"
    )
    components: float = asked(0.5, "Share of the principal components that is kept.", more="Above 0 to 1.")
    repeats: int = asked(1, "How often noise is drawn; of several the mean and its standard error.", at_least=1)


@dataclass(frozen=True, kw_only=True)
class CondensationAsked(FigureAsked):
    """The options of `figure_condensation`."""

    sizes: Sequence[int] = asked(
        (2, 5, 10, 20, 50, 100),
        "Group size; repeatable.",
        more="At least 2. Those above the largest class are left out (`left_out`), and a class of fewer rows is one "
        "group.",
        typed=list[int],
        flag="--k",
    )
    rotations: int = asked(50, "Rotations that the search tries.", more="At least 1.", at_least=1)
    repeats: int = asked(1, "How often rows and rotations are drawn; of several the mean and its error.", at_least=1)
