"""What can be asked of the jobs that learn from releases: every option once, for the command line and for Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.core.asked import Read, asked
from sfumato.core.errors import UsageError

AUTO = "auto"
MIXTURES = ("spherical", "diagonal")
"""What a mixture may look like: every cluster round, or stretched along the columns."""


def whole_or_auto(typed: str) -> int | str:
    """The number of clusters as it is typed."""
    if typed == AUTO:
        return typed
    try:
        return int(typed)
    except ValueError:
        raise UsageError(f"--clusters must be auto or a whole number. Got {typed!r} instead.") from None


@dataclass(frozen=True, kw_only=True)
class ClusterAsked:
    """The options of `cluster`."""

    clusters: int | str = asked(
        AUTO,
        "How many; auto: as many as the release shows.",
        more="That is the fewest, of up to 8, that held-out released rows are not clearly less likely under.",
        kind='int or "auto"',
        typed=str,
        read=whole_or_auto,
        metavar="K",
    )
    model: str = asked(
        AUTO,
        "spherical (k-means' own), diagonal, or auto.",
        more='"diagonal" gives every cluster and column a variance; "auto" tries both.',
        choices=(AUTO, *MIXTURES),
    )
    resamples: int = asked(10, "Bootstrap samples for the stability, from 0 to 1000.", at_least=0, at_most=1000)
    seed: int = asked(0, "Of starts, folds and resamples.", at_least=0)
    original: Any = asked(
        None,
        "Owner only: tell what was lost against this table.",
        more="For the owner of one release with its trace.",
        kind="DataFrame, Arrow table or path",
        read=Read.TABLE,
        metavar="TABLE",
    )


@dataclass(frozen=True, kw_only=True)
class RulesAsked:
    """The options of `rules`."""

    columns: Sequence[str] = asked(
        (), "Only this one; may be repeated.", kind="sequence of str", flag="--column", metavar="COL"
    )
    min_support: float = asked(0.05, "Least share of people, as estimated.")
    min_confidence: float = asked(0.5, "Least confidence of a rule, as estimated.")
    longest: int = asked(2, "Most answers in a rule, from 2 to 5.", at_least=2, at_most=5)
    confidence: float = asked(0.95, "Of each interval by itself.")


@dataclass(frozen=True, kw_only=True)
class RegressAsked:
    """The options of `regress`."""

    columns: Sequence[str] = asked(
        (),
        "What explains it; may be repeated; default: all others.",
        kind="sequence of str",
        flag="--column",
        metavar="COL",
    )
    confidence: float = asked(0.95, "Of each interval by itself.")
    seed: int = asked(0, "Of the groups of rows that intervals are made of.", at_least=0)
