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

from sfumato.advising.wish import Wish
from sfumato.core.errors import UsageError
from sfumato.core.wording import counted as in_number
from sfumato.core.wording import first_names, right_of_100, to_type
from sfumato.guarantee.concentrated import epsilon_of, rho_for
from sfumato.guarantee.posterior import (
    PRIOR,
    epsilon_for_posterior,
    loss_for_gain,
    loss_of_rho,
    most_gained,
    pairs_told_apart,
    posterior_bound,
    rho_of_loss,
)
from sfumato.guarantee.promise import but_for, chance_at_most, own_rows
from sfumato.guarantee.rounding import of_100, rounded_up
from sfumato.mechanisms import make_mechanism
from sfumato.release.asked import OWNER, TRUSTS
from sfumato.release.config import Config
from sfumato.release.strength import Wanted

# What public tables kept under each method: how useful a release will be, told before any row is read.
#
# The file beside this one is made by `papers/advice/run.py` from public tables alone: each released at several sizes
# and epsilons, learned from by `auto`, and tested on other rows as they are. Beside that stands how far the shares of
# one column, and of two together, are off: total variation, of which every point is a row of 100 in a wrong place. A
# forecast for a table is what public tables of about its size kept; it never looks at the table itself, so that it
# proves nothing about it and costs nothing.


LEARNER, TESTED_ON = "auto", "rows left out of them"
NOTHING_LEARNED = 0.02
"""A table that stays within this of its own commonest class taught nothing."""
MOST_EPSILON = 100.0
"""What `sanitize` takes at most."""
ALIKE = 3.0
"""Tables are like one that has at most so many times as many rows, or at least one so-manieth."""
FEWEST = 6
"""Of fewer tables nothing is said: those of the next sizes join."""
SIZES = (60, 120, 250, 500, 1_000, 2_500, 6_000, 15_000, 40_000)
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
        if not known:
            return None
        tried = sorted(map(float, known))
        if epsilon < tried[0] * (1 - 1e-9):
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
    def useless(self) -> bool:
        """Whether more than half of them taught nothing."""
        return 2 * self.taught_nothing > self.tables

    def words(self) -> str:
        """One sentence, with figures that are nobody's measurement of the table asked about."""
        return (
            f"On {self.tables} public tables of {self._sizes()} rows: "
            f"{right_of_100(self.accuracy, LEARNER, TESTED_ON, self.majority, self.originals)}; it lost between "
            f"{100 * self.lost[0]:.0f} and {100 * self.lost[1]:.0f} points."
        )

    def words_of_shares(self) -> str:
        """The same where there is no column to predict."""
        if self.one_column is None or self.two_columns is None:
            return "How far shares of columns are off was not tried on public tables at such an epsilon."
        one, two = (
            _points(self.one_column, self.one_column_interval),
            _points(self.two_columns, self.two_columns_interval),
        )
        return (
            f"On {self.tables} public tables of {self._sizes()} rows: shares of one column were off by {one}, of two "
            f"columns by {two}; so many rows of 100 are counted in a wrong place."
        )

    def _sizes(self) -> str:
        low, high = self.rows
        return f"{low:,}" if low == high else f"{low:,} to {high:,}"

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
    right = np.array([_or(one.at(method, epsilon), one.commonest) for one in tables])
    majority = np.array([one.commonest for one in tables])
    originals = np.array([one.originals for one in tables])
    lost = originals - right
    shares: dict[str, Any] = {}
    for figure in ("one_column", "two_columns"):
        known = [value for one in tables if (value := one.at(method, epsilon, figure)) is not None]
        if len(known) == len(tables):
            shares |= {figure: float(np.mean(known)), f"{figure}_interval": _one_more(known)}
    return Forecast(
        float(right.mean()),
        _one_more(right),
        float(majority.mean()),
        float(originals.mean()),
        (float(lost.min()), float(lost.max())),
        len(tables),
        int((right <= majority + NOTHING_LEARNED).sum()),
        (min(one.rows for one in tables), max(one.rows for one in tables)),
        **shares,
    )


def _one_more(values: Any) -> tuple[float, float]:
    """Where one more table lies, nine times in ten (a prediction interval by Student's t)."""
    middle, count, half = float(np.mean(values)), len(values), 0.0
    if count > 1:
        half = float(stdtrit(count - 1, 0.95) * np.std(values, ddof=1)) * math.sqrt(1 + 1 / count)
    return max(0.0, middle - half), min(1.0, middle + half)


def _points(value: float, ends: tuple[float, float] | None) -> str:
    low, high = ends or (value, value)
    return f"{100 * value:.0f} points ({100 * low:.0f} to {100 * high:.0f})"


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


DELTA = 1e-6
USUAL = 0.2
"""Where nothing is wished for: a fact with 1 chance in 10 may reach 2 in 10."""
SCHEMA_FILE = "schema.yaml"
"""Where the printed commands write a schema."""
MOST_NAMED = 30
"""Columns that are named one by one."""
FINE = 40
"""Steps between the least and the largest epsilon in which the least one is looked for that keeps a loss."""


@dataclass(frozen=True)
class Bound:
    """One strength in all the ways that people ask for it. `loss` bounds beliefs; of made-up rows but for `delta`."""

    epsilon: float
    loss: float
    delta: float

    @classmethod
    def of_epsilon(cls, epsilon: float, made_up: bool) -> Bound:
        if not made_up:
            return cls(epsilon, epsilon, 0.0)
        return cls(epsilon, loss_of_rho(rho_for(epsilon, DELTA), DELTA), DELTA)

    @classmethod
    def of_loss(cls, loss: float, made_up: bool) -> Bound:
        """The largest epsilon whose beliefs stay within this loss."""
        return cls(epsilon_of(rho_of_loss(loss, DELTA), DELTA), loss, DELTA) if made_up else cls(loss, loss, 0.0)

    @property
    def pairs(self) -> float:
        """Two people told apart: one of them is in the table (made-up rows), or both are (rows blurred one by one)."""
        if self.delta:
            return pairs_told_apart(rho=rho_for(self.epsilon, self.delta))
        return pairs_told_apart(2 * self.loss)

    def to_dict(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "max_posterior": {"from": PRIOR, "to": posterior_bound(PRIOR, self.loss)},
            "max_risk": most_gained(self.loss),
            "pairs_told_apart": self.pairs,
        }


@dataclass(frozen=True, repr=False)
class Advice:
    """What is recommended. `rows`: as declared, or None; `counted`: those of the owner's table, for her eyes alone.
    `read_off`: columns whose ranges were read off the table, under which the bound is not proved.
    `rows_per_person`: the most that one person has; the bound is for all of them. `person`: the column that says whose
    rows they are, where the schema does not."""

    wish: Wish
    bound: Bound
    method: str
    label: str | None
    rows: int | None = None
    counted: int | None = None
    read_off: tuple[str, ...] = ()
    rows_per_person: int = 1
    person: str | None = None

    def __repr__(self) -> str:
        return f"<Advice: {self.method}, epsilon {self.bound.epsilon:.3g}>"

    @property
    def mechanism(self) -> str:
        return self.method

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """As `sanitize --config` takes them."""
        given: dict[str, Any] = {"delta": self.bound.delta} if self.bound.delta else {}
        return {
            **make_mechanism(self.method, given).strength_for_values(self.bound.epsilon, rows=self.rows_per_person),
            **given,
        }

    @property
    def each(self) -> float:
        """What is left for one row of a person, as public tables with one row each were tried."""
        return self.bound.epsilon / self.rows_per_person

    @property
    def size(self) -> int:
        """Rows of the tables that are looked to: as declared, else as counted; 1,000 where neither is known."""
        return self.rows or self.counted or 1_000

    @cached_property
    def forecast(self) -> Forecast:
        """Of tables of this size."""
        return forecast(self.method, self.each, self.size)

    @cached_property
    def met(self) -> bool:
        """Whether tables learn at this epsilon: of the declared size, or of any. It never depends on counted rows."""
        sizes = SIZES if self.rows is None else (self.rows,)
        useful = any(not forecast(self.method, self.each, size).useless for size in sizes)
        return useful and self.keeps_loss

    @property
    def keeps_loss(self) -> bool:
        """Whether tables of the declared size lost no more than was wished for, on average."""
        if self.wish.max_loss is None or self.rows is None:
            return True
        return _lost(self.method, self.each, self.rows) <= self.wish.max_loss

    @property
    def config(self) -> Config:
        said = f"recommend, by rule: {self.wish.words() or f'1 chance in 10 may become {10 * USUAL:g} in 10'}"
        return Config(self.method, self.parameters, said[:150], "nothing")

    def command(self, table: str, *, schema: str | None = None, config: str | None = None) -> str:
        """The line that makes the release; before it those that declare ranges which were read off the table."""
        lines = []
        if self.read_off:
            if not schema:
                schema = SCHEMA_FILE
                lines.append(to_type("schema", table, label=self.label, out=schema))
            declare = to_type("schema declare", schema, column=self.read_off[0])
            others = "" if len(self.read_off) == 1 else f"  # and so the other {len(self.read_off) - 1:,}"
            lines.append(f'{declare} ... --reason "WHERE IT IS WRITTEN"{others}')
        trust = None if self.wish.trust == OWNER else self.wish.trust
        several = self.rows_per_person > 1 or self.person is not None
        release = to_type(
            "sanitize",
            table,
            schema=schema,
            label=None if schema else self.label,
            **({"config": config} if config else {"epsilon": _floor(self.bound.epsilon), "trust": trust}),
            person=self.person,
            max_rows_per_person=self.rows_per_person if several else None,
            out="release",
        )
        return "\n  ".join([*lines, release])

    def paragraph(self) -> str:
        """The sentence that a person acts on comes first."""
        bound, words, begin = self.bound, list[str](), "Recommended"
        if not self.met:
            words.append(self.why_not())
            begin = "Nothing is recommended. The rule's choice would be"
        elif self.forecast.useless:
            words.append(self._teach_nothing(self.size))
            begin = "The rule's choice"
        if self.label and self.forecast.taught_nothing:
            words.append(
                f"{self.forecast.taught_nothing} of {self.forecast.tables} public tables of this size learned nothing."
            )
        kind = (
            "made-up rows drawn from noisy counts of the table (tree-resampling)"
            if bound.delta
            else f"each row blurred by itself ({self.method})"
        )
        if self.read_off:
            words.append(
                f"Nothing is proved yet, because the ranges of {in_number(len(self.read_off), 'column')} were read off "
                f"your table: {first_names(self.read_off, MOST_NAMED)}. No wish about risk or epsilon is kept until "
                "you declare them from what you know without looking (sfumato schema declare); then the bound below "
                "holds."
            )
        words.append(
            f"{begin}: {kind}, epsilon {rounded_up(bound.epsilon)} for anybody's values. Whatever the other rows "
            f"teach, {own_rows(self.rows_per_person)} can lift a fact from 1 chance in 10 to "
            f"{chance_at_most(PRIOR, bound.loss)}, and any fact by at most {of_100(most_gained(bound.loss))} "
            f"points{but_for(bound.delta)}. Two people are told apart in at most {of_100(bound.pairs)} of 100 "
            f"pairs{but_for(bound.delta)}. That holds for every attacker, not only for those that were tried."
        )
        words.append(self.forecast.words() if self.label else self.forecast.words_of_shares())
        if self.size * ALIKE < self.forecast.rows[0]:
            words.append(f"None of them is as small as one of {in_number(self.size, 'row')}: expect less.")
        if not self.label and not bound.delta:
            words.append("They were estimated as `sfumato reconstruct` does.")
        return " ".join(words)

    def why_not(self) -> str:
        """What stands in the way, and from where on it does not."""
        if self.keeps_loss:
            return self._teach_nothing(self.rows)
        lost = _lost(self.method, self.each, self.rows or 0)
        return (
            f"Public tables of {self.rows:,} rows lost {100 * lost:.0f} points at epsilon "
            f"{rounded_up(self.bound.epsilon)}, more than was wished for."
        )

    def _teach_nothing(self, size: int | None) -> str:
        """That tables of about this size (None: of any) teach nothing, and from which epsilon or size on they do."""
        rows = SIZES[-1] if size is None else size
        learns = (one for one in STRENGTHS if one > self.each)
        enough = next((one for one in learns if not forecast(self._method_at(one), one, rows).useless), None)
        larger = (one for one in SIZES if one > rows)
        more = next((one for one in larger if not forecast(self.method, self.each, one).useless), None)
        ways = [
            f"From epsilon {enough * self.rows_per_person:g}" if enough else "",
            f"with {more:,} rows" if more else "",
        ]
        of = "any size that was tried" if size is None else f"{size:,} rows"
        said = f"At this epsilon tables of {of} teach nothing."
        hint = ", or ".join(way for way in ways if way)
        return f"{said} {hint[:1].upper()}{hint[1:]}, they do." if hint else said

    def _method_at(self, epsilon: float) -> str:
        return _ruled(self.wish.trust, epsilon)

    def to_dict(self) -> dict[str, Any]:
        """Plain figures, for JSON on the owner's terminal."""
        return {
            "met": self.met,
            "mechanism": self.method,
            "parameters": self.parameters,
            "wish": self.wish.to_dict(),
            "bound": self.bound.to_dict(),
            "forecast": self.forecast.to_dict(),
            "rows": self.rows,
            "looked_at": "nothing",
            "read_off": list(self.read_off),
            "config": self.config.to_dict(),
            "explained": self.paragraph(),
        }


def advise(
    wish: Wish,
    label: str | None,
    rows: int | None = None,
    counted: int | None = None,
    read_off: tuple[str, ...] = (),
    rows_per_person: int | None = None,
    person: str | None = None,
) -> Advice:
    """The method by the rule and the strength by arithmetic, or, under a largest loss, by experience."""
    if wish.trust not in TRUSTS:
        raise UsageError(f"--trust must be {' or '.join(TRUSTS)}. Got {str(wish.trust)[:60]!r} instead.")
    named = [one for one in (wish.epsilon, wish.max_posterior, wish.max_risk) if one is not None]
    if wish.epsilon is not None and not 0 < wish.epsilon <= MOST_EPSILON:
        raise UsageError(
            f"--epsilon must be above 0 and at most {MOST_EPSILON:g}; up to 1 protects well, above 10 hardly. "
            f"Got {wish.epsilon:g} instead."
        )
    if wish.max_loss is not None and not 0 <= wish.max_loss <= 1:
        raise UsageError(f"--max-loss must be a share from 0 to 1. Got {wish.max_loss:g} instead.")
    if len(named) > 1:
        raise UsageError("--epsilon, --max-posterior and --max-risk say the same in other words. Give one of them.")
    if wish.max_loss is not None and rows is None:
        raise UsageError("--max-loss is answered by public tables of your size, which must be public: give --rows.")
    if rows is not None and rows < 1:
        raise UsageError(f"--rows must be a number of rows. Got {rows} instead.")
    if rows_per_person is not None and rows_per_person < 1:
        raise UsageError(f"--max-rows-per-person must be at least 1. Got {rows_per_person} instead.")
    if not named and wish.max_loss is not None:
        assert rows is not None
        bound = _least_that_keeps(wish.max_loss, wish.trust, rows)
    else:
        bound = _bound(wish)
    method = _ruled(wish.trust, bound.epsilon)
    return Advice(wish, bound, method, label, rows, counted, read_off, rows_per_person or 1, person)


def _floor(value: float) -> str:
    """Four digits, never more than the value: a wish that is typed again is still kept."""
    short = float(f"{value:.4g}")
    return f"{short if short <= value else float(f'{short - 10.0 ** (math.floor(math.log10(value)) - 3):.4g}'):g}"


def _bound(wish: Wish) -> Bound:
    made_up = wish.trust == OWNER
    if wish.epsilon is not None:
        return Bound.of_epsilon(wish.epsilon, made_up)
    if wish.max_risk is not None:
        return Bound.of_loss(loss_for_gain(wish.max_risk), made_up)
    prior = PRIOR if wish.prior is None else wish.prior
    return Bound.of_loss(epsilon_for_posterior(prior, wish.max_posterior or USUAL), made_up)


def _ruled(trust: str, epsilon: float) -> str:
    return Wanted(epsilon=epsilon, trust=trust).by_rule()[0]


def _least_that_keeps(limit: float, trust: str, rows: int) -> Bound:
    low, high = math.log(STRENGTHS[0]), math.log(STRENGTHS[-1])
    tried = [math.exp(low + (high - low) * step / FINE) for step in range(FINE + 1)]
    epsilon = next((one for one in tried if _lost(_ruled(trust, one), one, rows) <= limit), tried[-1])
    return Bound.of_epsilon(float(f"{epsilon:.3g}"), trust == OWNER)


def _lost(method: str, epsilon: float, rows: int) -> float:
    found = forecast(method, epsilon, rows)
    return found.originals - found.accuracy
