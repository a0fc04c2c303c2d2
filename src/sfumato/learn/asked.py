"""What can be asked of the jobs that learn from releases: every option once, for the command line and for Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.core.asked import NOT_TYPED, Table, asked, choice, optional, papers_own, switch
from sfumato.core.errors import UsageError
from sfumato.core.registry import names_in

if TYPE_CHECKING:
    from sfumato.guarantee import Key
    from sfumato.learn.classifiers.factory import Choice

AUTO = "auto"
LEVELS = (0.1, 0.2, 0.33, 0.5, 0.7, 0.85)
"""Privacy losses of a trade-off."""
MIXTURES = ("spherical", "diagonal")
"""What a mixture may look like: every cluster round, or stretched along the columns."""


def _or_auto(flag: str, number: type[int | float], words: str) -> Callable[[str], int | float | str]:
    """What reads such an option as it is typed."""

    def read(typed: str) -> int | float | str:
        try:
            return typed if typed == AUTO else number(typed)
        except ValueError:
            raise UsageError(f"{flag} must be auto or {words}. Got {typed!r} instead.") from None

    return read


@dataclass(frozen=True, kw_only=True)
class TrainAsked:
    """The options of `train`."""

    classifier: Choice = asked(
        AUTO,
        f"One of {', '.join(names_in('sfumato.learn.classifiers.named'))}; auto chooses by the release, and "
        "`sfumato list classifiers` says what each does.",
        'One with parameters is written "knn k=5 weights=1/d^2".',
        kind="str",
        typed=str,
    )
    parameters: Mapping[str, Any] | None = optional(
        "Parameter of the classifier; repeatable. See docs/classifiers.md.", 'For example `{"k": "cross-validation"}`.'
    )
    reconstruction: str | None = optional(
        "Train on reconstructed values instead of noisy ones: by-class or global.", kind='{"by-class", "global"}'
    )
    published: bool = papers_own("The model says so. Refused for classifiers that have none.")


@dataclass(frozen=True, kw_only=True)
class PredictAsked:
    """The options of `predict` and `evaluate`."""

    key: Key | Path | str | None = optional(
        "Key of the releases, if they have one.", "Where their mechanism has one and the rows are plain."
    )
    unknown: str = choice(
        ("missing", "refuse"), "Categories that training did not see: missing (counted, treated as empty) or refuse."
    )


@dataclass(frozen=True, kw_only=True)
class ClusterAsked:
    """The options of `cluster`."""

    clusters: int | str = asked(
        AUTO,
        "How many; auto: as many as the release shows.",
        "That is the fewest, of up to 8, that held-out released rows are not clearly less likely under.",
        kind='int or "auto"',
        read=_or_auto("--clusters", int, "a whole number"),
        metavar="K",
    )
    model: str = choice(
        (AUTO, *MIXTURES),
        "spherical (k-means' own), diagonal, or auto.",
        '"diagonal" gives every cluster and column a variance; "auto" tries both.',
    )
    resamples: int = asked(10, "Bootstrap samples for the stability, from 0 to 1000.", at_least=0, at_most=1000)
    seed: int = asked(0, "Of starts, folds and resamples.", at_least=0)
    original: Table = optional(
        "Owner only: tell what was lost against this table.", "For the owner of one release with its trace."
    )


@dataclass(frozen=True, kw_only=True)
class RulesAsked:
    """The options of `rules`."""

    columns: Sequence[str] = asked((), "Only this one; may be repeated.", metavar="COL")
    min_support: float = asked(0.05, "Least share of people, as estimated.")
    min_confidence: float = asked(0.5, "Least confidence of a rule, as estimated.")
    longest: int = asked(2, "Most answers in a rule, from 2 to 5.", at_least=2, at_most=5)
    confidence: float = asked(0.95, "Of each interval by itself.")


@dataclass(frozen=True, kw_only=True)
class RegressAsked:
    """The options of `regress`."""

    columns: Sequence[str] = asked((), "What explains it; may be repeated; default: all others.", metavar="COL")
    confidence: float = asked(0.95, "Of each interval by itself.")
    seed: int = asked(0, "Of the groups of rows that intervals are made of.", at_least=0)


@dataclass(frozen=True, kw_only=True)
class ReconstructAsked:
    """The options of `reconstruct`."""

    joint: tuple[str, ...] | None = optional(
        "Two columns, to learn how they are spread together; more with `independent`.",
        kind="tuple of str",
        typed=NOT_TYPED,
    )
    along: str | None = optional(
        'A weighted sum of columns with additive noise, such as "income - 2 * rent".', typed=NOT_TYPED
    )
    independent: bool = switch("Of --joint: the product of the columns, as published.", opposite=True)
    method: str = asked("parzen-program", "parzen-program or expectation-maximization.", "How to undo the noise.")
    parameters: Mapping[str, Any] | None = optional(
        "Parameter of the method; repeatable. See docs/reconstruction.md.",
        'For example `{"width": 2.5}`, or `{"rounds": 50}` of expectation-maximization.',
    )
    penalty: float | str | None = optional(
        "For parzen-program: auto or a number; 0 for no penalty.",
        kind='float or "auto"',
        read=_or_auto("--penalty", float, "a number"),
    )
    rounds: int | None = optional(
        "For expectation-maximization: how often, from 1 to 10000, in place of our stopping rule."
    )
    bins: int | None = optional(
        "Cells of the density, from 2 to 1000; 75 if not given, and 25 of each of two columns together."
    )
    confidence: float = asked(0.9, "Of the band, between 0 and 1.")
    resamples: int = asked(400, "Number of draws for the band, to 10000; 0 for no band.")
    seed: int = asked(0, "Seed of these draws.", typed=NOT_TYPED)
    atoms: bool = asked(True, "Look for values that many people share before smoothing.", opposite=True)
    published: bool = papers_own(
        "No penalty and the rectangle rule; expectation-maximization only with its `rounds`, since the paper does not "
        "say where it stopped; no search for point masses; two columns as the product of both. Categories are refused: "
        "no paper reconstructs them."
    )

    @property
    def given(self) -> dict[str, Any]:
        """The method's parameters, from wherever they were given."""
        own = {"penalty": self.penalty, "rounds": self.rounds}
        stated = {name: value for name, value in own.items() if value is not None}
        if twice := sorted(stated.keys() & (self.parameters or {}).keys()):
            raise UsageError(f"--{twice[0]} and --param {twice[0]} say the same. Leave out one of the two.")
        return {**(self.parameters or {}), **stated}


@dataclass(frozen=True, kw_only=True)
class TradeOffAsked:
    """The options of `trade_off`."""

    levels: Sequence[float] = asked(LEVELS, "Privacy losses (1 - 2^-I) at which noise is tried.")
    runs: int = asked(5, "How often the values are perturbed and reconstructed at each.")
    bins: int = asked(75, "Cells of the density.")
    seed: int = asked(0, "Seed of the noise that is tried.")
    published: bool = switch(
        "The paper's own programme: no penalty and the rectangle rule.",
        "Expectation-maximization is then shown only with its `rounds`, since the paper does not say where it stopped.",
    )
    rounds: int | None = optional("Rounds of expectation-maximization, in place of our stopping rule.")
