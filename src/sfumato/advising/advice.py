"""Which method and how strong, by arithmetic and experience: no row is read, so the answer is the same everywhere.

The method follows from who may hold the rows and from epsilon. A wish about risk becomes epsilon by arithmetic, and
then holds against every attacker. How useful it will be is what public tables kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sfumato.advising.asked import RecommendAsked
from sfumato.advising.experience import ALIKE, MOST_CATEGORIES, SIZES, STRENGTHS, Forecast, forecast
from sfumato.advising.wish import MOST_EPSILON, Wish
from sfumato.core.errors import UsageError
from sfumato.core.wording import counted as in_number
from sfumato.core.wording import first_names, said, to_type
from sfumato.guarantee.cost import (
    PRIOR,
    but_for,
    chance_at_most,
    epsilon_for_posterior,
    epsilon_of,
    loss_for_gain,
    loss_of_rho,
    most_gained,
    own_rows,
    pairs_told_apart,
    posterior_bound,
    practically_unprotected,
    rho_for,
    rho_of_loss,
)
from sfumato.guarantee.guarantee import worst_first
from sfumato.guarantee.rounding import of_100, rounded_up
from sfumato.mechanisms import make_mechanism
from sfumato.release.asked import OWNER
from sfumato.release.sanitize_checks import read_off
from sfumato.release.strength import Config, Wanted
from sfumato.table import Schema

DELTA = 1e-6
USUAL = 0.2
"""Where nothing is wished for: a fact with 1 chance in 10 may reach 2 in 10."""
SCHEMA_FILE = "schema.yaml"
"""Where the printed commands write a schema."""
NOT_NAMED = "COLUMN"
"""What printed commands say for a column that the owner has yet to name."""
OF_ANY_SIZE = "At this epsilon tables of any size that was tried teach nothing."
OF_ANY_SIZE_BUT = f"{OF_ANY_SIZE} From epsilon {{epsilon}}, those of {{rows:,}} rows do."
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
        """By the schema and what was asked; of a cap on a person's rows whose column no one named the name is left
        open."""
        cap = asked.max_rows_per_person or 1
        tried = [*schema.private, *([] if schema.label is None else [schema.label])]
        wide = (column.name for column in tried if len(column.categories or ()) > MOST_CATEGORIES)
        return cls(
            None if schema.label is None else schema.label.name,
            asked.rows,
            counted,
            tuple(read_off(schema)),
            cap,
            asked.person or (NOT_NAMED if cap > 1 and schema.person is None else None),
            tuple(wide),
        )

    @property
    def size(self) -> int:
        """Rows of the tables that are looked to: as declared, else as counted; 1,000 where neither is known."""
        return self.rows or self.counted or 1_000


@dataclass(frozen=True, repr=False)
class Advice:
    """What is recommended for a table."""

    wish: Wish
    bound: Bound
    method: str
    known: Known

    def __repr__(self) -> str:
        return f"<Advice: {self.method}, epsilon {self.bound.epsilon:.3g}>"

    @property
    def mechanism(self) -> str:
        return self.method

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """As `sanitize --config` takes them."""
        given: dict[str, Any] = {"delta": self.bound.delta} if self.bound.delta else {}
        made = make_mechanism(self.method, given)
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
    def unprotected(self) -> bool:
        return practically_unprotected(self.bound.loss)

    @property
    def config(self) -> Config:
        by = f"recommend, by rule: {self.wish.words() or f'1 chance in 10 may become {10 * USUAL:g} in 10'}"
        return Config(self.method, self.parameters, by[:150], "nothing")

    def command(self, table: str, *, schema: str | None = None, config: str | None = None) -> str:
        """The line that makes the release; before it those that declare ranges which were read off the table."""
        known, lines = self.known, list[str]()
        if known.read_off:
            if not schema:
                schema = SCHEMA_FILE
                lines.append(to_type("schema", table, label=known.label, out=schema))
            declare = to_type("schema declare", schema, column=known.read_off[0])
            others = f"  # and so {len(known.read_off) - 1:,} more" if len(known.read_off) > 1 else ""
            lines.append(f'{declare} ... --reason "WHERE IT IS WRITTEN"{others}')
        trust = None if self.wish.trust == OWNER else self.wish.trust
        several = known.rows_per_person > 1 or known.person is not None
        release = to_type(
            "sanitize",
            table,
            schema=schema,
            label=None if schema else known.label,
            **({"config": config} if config else {"epsilon": _floor(self.bound.epsilon), "trust": trust}),
            person=known.person,
            max_rows_per_person=known.rows_per_person if several else None,
            out="release",
        )
        return "\n  ".join([*lines, release])

    def paragraph(self) -> str:
        """The worst news first, then what is recommended, what holds, and what it will be good for."""
        return " ".join([*self._warned(), self._recommended(), self._forecast_in_words()])

    def _warned(self) -> list[str]:
        known, words = self.known, list[str]()
        if known.read_off:
            columns = in_number(len(known.read_off), "column")
            words.append(
                f"Nothing is proved yet, because the ranges of {columns} were read off your table: "
                f"{first_names(known.read_off, MOST_NAMED)}. No wish about risk or epsilon is kept until you "
                "declare them from what you know without looking (sfumato schema declare); then the bound below holds."
            )
        if not self.met:
            words.append(self.why_not())
        elif self.forecast.useless:
            words.append(self._teach_nothing(known.size))
        if known.label and self.forecast.taught_nothing:
            of = f"{self.forecast.taught_nothing} of {self.forecast.tables} public tables of this size"
            words.append(f"{of} learned nothing.")
        if self.unprotected:
            words.append(worst_first(self.bound.epsilon, "Take a smaller one."))
        return words

    def _recommended(self) -> str:
        bound, rows = self.bound, self.known.rows_per_person
        begin = "Nothing is recommended. The rule's choice would be"
        if self.met:
            begin = "The rule's choice" if self.forecast.useless or self.unprotected else "Recommended"
        kind = (
            "made-up rows drawn from noisy counts of the table (tree-resampling)"
            if bound.delta
            else f"each row blurred by itself ({self.method})"
        )
        return (
            f"{begin}: {kind}, epsilon {rounded_up(bound.epsilon)} for anybody's values. Whatever the other rows "
            f"teach, {own_rows(rows)} can lift a fact from 1 chance in 10 to {chance_at_most(PRIOR, bound.loss)}, "
            f"and any fact by at most {of_100(most_gained(bound.loss))} points{but_for(bound.delta)}. Two "
            f"people are told apart in at most {of_100(bound.pairs)} of 100 pairs{but_for(bound.delta)}. That holds "
            "for every attacker, not only for those that were tried."
        )

    def _forecast_in_words(self) -> str:
        known, tables = self.known, self.forecast
        words = [tables.words() if known.label else tables.words_of_shares()]
        if not known.label and not self.bound.delta:
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
        stronger = self._stronger_that_learns(rows)
        if size is None:
            return said(OF_ANY_SIZE_BUT if stronger else OF_ANY_SIZE, epsilon=f"{stronger or 0:g}", rows=rows)
        sizes = (one for one in SIZES if one > size)
        larger = next((one for one in sizes if not self._forecast_at(self.bound.epsilon, one).useless), None)
        ways = [f"From epsilon {stronger:g}" if stronger else "", f"with {larger:,} rows" if larger else ""]
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
            "met": self.met,
            "mechanism": self.method,
            "parameters": self.parameters,
            "wish": self.wish.to_dict(),
            "bound": self.bound.to_dict(),
            "forecast": self.forecast.to_dict(),
            "rows": self.known.rows,
            "looked_at": "nothing",
            "read_off": list(self.known.read_off),
            "config": self.config.to_dict(),
            "explained": self.paragraph(),
        }


def advise(wish: Wish, known: Known) -> Advice:
    """The method by the rule and the strength by arithmetic, or, under a largest loss, by experience."""
    wish.check()
    wish = wish.by_proof()
    if wish.max_loss is not None and known.rows is None:
        raise UsageError("--max-loss is answered by public tables of your size, which must be public: give --rows.")
    if wish.max_loss is not None and wish.epsilon is wish.max_posterior is wish.max_risk is None:
        bound = _least_that_keeps(wish.max_loss, wish.trust, known)
    else:
        bound = _bound(wish)
    if bound.epsilon <= 0:
        raise UsageError(
            f"No release keeps so small a wish: it comes to epsilon 0 at delta {bound.delta:g}. Allow more."
        )
    return Advice(wish, bound, _ruled(wish.trust, bound.epsilon), known)


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


def _least_that_keeps(limit: float, trust: str, known: Known) -> Bound:
    """The least epsilon that was tried whose experience keeps the loss and teaches something, else the largest."""
    low, high = math.log(STRENGTHS[0]), math.log(STRENGTHS[-1])
    tried = [math.exp(low + (high - low) * step / FINE) * known.rows_per_person for step in range(FINE + 1)]
    tried = [one for one in tried if one <= MOST_EPSILON] or [MOST_EPSILON]

    def keeps(epsilon: float) -> bool:
        found = forecast(_ruled(trust, epsilon), epsilon / known.rows_per_person, known.size)
        return found.lost_on_average <= limit and not found.useless

    epsilon = next((one for one in tried if keeps(one)), tried[-1])
    return Bound.of_epsilon(float(f"{epsilon:.3g}"), trust == OWNER)
