"""What can be asked of `recommend`, `compare` and the demonstration: every option once, for terminal and Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.core.asked import Group, Table, asked, optional, switch
from sfumato.core.errors import UsageError
from sfumato.core.progress import Progress, silent

if TYPE_CHECKING:
    from sfumato.table import Schema

PEOPLE, KEY_HOLDERS = "people", "key-holders"
TRUST = ("owner", "nobody", PEOPLE, KEY_HOLDERS)
LADDER = (0.25, 0.5, 0.75)
WISH, TABLE = Group("What you can live with"), Group("Your table")
TRIALS, WHERE = Group("Trials on your own rows"), Group("Where to")


def ladder(typed: str) -> tuple[float, ...]:
    """Strengths as they are typed."""
    try:
        return tuple(float(one) for one in typed.split(","))
    except ValueError:
        raise UsageError("--strengths wants numbers between 0 and 1, for example 0.25,0.5,0.75.") from None


@dataclass(frozen=True, kw_only=True)
class WishAsked:
    """What an owner can live with."""

    trust: str = WISH.choice(
        TRUST,
        "Whom people trust with rows: 'owner', 'nobody', or 'people' (a survey).",
        '"key-holders", with `use_table`: whoever shares a secret key too.',
        metavar="WHOM",
    )
    max_posterior: float | None = WISH.optional(
        "How sure an attacker may become of a fact, between `prior` and 1.",
        "0.2 where nothing is wished for.",
        metavar="P",
    )
    prior: float | None = WISH.optional("How sure they were before.", "Only with `max_posterior`.", unset="0.1")
    max_risk: float | None = WISH.optional(
        "The most that any belief may rise by a person's row, 0 to 1.",
        "In trials: what the strongest attacker that was tried may get extra, with its whole interval.",
        at_least=0,
        at_most=1,
        metavar="R",
    )
    epsilon: float | None = WISH.optional(
        "A bound for anybody's values.", "Above 0. Give one of epsilon, max_risk and max_posterior.", metavar="E"
    )
    max_loss: float | None = WISH.optional(
        "Accuracy that may be lost, 0 to 1; needs `rows`.",
        "Against training on the original. In trials it needs no `rows`.",
        at_least=0,
        at_most=1,
        metavar="L",
    )


@dataclass(frozen=True, kw_only=True)
class RecommendAsked(WishAsked):
    """The options of `recommend`."""

    label: str | None = TABLE.optional("The column to predict.", "Or a `schema` that has one.")
    person: str | None = TABLE.optional("The column that says whose rows they are; needs `max_rows_per_person`.")
    schema: Schema | Path | str | None = TABLE.optional(
        "Ranges and categories; otherwise they are read off the table, and nothing is proved."
    )
    rows: int | None = TABLE.optional(
        "About how many rows there are: a number that is public.",
        "The forecast is then for tables of this size.",
        at_least=1,
    )
    max_rows_per_person: int | None = TABLE.optional(
        "The most rows that one person has; the bound is for all of them.", at_least=1, metavar="N"
    )
    use_table: bool = TRIALS.switch("Choose by trials on your own rows: measured, and nothing is proved.")
    tries: int | None = TRIALS.optional("In trials: how many methods; all by default.", at_least=1, metavar="N")
    seed: int = TRIALS.asked(0, "In trials: of splits and of the noise that is tried.", at_least=0)
    workers: int | None = TRIALS.optional(
        "In trials: processes at a time; as many as there are cores, one for a small table.", at_least=1
    )
    ledger: Path | str | None = WHERE.optional(
        "Private ledger that charged the release TABLE, if not the usual one.",
        "It is read to know a release again, and never written.",
    )
    out: Path | str | None = WHERE.optional(
        "Config file to write, for `sanitize --config`.", "Not written where nothing keeps the wish.", metavar="CONFIG"
    )
    progress: Progress = asked(silent, "Called as `progress(step, done, total)`.")


@dataclass(frozen=True, kw_only=True)
class CompareAsked:
    """The options of `compare`. Nothing named means all that apply."""

    label: str | None = optional("The column to predict.", "Or a `schema` that has one.")
    schema: Schema | Path | str | None = optional("Ranges and categories; otherwise they are read off the table.")
    mechanisms: Sequence[str] | None = optional("Compare this one; repeatable.", "All that have a strength by default.")
    attacks: Sequence[str] | None = optional("An attacker to try; repeatable.", "All by default.")
    learners: Sequence[str] | None = optional(
        "A classifier to train; repeatable.", "By default the quick ones of those that `auto` would choose from."
    )
    strengths: Sequence[float] = asked(
        LADDER, "On each method's own scale, from 0 (protects most) to 1 (tells most).", read=ladder, metavar="U,U,..."
    )
    splits: int = asked(3, "Random splits into released rows and people not in the table.", at_least=1)
    workers: int | None = optional("Processes at a time; as many as there are cores.", at_least=1)
    seed: int = asked(0, "Of splits and of the noise that is tried.", at_least=0)
    max_extra: float | None = optional(
        "Your limit: so many more of 100 an attacker may get right.",
        "It is drawn.",
        at_least=0,
        at_most=100,
        metavar="N",
    )
    progress: Progress = asked(silent, "Called as `progress(step, done, total)`.")

    @property
    def named(self) -> tuple[Any, ...]:
        """Attackers and learners by name: what a kept trial depends on, besides its own setting."""
        return tuple(None if one is None else tuple(one) for one in (self.attacks, self.learners))


DEMO_FOLDER = Path("demo-out")


@dataclass(frozen=True, kw_only=True)
class DemoAsked:
    """The options of `demo`: where it goes, and a table of one's own."""

    out: Path = asked(DEMO_FOLDER, "Folder to write.", metavar="DIR")
    table: Table = optional("A table of your own instead.")
    label: str | None = optional("The column that classifiers are to predict.")
    schema: Path | None = optional("With --table: its schema; otherwise one is inferred.")
    max_rows_per_person: int | None = optional(
        "With --table: the most rows that one person has.", at_least=1, metavar="N"
    )
    force: bool = switch("Replace what is at --out.")
