"""Which method and how strong, by arithmetic and experience: no row is read, so the answer is the same everywhere.

The method follows from who may hold the rows and from epsilon. A wish about risk becomes epsilon by arithmetic, and
then holds against every attacker. How useful it will be is what public tables kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from scipy.special import stdtrit

from sfumato.advising.asked import RecommendAsked
from sfumato.advising.wish import MOST_EPSILON, Wish
from sfumato.core.errors import UsageError
from sfumato.core.wording import counted as in_number
from sfumato.core.wording import first_names, right_of_100, said, to_type
from sfumato.guarantee import cost
from sfumato.guarantee.guarantee import worst_first
from sfumato.guarantee.rounding import of_100, rounded_up
from sfumato.mechanisms import make_mechanism
from sfumato.release.asked import OWNER
from sfumato.release.sanitize_checks import read_off
from sfumato.release.strength import Config, Wanted
from sfumato.table import Schema

# What public tables kept under each method: how useful a release will be, told before any row is read.
#
# The file beside this one is made by `papers/advice/run.py` from public tables alone: each released at several sizes
# and epsilons, learned from by `auto`, and tested on other rows as they are. Beside that stands how far the shares of
# one column, and of two together, are off: total variation, of which every point is a row of 100 in a wrong place. A
# forecast for a table is what public tables of about its size kept; it never looks at the table itself, so that it
# proves nothing about it and costs nothing.

NOTHING_LEARNED = 0.02  # a table that stays within this of its own commonest class taught nothing
ALIKE = 3.0
"""Tables are like one that has at most so many times as many rows, or at least one so-manieth."""
FEWEST = 6  # of fewer tables nothing is said: those of the next sizes join
SIZES = (60, 120, 250, 500, 1_000, 2_500, 6_000, 15_000, 40_000)
MOST_CATEGORIES = 10
"""Of any column of the public tables (credit_g's purpose of a loan, pendigits' digits)."""
STRENGTHS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


@dataclass(frozen=True)
class Seen:
    """One public table of one size. `right`, `one_column` and `two_columns`: by method, then by epsilon."""

    table: str
    rows: int
    columns: int
    numbers: int
    classes: int
    commonest: float
    originals: float
    right: Mapping[str, Mapping[str, float]]
    one_column: Mapping[str, Mapping[str, float]]
    two_columns: Mapping[str, Mapping[str, float]]

    def at(self, method: str, epsilon: float, figure: str = "right") -> float | None:
        """A figure between the epsilons that were tried, on their logarithm; None below them, and where none was."""
        known = getattr(self, figure).get(method)
        tried = sorted(map(float, known or ()))
        if not tried or epsilon < tried[0] * (1 - 1e-9):
            return None
        values = [known[f"{one:g}"] for one in tried]
        return float(np.interp(math.log(epsilon), np.log(tried), values))


@dataclass(frozen=True)
class Forecast:
    """Of so many public tables like one: mean accuracy, where 9 in 10 tables are, and what is beside it."""

    accuracy: float
    interval: tuple[float, float]
    majority: float
    originals: float
    lost: tuple[float, float]
    """The least and the most that a table lost against its originals."""
    tables: int
    taught_nothing: int
    rows: tuple[int, int]
    one_column: float | None = None
    two_columns: float | None = None
    one_column_interval: tuple[float, float] | None = None
    two_columns_interval: tuple[float, float] | None = None

    @property
    def lost_on_average(self) -> float:
        return self.originals - self.accuracy

    @property
    def useless(self) -> bool:
        """Whether more than half of them taught nothing."""
        return 2 * self.taught_nothing > self.tables

    def words(self, labelled: bool) -> str:
        """One sentence, with figures that were not measured on the table asked about: of answers where there is a
        column to predict, else of shares."""
        one, two, (low, high) = self.one_column, self.two_columns, self.rows
        seen = f"On {self.tables} public tables of {low:,}{'' if low == high else f' to {high:,}'} rows: "
        if labelled:
            right = right_of_100(self.accuracy, "auto", "rows left out of them", self.majority, self.originals)
            return f"{seen}{right}; it lost between {100 * self.lost[0]:.0f} and {100 * self.lost[1]:.0f} points."
        if one is None or two is None:
            return "How far shares of columns are off was not tried on public tables at such an epsilon."
        of_one, of_two = self.one_column_interval or (one, one), self.two_columns_interval or (two, two)
        return (
            f"{seen}shares of one column were off by {100 * one:.0f} points ({100 * of_one[0]:.0f} to "
            f"{100 * of_one[1]:.0f}), of two columns by {100 * two:.0f} points ({100 * of_two[0]:.0f} to "
            f"{100 * of_two[1]:.0f}); so many rows of 100 are counted in a wrong place."
        )

    def to_dict(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}


@lru_cache(maxsize=1)
def everything() -> tuple[Seen, ...]:
    """All that was seen."""
    found = json.loads(files(__package__).joinpath("experience.json").read_text(encoding="utf-8"))
    return tuple(Seen(**entry) for entry in found["seen"])


def alike(rows: int, without: str | None = None) -> list[Seen]:
    """Of every public table the size nearest to this one, where that is near; the largest stand for what is larger."""
    nearest: dict[str, Seen] = {}
    rows = min(max(rows, SIZES[0]), SIZES[-1])

    def apart(one: Seen) -> float:
        return abs(math.log(one.rows / rows))

    for one in everything():
        if one.table != without and (one.table not in nearest or apart(one) < apart(nearest[one.table])):
            nearest[one.table] = one
    ordered = sorted(nearest.values(), key=apart)
    return [one for place, one in enumerate(ordered) if place < FEWEST or apart(one) <= math.log(ALIKE)]


def forecast(method: str, epsilon: float, rows: int, without: str | None = None) -> Forecast:
    """What tables of about so many rows kept; below the least epsilon that was tried, nothing."""
    tables = alike(rows, without)
    known = ((one.at(method, epsilon), one.commonest) for one in tables)
    right = np.array([usual if value is None else value for value, usual in known])
    majority, originals = (np.array([getattr(one, name) for one in tables]) for name in ("commonest", "originals"))
    lost, rows_there = originals - right, [one.rows for one in tables]
    shares: dict[str, Any] = {}
    for figure in ("one_column", "two_columns"):
        off = [value for one in tables if (value := one.at(method, epsilon, figure)) is not None]
        if len(off) == len(tables):
            shares |= {figure: float(np.mean(off)), f"{figure}_interval": _one_more(off)}
    usual, plain = float(majority.mean()), float(originals.mean())
    ends = (float(lost.min()), float(lost.max()))
    nothing = int((right <= majority + NOTHING_LEARNED).sum())
    between = (min(rows_there), max(rows_there))
    return Forecast(float(right.mean()), _one_more(right), usual, plain, ends, len(tables), nothing, between, **shares)


def _one_more(values: Any) -> tuple[float, float]:
    """Where one more table lies, nine times in ten (a prediction interval by Student's t)."""
    middle, count, half = float(np.mean(values)), len(values), 0.0
    if count > 1:
        half = float(stdtrit(count - 1, 0.95) * np.std(values, ddof=1)) * math.sqrt(1 + 1 / count)
    return max(0.0, middle - half), min(1.0, middle + half)


# What is recommended.

DELTA = 1e-6
USUAL = 0.2  # where nothing is wished for: a fact with 1 chance in 10 may reach 2 in 10
NOT_NAMED = "COLUMN"  # what printed commands say for a column that the owner has yet to name


@dataclass(frozen=True)
class Bound:
    """One strength in all the ways that people ask for it. `loss` bounds beliefs; of made-up rows but for `delta`."""

    epsilon: float
    loss: float
    delta: float

    @classmethod
    def of(cls, made_up: bool, *, epsilon: float | None = None, loss: float = 0.0) -> Bound:
        """Of an epsilon, or the largest epsilon whose beliefs stay within a `loss`."""
        if not made_up:
            return cls(epsilon or loss, epsilon or loss, 0.0)
        if epsilon is None:
            return cls(cost.epsilon_of(cost.rho_of_loss(loss, DELTA), DELTA), loss, DELTA)
        return cls(epsilon, cost.loss_of_rho(cost.rho_for(epsilon, DELTA), DELTA), DELTA)

    @property
    def unprotected(self) -> bool:
        return cost.practically_unprotected(self.loss)

    @property
    def pairs(self) -> float:
        """Two people told apart: one of them is in the table (made-up rows), or both are (rows blurred one by one)."""
        if self.delta:
            return cost.pairs_told_apart(rho=cost.rho_for(self.epsilon, self.delta))
        return cost.pairs_told_apart(2 * self.loss)

    def to_dict(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "max_posterior": {"from": cost.PRIOR, "to": cost.posterior_bound(cost.PRIOR, self.loss)},
            "max_risk": cost.most_gained(self.loss),
            "pairs_told_apart": self.pairs,
        }


@dataclass(frozen=True)
class Known:
    """What is known of the table without looking at its values. `rows`: as declared, or None; `counted`: those of the
    owner's table, for her eyes alone. `read_off`: columns whose ranges were read off the table, under which no bound is
    proved. `rows_per_person`: the most that one person has; the bound is for all of them. `person`: the column that
    says whose rows they are, where the schema does not. `many`: columns with more categories than any public table
    that was tried."""

    label: str | None = None
    rows: int | None = None
    counted: int | None = None
    read_off: tuple[str, ...] = ()
    rows_per_person: int = 1
    person: str | None = None
    many: tuple[str, ...] = ()

    @classmethod
    def of(cls, schema: Schema, asked: RecommendAsked, counted: int | None) -> Known:
        """By the schema and what was asked; the column of a cap on a person's rows stays open where no one named it."""
        cap = asked.max_rows_per_person or 1
        tried = [*schema.private, *([] if schema.label is None else [schema.label])]
        wide = tuple(column.name for column in tried if len(column.categories or ()) > MOST_CATEGORIES)
        person = asked.person or (NOT_NAMED if cap > 1 and schema.person is None else None)
        label = None if schema.label is None else schema.label.name
        return cls(label, asked.rows, counted, tuple(read_off(schema)), cap, person, wide)

    @property
    def size(self) -> int:
        """Rows of the tables that are looked to: as declared, else as counted; 1,000 where neither is known."""
        return self.rows or self.counted or 1_000


@dataclass(frozen=True, repr=False)
class Advice:
    """What is recommended for a table."""

    wish: Wish
    bound: Bound
    mechanism: str
    known: Known

    def __repr__(self) -> str:
        return f"<Advice: {self.mechanism}, epsilon {self.bound.epsilon:.3g}>"

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """As `sanitize --config` takes them."""
        given: dict[str, Any] = {"delta": self.bound.delta} if self.bound.delta else {}
        made = make_mechanism(self.mechanism, given)
        return {**made.strength_for_values(self.bound.epsilon, rows=self.known.rows_per_person), **given}

    def _forecast_at(self, epsilon: float, rows: int) -> Forecast:
        """Of the rule's method for all rows of a person; public tables with one row each were tried."""
        return forecast(_ruled(self.wish.trust, epsilon), epsilon / self.known.rows_per_person, rows)

    @cached_property
    def forecast(self) -> Forecast:
        """Of tables of about this size."""
        return self._forecast_at(self.bound.epsilon, self.known.size)

    @cached_property
    def met(self) -> bool:
        """Whether tables learn at this epsilon: of the declared size, or of any. It never depends on counted rows."""
        sizes = SIZES if self.known.rows is None else (self.known.rows,)
        useful = any(not self._forecast_at(self.bound.epsilon, size).useless for size in sizes)
        return useful and self.lost_too_much is None

    @cached_property
    def lost_too_much(self) -> float | None:
        """What tables of the declared size lost on average, where that is more than was wished for."""
        if self.wish.max_loss is None or self.known.rows is None:
            return None
        lost = self._forecast_at(self.bound.epsilon, self.known.rows).lost_on_average
        return lost if lost > self.wish.max_loss else None

    @property
    def config(self) -> Config:
        by = f"recommend, by rule: {self.wish.words() or f'1 chance in 10 may become {10 * USUAL:g} in 10'}"
        return Config(self.mechanism, self.parameters, by[:150], "nothing")

    def command(self, table: str, *, schema: str | None = None, config: str | None = None) -> str:
        """The line that makes the release; before it those that declare ranges which were read off the table."""
        known, lines = self.known, list[str]()
        if known.read_off:
            if not schema:
                schema = "schema.yaml"
                lines.append(to_type("schema", table, label=known.label, out=schema))
            declare = to_type("schema declare", schema, column=known.read_off[0])
            others = f"  # and so {len(known.read_off) - 1:,} more" if len(known.read_off) > 1 else ""
            lines.append(f'{declare} ... --reason "WHERE IT IS WRITTEN"{others}')
        trust = None if self.wish.trust == OWNER else self.wish.trust
        several = known.rows_per_person > 1 or known.person is not None
        # Four digits of epsilon, never more than the value: a wish that is typed again is still kept.
        whole, digits = self.bound.epsilon, 10.0 ** (math.floor(math.log10(self.bound.epsilon)) - 3)
        short = float(f"{whole:.4g}")
        epsilon = f"{short if short <= whole else float(f'{short - digits:.4g}'):g}"
        release = to_type(
            "sanitize",
            table,
            schema=schema,
            label=None if schema else known.label,
            **({"config": config} if config else {"epsilon": epsilon, "trust": trust}),
            person=known.person,
            max_rows_per_person=known.rows_per_person if several else None,
            out="release",
        )
        return "\n  ".join([*lines, release])

    def paragraph(self) -> str:
        """The worst news first, then what is recommended, what holds, and what it will be good for."""
        known, bound, tables, but = self.known, self.bound, self.forecast, cost.but_for(self.bound.delta)
        begin = "Nothing is recommended. The rule's choice would be"
        if self.met:
            begin = "The rule's choice" if tables.useless or bound.unprotected else "Recommended"
        kind = (
            "made-up rows drawn from noisy counts of the table (tree-resampling)"
            if bound.delta
            else f"each row blurred by itself ({self.mechanism})"
        )
        words = [
            *self._warned(),
            f"{begin}: {kind}, epsilon {rounded_up(bound.epsilon)} for anybody's values. Whatever the other rows "
            f"teach, {cost.own_rows(known.rows_per_person)} can lift a fact from 1 chance in 10 to "
            f"{cost.chance_at_most(cost.PRIOR, bound.loss)}, and any fact by at most "
            f"{of_100(cost.most_gained(bound.loss))} points{but}. Two people are told apart in at most "
            f"{of_100(bound.pairs)} of 100 pairs{but}. That holds for every attacker, not only for those that were "
            "tried.",
            tables.words(bool(known.label)),
        ]
        if not known.label and not bound.delta:
            words.append("They were estimated as `sfumato reconstruct` does.")
        if known.size * ALIKE < tables.rows[0]:
            words.append(f"None of them is as small as one of {in_number(known.size, 'row')}: expect less.")
        if known.many:
            words.append(
                f"None of them has a column of more than {MOST_CATEGORIES} categories; yours has "
                f"{first_names(known.many)}: noise hides more of such columns."
            )
        if known.person == NOT_NAMED:
            words.append(f"{NOT_NAMED} below is the column that says whose rows they are; it is never released.")
        return " ".join(words)

    def _warned(self) -> list[str]:
        known, words = self.known, list[str]()
        if known.read_off:
            columns = in_number(len(known.read_off), "column")
            words.append(
                f"Nothing is proved yet, because the ranges of {columns} were read off your table: "
                f"{first_names(known.read_off, 30)}. No wish about risk or epsilon is kept until you "
                "declare them from what you know without looking (sfumato schema declare); then the bound below holds."
            )
        if not self.met:
            words.append(self.why_not())
        elif self.forecast.useless:
            words.append(self._teach_nothing(known.size))
        if known.label and self.forecast.taught_nothing:
            of = f"{self.forecast.taught_nothing} of {self.forecast.tables} public tables of this size"
            words.append(f"{of} learned nothing.")
        if self.bound.unprotected:
            words.append(worst_first(self.bound.epsilon, "Take a smaller one."))
        return words

    def why_not(self) -> str:
        """What stands in the way, and from where on it does not."""
        if self.lost_too_much is None:
            return self._teach_nothing(self.known.rows)
        return (
            f"Public tables of {in_number(self.known.rows or 0, 'row')} lost {100 * self.lost_too_much:.0f} points at "
            f"epsilon {rounded_up(self.bound.epsilon)}, more than was wished for."
        )

    def _teach_nothing(self, size: int | None) -> str:
        """That tables of about this size (None: of any) teach nothing, and from which epsilon or size on they do."""
        rows = size or self.known.counted or SIZES[-1]
        enough = self._stronger_that_learns(rows)
        if size is None:
            nothing = "At this epsilon tables of any size that was tried teach nothing."
            but = f"{nothing} From epsilon {{epsilon}}, those of {{rows:,}} rows do."
            return said(but if enough else nothing, epsilon=f"{enough or 0:g}", rows=rows)
        larger = next(
            (one for one in SIZES if one > size and not self._forecast_at(self.bound.epsilon, one).useless), None
        )
        ways = [f"From epsilon {enough:g}" if enough else "", f"with {larger:,} rows" if larger else ""]
        hint = ", or ".join(filter(None, ways))
        of = in_number(size, "row") if size >= SIZES[0] else f"{SIZES[0]} rows, the smallest that were tried,"
        nothing = f"At this epsilon tables of {of} teach nothing."
        return f"{nothing} {hint[:1].upper()}{hint[1:]}, they do." if hint else nothing

    def _stronger_that_learns(self, rows: int) -> float | None:
        """The least epsilon above this one at which tables of so many rows learn, of those that `sanitize` takes."""
        tried = (one * self.known.rows_per_person for one in STRENGTHS)
        stronger = (one for one in tried if self.bound.epsilon < one <= MOST_EPSILON)
        return next((one for one in stronger if not self._forecast_at(one, rows).useless), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain figures, for JSON on the owner's terminal."""
        return {
            **{name: getattr(self, name) for name in ("met", "mechanism", "parameters")},
            **{name: getattr(self, name).to_dict() for name in ("wish", "bound", "forecast")},
            "rows": self.known.rows,
            "looked_at": "nothing",
            "read_off": list(self.known.read_off),
            "config": self.config.to_dict(),
            "explained": self.paragraph(),
        }


def advise(wish: Wish, known: Known) -> Advice:
    """The method by the rule and the strength by arithmetic, or, under a largest loss, by experience."""
    wish.check_by_proof()
    made_up = wish.trust == OWNER
    if wish.max_loss is not None and known.rows is None:
        raise UsageError("--max-loss is answered by public tables of your size, which must be public: give --rows.")
    if wish.epsilon is not None:
        bound = Bound.of(made_up, epsilon=wish.epsilon)
    elif wish.max_risk is not None:
        bound = Bound.of(made_up, loss=cost.loss_for_gain(wish.max_risk))
    elif wish.max_loss is not None and wish.max_posterior is None:
        bound = Bound.of(made_up, epsilon=_least_that_keeps(wish.max_loss, wish.trust, known))
    else:
        prior = cost.PRIOR if wish.prior is None else wish.prior
        bound = Bound.of(made_up, loss=cost.epsilon_for_posterior(prior, wish.max_posterior or USUAL))
    if bound.epsilon <= 0:
        raise UsageError(
            f"No release keeps so small a wish: it comes to epsilon 0 at delta {bound.delta:g}. Allow more."
        )
    return Advice(wish, bound, _ruled(wish.trust, bound.epsilon), known)


def _ruled(trust: str, epsilon: float) -> str:
    return Wanted(epsilon=epsilon, trust=trust).by_rule()[0]


def _least_that_keeps(limit: float, trust: str, known: Known) -> float:
    """The least epsilon that was tried whose experience keeps the loss and teaches something, else the largest."""
    finely = np.geomspace(STRENGTHS[0], STRENGTHS[-1], 41).tolist()
    tried = [one for strength in finely if (one := strength * known.rows_per_person) <= MOST_EPSILON] or [MOST_EPSILON]

    def keeps(epsilon: float) -> bool:
        found = forecast(_ruled(trust, epsilon), epsilon / known.rows_per_person, known.size)
        return found.lost_on_average <= limit and not found.useless

    return float(f"{next((one for one in tried if keeps(one)), tried[-1]):.3g}")
