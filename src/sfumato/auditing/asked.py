"""What can be asked of `audit` and of the laboratory: every option once, for the command line and for Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.core.accepted import as_published
from sfumato.core.asked import NOT_TYPED, REQUIRED, Group, Table, asked, choice, optional, papers_own, switch
from sfumato.core.errors import UsageError
from sfumato.core.progress import Progress, silent
from sfumato.release.asked import ENGINES

if TYPE_CHECKING:
    from sfumato.attacks.base import Attack
    from sfumato.table import Schema

CALLED = "Called as `progress(step, done, total)`."
WHAT, HOW = Group("What is audited"), Group("Who attacks, and how")
WHERE = Group("For whom, and where to")
REPEATS = 10


def between_commas(typed: str) -> tuple[str, ...]:
    """Names as they are typed."""
    return tuple(name.strip() for name in typed.split(",") if name.strip())


@dataclass(frozen=True, kw_only=True)
class AuditAsked:
    """The options of `audit`, in the order in which `sfumato.audit` shows them. Only what is light is loaded here."""

    original: Table = WHAT.asked(REQUIRED, "The private table.", "The one that the release was made from.")
    holdout: Table = WHAT.optional("Similar people who are not in the table.", "They are the control.")
    label: str | None = WHAT.optional("The column to predict, for a release without a card.")
    schema: Schema | Path | str | None = WHAT.optional("Schema, for a release without a card.")
    guess: Path | str | None = optional(
        "Another attacker's guesses, to judge as well.",
        "A table of source columns, with one row for each row of the release.",
        metavar="FILE",
    )
    key: Path | str | None = optional("Key of the release, if it is not in its folder.")
    attacks: Sequence[str] | None = HOW.optional("Run this attacker only; repeatable. All by default.", metavar="NAME")
    parameters: Mapping[str, Any] = HOW.asked(
        dict,
        "Setting of an attacker; repeatable. See docs/attacks.md.",
        'For example `{"posterior-breach.rho1": 0.05}`, or `{"posterior-breach": {"rho1": 0.05}}`.',
        metavar="ATTACK.NAME=VALUE",
    )
    public: bool = WHERE.switch(
        "For others: the proof, and what follows from the released files alone.", "No attacker runs."
    )
    with_audit: bool = WHERE.switch(
        "With `public`: what was measured on private rows too, rounded.", "No guarantee covers it."
    )
    max_rows: int = asked(20_000, "Attack a random sample if there are more rows.", "At least 2.", at_least=2)
    repeats: int | None = HOW.optional(
        "Splits to train classifiers on; 0: none. 10, or 0 with `attacks`, by default.",
        "0 leaves out all that learners would make of it.",
        unset="10, or 0 where attacks are named",
        at_least=0,
        metavar="N",
    )
    tolerance: float = asked(
        0.05,
        "How near a guessed number counts as right, as a share of the column's range, between 0 and 1.",
        typed=NOT_TYPED,
    )
    unknown: str = choice(
        ("missing", "refuse"), "Categories only in `holdout`: missing (counted, treated as empty) or refuse."
    )
    published: bool = papers_own("Of attackers and classifiers: see docs/as-published.md.")
    beside: Any = optional(
        "Another release of the same people: attack both.",
        "With its private match file: both are attacked together, by putting together what their channels say and by "
        'looking for people who are in one only. `audit.data["together"]` and the notes say what that gives. Both must '
        "keep the table's columns.",
        kind="Release or path",
        typed=Path,
        flag="--with",
        metavar="DIR",
    )
    beside_original: Table = optional(
        "The table that `beside` was made from, if it is another one.", kind="table", flag="--with-original"
    )
    clusters: int = asked(
        0,
        "Also tell what is left of K clusters; 0: not.",
        "Left of the original's, by the adjusted Rand index.",
        metavar="K",
    )
    match: str | None = optional(
        "Column of both tables that says whose row is whose.",
        "For a release without a card. Otherwise rows in the same order are recognized, and others are matched as an "
        "attacker would.",
        metavar="COL",
    )
    mapping: Path | str | None = optional(
        "Row numbers (from 1): columns `release` and `original`.",
        "Without the column `release`, one for each row of the release, in order.",
        metavar="FILE",
    )
    columns: Mapping[str, str] = asked(
        dict,
        "A column that the release renamed; repeatable.",
        '`{"age": "AGE"}`, the original\'s name first.',
        metavar="OLD=NEW",
    )
    hierarchies: Mapping[str, Path | str] = asked(
        dict,
        "What generalised cells of a column stand for, a file in ARX's form; repeatable.",
        '`{"job": "jobs.csv"}`. Ranges, intervals, prefixes ("902**"), sets ("{A, B}") and "*" are understood without '
        "one.",
        flag="--hierarchy",
        metavar="COL=FILE",
    )
    quasi_identifiers: Sequence[str] | None = optional(
        "What others may know of a person: count who is alike in it.",
        "k-anonymity, uniques, l-diversity and t-closeness over these columns. By default those that the schema marks "
        "with `quasi_identifier: true`.",
        read=between_commas,
        metavar="COL,COL",
    )
    sensitive: Sequence[str] | None = optional(
        "Whose diversity to tell; by default the column to predict, or all others.",
        read=between_commas,
        metavar="COL,COL",
    )
    population: int | None = optional(
        "People that the table is a sample of: who is unique among them.",
        "An estimate; at least 2.",
        at_least=2,
        metavar="N",
    )
    max_extra: float | None = WHERE.optional(
        "Your limit: how many more of 100 any attacker may get right by the release.",
        "From 0 to 100.",
        at_least=0,
        at_most=100,
        metavar="N",
    )
    config: Path | str | None = optional(
        "The release's config: `max_extra` in it is your limit too.", "Where none is given here."
    )
    device: str | None = optional(
        "Make large products there: cuda, another device of PyTorch, or cupy.",
        "The answers are the same. See docs/large-tables.md.",
    )
    device_memory: float = asked(4.0, "What a block of products may take there.", "In GB, above 0.", metavar="GB")
    engine: str = choice(
        ("memory", "spark"),
        "memory; or spark, for an original larger than a machine.",
        "The executors then read the original (files, or a data frame of Spark), and only the people who are audited "
        "come here. The release needs its card and private match file.",
    )
    master: str | None = optional("Where Spark runs; the default is here.", "The cluster's address.")
    seed: int = asked(0, "For the audit's own sampling.", "The same seed gives the same audit.", at_least=0)
    out: Path | str | None = WHERE.optional(
        "Where to write; DIR, or DIR/public with `public`.",
        "In Python nothing is written without it: audit.json and audit.parquet.",
        metavar="DIR",
    )
    progress: Progress = asked(silent, CALLED)

    def __post_init__(self) -> None:
        """Names may be given by anything that yields them, and are read more than once."""
        for option in ("attacks", "quasi_identifiers", "sensitive"):
            if (given := getattr(self, option)) is not None:
                object.__setattr__(self, option, tuple(given))  # the only door into a frozen dataclass

    def check(self, *, carded: bool) -> None:
        """Refuse what cannot be meant of a release with its card, or of another tool's."""
        self._check_by_card(carded)
        if self.with_audit and not self.public:
            raise UsageError("--with-audit puts what was measured into an audit for others. Add --public.")
        if self.beside is None and self.beside_original is not None:
            raise UsageError("--with-original is the table of the release given by --with. Give both, or neither.")
        if self.master is not None and not ENGINES[self.engine].spread:
            raise UsageError("--master says where Spark runs. Add --engine spark.")
        if self.clusters < 0 or self.clusters == 1:
            raise UsageError(f"--clusters must be at least 2, or 0 for none. Got {self.clusters} instead.")
        if not 0 < self.tolerance < 1:
            raise UsageError(f"--tolerance must be a share of the range between 0 and 1. Got {self.tolerance} instead.")
        if not self.device_memory > 0:
            raise UsageError(f"--device-memory must be above 0 (GB). Got {self.device_memory} instead.")
        self._check_published()
        self._check_crowds(marked=carded or self.schema is not None)
        self.settings  # noqa: B018 (a wrong one is found before anything is read)

    def _check_by_card(self, carded: bool) -> None:
        if carded and self.schema is not None:
            raise UsageError("The release has a card, which contains its schema. Leave --schema out.")
        if carded and (self.match or self.mapping or self.columns or self.hierarchies):
            raise UsageError(
                "A release with a card has its private match file and its names. Leave --match, --mapping and "
                "--columns out."
            )
        if carded:
            return
        if self.key is not None:
            raise UsageError("A key belongs to a release with a card. Leave --key out.")
        if self.match and self.mapping:
            raise UsageError("Say whose row is whose by --match or by --mapping, not by both.")
        if self.beside is not None:
            raise UsageError("Only a release with a card can be attacked together with another. Leave --with out.")
        if ENGINES[self.engine].spread:
            raise UsageError("--engine spark audits a release with its card. Leave it out.")

    def _check_published(self) -> None:
        without = [one for one in chosen_attacks(None) if one.name in (self.attacks or ()) and not one.published]
        if self.published and without:
            have = ", ".join(one.name for one in chosen_attacks(None) if one.published)
            raise UsageError(
                f"No paper has a variant of the attacker {without[0].name} that differs from ours. Leave "
                f"--as-published out, or choose among: {have}."
            )
        if self.published and not self.measured:
            raise UsageError("--public alone runs no attacker and no classifier. Leave --as-published out.")

    def _check_crowds(self, *, marked: bool) -> None:
        """`marked`: a schema may say which columns others can know."""
        if twice := set(self.sensitive or ()) & set(self.quasi_identifiers or ()):
            raise UsageError(f"A column cannot be both quasi-identifier and sensitive: {', '.join(sorted(twice))}.")
        if (self.sensitive or self.population is not None) and not (self.quasi_identifiers or marked):
            raise UsageError("--sensitive and --population need --quasi-identifiers, or a schema that marks them.")

    @property
    def settings(self) -> Mapping[str, Mapping[str, Any]]:
        """What attacks are run with, by name, where that is not their defaults."""
        return settings_of(dict(self.parameters or {}), published=self.published)

    @property
    def chosen(self) -> list[type[Attack]]:
        """The attacks to run, in the order of their names."""
        return chosen_attacks(self.attacks) if self.measured else []

    @property
    def measured(self) -> bool:
        """Whether anything is measured on private rows."""
        return self.with_audit or not self.public

    @property
    def splits(self) -> int:
        """Of people, on which classifiers are trained; whoever names attacks wants these."""
        if not self.measured:
            return 0
        return (0 if self.attacks else REPEATS) if self.repeats is None else self.repeats

    @property
    def limit(self) -> float | None:
        """The owner's limit of extra, from the config where it is not given."""
        if self.max_extra is None and self.config is not None:
            from sfumato.release.strength import Config

            return Config.load(self.config).max_extra
        return self.max_extra


def settings_of(parameters: Mapping[str, Any], *, published: bool = False) -> dict[str, dict[str, Any]]:
    """Settings from names with a dot, or from attacks with their parameters; both may be given.

    >>> settings_of({"posterior-breach.rho1": 0.05, "membership": {"statistic": "distance"}})
    {'posterior-breach': {'rho1': 0.05}, 'membership': {'statistic': 'distance'}}
    """
    from sfumato.attacks import ATTACKS  # slow to load

    found: dict[str, dict[str, Any]] = {}
    for name, value in parameters.items():
        attack, dot, parameter = name.partition(".")
        attack = attack.replace("_", "-")
        if attack not in ATTACKS:
            raise UsageError(f"There is no attacker {attack[:60]!r}. Choose from: {', '.join(ATTACKS)}.")
        if not dot and not isinstance(value, Mapping):
            raise UsageError(
                f"A setting is ATTACK.NAME=VALUE, for example posterior-breach.rho1=0.05. Got {name[:60]!r} instead."
            )
        given = {parameter: value} if dot else dict(value)
        found.setdefault(attack, {}).update({key.replace("-", "_"): one for key, one in given.items()})
    for attack, known in ATTACKS.items() if published else ():
        if known.published:
            found[attack] = as_published(attack, known.published, found.get(attack, {}))
    for attack, given in found.items():
        made_attack(ATTACKS[attack], given)  # a wrong one is found before anything is read
    return found


def made_attack(attack: type[Attack], given: Mapping[str, Any]) -> Attack:
    """The attack with these parameters; what does not exist is refused with what does."""
    for name in given:
        if name not in attack.accepts:
            has = f"It has: {', '.join(attack.accepts)}." if attack.accepts else "It has none."
            raise UsageError(f"The attacker {attack.name} has no parameter {name[:60]!r}. {has}")
    made = attack(**given)
    made.check()
    return made


def chosen_attacks(names: Sequence[str] | None) -> list[type[Attack]]:
    """The attacks with these names, or all, in the order of their names."""
    from sfumato.attacks import ATTACKS  # slow to load

    unknown = sorted(set(names or ()) - set(ATTACKS))
    if unknown:
        raise UsageError(f"There is no attacker {unknown[0]!r}. Choose from: {', '.join(ATTACKS)}.")
    return [attack for name, attack in ATTACKS.items() if names is None or name in names]


@dataclass(frozen=True, kw_only=True)
class SurveyAuditAsked:
    """The options of a survey's audit."""

    out: Path | str = asked(REQUIRED, "Folder to write; it contains the people and is private.", metavar="DIR")
    seed: int = asked(0, "For the audit's own sampling.", at_least=0)
    force: bool = switch("Replace what is at `out`.")
    progress: Progress = asked(silent, CALLED)


@dataclass(frozen=True, kw_only=True)
class CanaryAsked:
    """The options of `canary`."""

    schema: Schema | Path | str = asked(
        REQUIRED, "Schema file with public bounds and categories.", "And with classes, as `sanitize` needs them."
    )
    epsilon: float = asked(1.0, "The claim to be tried.", "In (0, 100].")
    delta: float = asked(1e-6, "Belongs to `epsilon`; above 0.")
    fits: int = asked(
        200,
        "Fits with planted records, and as many without.",
        "From 20 to 100,000. A part's interval is about 12 / sqrt(fits) wide.",
        at_least=20,
        at_most=100_000,
        metavar="N",
    )
    seed: int | None = optional("Repeatable noise.")
    progress: Progress = asked(silent, CALLED)


@dataclass(frozen=True, kw_only=True)
class InvarianceAsked:
    """The options of `invariance`."""

    label: str | None = optional("The column of classes to predict.")
    target: str | None = optional("Instead of `label`: a column of numbers, for regressions.")
    schema: Schema | Path | str | None = optional(
        "Schema; learned from the table by default.", "Bounds and categories."
    )
    learners: Sequence[str] | None = optional(
        "Classifier ('svm scaled=false') or regression; repeatable.",
        "All of those that can answer, by default. With a `target`, regressions.",
        metavar="NAME",
    )
    rotations: int = asked(5, "Rotations that are tried.", "At least 1.", at_least=1)
    published: bool = papers_own("Of learners that random-rotation is about; without `learners` those.")
    max_rows: int = asked(1000, "Use a random sample if there are more rows.", "At least 20.", at_least=20)
    seed: int = asked(0, "Of sample, split and rotations.", at_least=0)
    progress: Progress = asked(silent, CALLED)


@dataclass(frozen=True, kw_only=True)
class FigureAsked:
    """What every figure of the papers can be asked on a table of one's own."""

    label: str | None = optional("The column to predict; it is left out.", "Condensation stays within its classes.")
    schema: Schema | Path | str | None = optional("Bounds and categories; learned from the table by default.")
    max_rows: int = asked(5000, "Use a random sample if there are more rows.", at_least=10)
    seed: int = asked(0, "Of the sample and of all that is drawn.", at_least=0)
    progress: Progress = asked(silent, CALLED)


@dataclass(frozen=True, kw_only=True)
class ItemAsked(FigureAsked):
    """The options of `figure`."""

    set: str | None = optional(
        "Which of the paper's tables; alone a copy of it.",
        "Copies: scikit-learn's, generated rows, or NAME.csv in the folder that SFUMATO_DATA names. With a table, "
        "whose printed figures to put beside.",
        metavar="NAME",
    )
    repeats: int | None = optional("How often; the default is the item's own.", at_least=1, metavar="N")
    test: Table = optional(
        "Rows to test on, with the table's columns: a split of your own.", "The table is then for training alone."
    )


@dataclass(frozen=True, kw_only=True)
class FilteringAsked(FigureAsked):
    """The options of `figure_filtering`."""

    scales: Sequence[float] = asked((0.1, 0.2, 0.3), "Scale b of the noise; repeatable.", "Above 0.", flag="--b")
    components: float = asked(0.5, "Share of the principal components that is kept.", "Above 0 to 1.")
    repeats: int = asked(1, "How often noise is drawn; of several the mean and its standard error.", at_least=1)


@dataclass(frozen=True, kw_only=True)
class CondensationAsked(FigureAsked):
    """The options of `figure_condensation`."""

    sizes: Sequence[int] = asked(
        (2, 5, 10, 20, 50, 100),
        "Group size; repeatable.",
        "At least 2. Those above the largest class are left out (`left_out`), and a class of fewer rows is one group.",
        flag="--k",
    )
    rotations: int = asked(50, "Rotations that the search tries.", "At least 1.", at_least=1)
    repeats: int = asked(1, "How often rows and rotations are drawn; of several the mean and its error.", at_least=1)
