"""What a release provably gives away, at every level, with what the claim rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfumato.channels import EXACT_PATHS, NO_NOISE, Recipe
from sfumato.core.records import Record
from sfumato.core.wording import LONGEST_REASON, counted, joined, listed, own_words, quoted, said
from sfumato.guarantee.cost import (
    NOTHING_PROVED,
    ONE_OF_THEM,
    Central,
    Values,
    amplification,
    figures,
    own_rows,
    posterior_bound,
    practically_unprotected,
    presence,
    promise,
)
from sfumato.guarantee.rounding import rounded_up

# Who the attacker is taken to be, and what is not protected whatever they know.

PRESENCE = "That a person is in the table is not hidden: blurring a record does not hide its presence."


@dataclass(frozen=True)
class ThreatModel(Record):
    """Plain sentences for the card and the report; mechanisms add their own."""

    adversary: tuple[str, ...]
    not_protected: tuple[str, ...]

    @classmethod
    def of(
        cls,
        *,
        label: str,
        rows: str,
        learned_bounds: bool,
        mechanism: tuple[str, ...] = (),
        made_up: bool = False,
        target: str | None = None,
    ) -> ThreatModel:
        """The model of a release whose label is `exact`, `randomized`, `drawn` or `none`.

        `target`: a number to predict that is released as it is. `made_up`: its rows are made up, so that it hides
        who is in the table, and only there.
        """
        adversary = (
            "Holds the whole release and this card, and knows the method with all its parameters.",
            "May know anything else about other people, and any belief about the person beforehand.",
            "Does not hold the key, the private match file or the state of the random generator.",
        )
        counted_rows = f"The number of rows ({rows}) and the names of the columns are released."
        exact_target = target is not None
        open_ends = {
            PRESENCE: not made_up,
            "The column to predict is released exactly as it was: it is assumed to be public.": label == "exact",
            f"The number to predict, {target!r}, is released exactly as it was: nothing is claimed of it. Whoever "
            "knows a person's value finds the rows that have it, and what it tells of other columns is not "
            "hidden.": exact_target,
            "This card shows the ranges and categories that were read off the table: the smallest and largest value "
            "of each such column, and every category, even one that only a single person has.": learned_bounds,
            "The names of the columns are released, and a noisy number of rows.": made_up,
            counted_rows: not made_up,
            "What is true of most people like this person can be learned: that is the purpose.": True,
        }
        return cls(adversary, (*(told for told, holds in open_ends.items() if holds), *mechanism))


LOCAL_DP, CENTRAL_DP = "local-dp", "central-dp"
EMPIRICAL = "empirical-only"
_DOMAIN = "bounds or categories of column "
LABEL_CLASSES = "classes of the label"
PRIORS = (0.001, 0.01, 0.1)
LABEL_ON_TOP = " The column to predict reveals more on top: it is released exactly."
UNBOUNDED = "what can be learned about a record has no bound"
UNBOUNDED_ROWS = "Nothing bounds how many rows a person has, so that nothing is proved of all of them together."
WEAK_CENTRAL = 10.0
"""Above this epsilon a test for presence with one false alarm in 22,000 may be certain."""


@dataclass(frozen=True, repr=False)
class Guarantee:
    """Epsilon for one released component, one source column, the whole record, and a person.

    `kind` is ``local-dp`` only if nothing stands `in_the_way`: bounds, categories, basis or widths learned from the
    data, floating-point noise, a fixed seed. Otherwise the figures are conditional ("would hold if these had been
    public"). Infinite figures mean that there is no bound at all.

    Made-up rows have `central` instead: what all of them together tell about anybody's presence. The
    kind is then ``central-dp``, and the record's epsilon is what a pure one comes to for a person's values.
    """

    component: float
    column: float
    record: float
    exact: bool = True
    rows_per_person: int | None = 1
    rows_per_person_learned: bool = False
    label_epsilon: float | None = None
    exact_label: bool = False
    assumptions: tuple[str, ...] = ()
    in_the_way: tuple[str, ...] = ()
    sentence: str = ""
    central: Central | None = None

    def __repr__(self) -> str:
        if self.central is not None:
            return f"<Guarantee {self.kind}: {self.central.words()} for the table>"
        if not math.isfinite(self.record):
            return f"<Guarantee {self.kind}: no bound>"
        hindered = f", if it were not for {counted(len(self.in_the_way), 'reason')}" if self.in_the_way else ""
        return f"<Guarantee {self.kind}: epsilon {rounded_up(self.record)} for the record{hindered}>"

    @classmethod
    def none(cls, sentence: str) -> Guarantee:
        """No proof: an honest sentence instead of a figure."""
        return cls(math.inf, math.inf, math.inf, exact=True, sentence=sentence)

    @classmethod
    def for_the_table(cls, central: Central, assumptions: Sequence[str] = ()) -> Guarantee:
        """Rows drawn from a noisy model: neighbours are tables with and without one record."""
        value = central.value.epsilon if central.delta == 0.0 else math.inf
        return cls(value, value, value, exact=False, assumptions=tuple(assumptions), central=central)

    @property
    def kind(self) -> str:
        if self.in_the_way:
            return EMPIRICAL
        if self.central is not None and math.isfinite(self.central.epsilon):
            return CENTRAL_DP
        return LOCAL_DP if math.isfinite(self.record) else EMPIRICAL

    @property
    def proved(self) -> float:
        """The record's epsilon that really holds; infinite where it is only conditional."""
        return math.inf if self.kind == EMPIRICAL else self.record

    @property
    def stated(self) -> Values:
        """What would hold for the values of a record if nothing stood in the way."""
        return Values(self.record) if self.central is None else Values(0.0, self.central)

    @property
    def values(self) -> Values:
        """What really holds for the values of a record: infinite where the figures are only conditional."""
        if self.kind != EMPIRICAL:
            return self.stated
        return Values(math.inf) if self.central is None else Values(0.0, NOTHING_PROVED)

    @property
    def person_values(self) -> Values:
        """The same for all rows of a person together."""
        if self.rows_per_person is None:
            return Values(math.inf)
        return self.values.group(self.rows_per_person)

    @property
    def person(self) -> float:
        """Rows of one person are perturbed independently, so their epsilons add up."""
        return math.inf if self.rows_per_person is None else self.record * self.rows_per_person

    @property
    def central_person(self) -> Central | None:
        """What holds for the presence of a person with all of their rows."""
        if self.central is None or self.rows_per_person is None:
            return None
        return self.central.group(self.rows_per_person)

    @property
    def unprotected(self) -> bool:
        """Whether a rare belief can become likelier than not."""
        together = self.record if self.rows_per_person is None else self.person
        return math.isfinite(self.record) and practically_unprotected(together)

    def hindered(self, reasons: Sequence[str]) -> Guarantee:
        """The same figures with more reasons why they hold only conditionally."""
        return replace(self, in_the_way=tuple(dict.fromkeys((*self.in_the_way, *reasons))))

    def at_least(self, central: Central) -> Guarantee:
        """Of made-up rows: at this cost where it is more, for instance what was planned."""
        assert self.central is not None
        more = Guarantee.for_the_table(central.at_least(self.central))
        return replace(self, component=more.component, column=more.column, record=more.record, central=more.central)

    def with_label(self, epsilon: float) -> Guarantee:
        """A randomized label is one more column of the record."""
        return replace(
            self,
            component=max(self.component, epsilon),
            column=max(self.column, epsilon),
            record=self.record + epsilon,
            label_epsilon=epsilon,
            assumptions=(
                *self.assumptions,
                "The label is private and randomized; its epsilon is part of the record's.",
            ),
        )

    def beside_exact_label(self) -> Guarantee:
        """The label is released as it is: what it tells is not bounded."""
        return replace(self, exact_label=True)

    def with_persons(self, rows: int | None, *, learned: bool) -> Guarantee:
        """One person owns up to `rows` rows; a cap counted in the data is not public."""
        if learned:
            reason = "the largest number of rows of one person"
            return replace(self, rows_per_person=rows, rows_per_person_learned=True).hindered([reason])
        return replace(self, rows_per_person=rows)

    def in_words(self) -> str:
        """One paragraph for a data steward, about this release alone; see `AllReleases` for all of them."""
        rows, proved = self.rows_per_person, self.kind != EMPIRICAL
        together = self.stated if rows is None else self.stated.group(rows)
        told = figures(together, self.central is not None, None if rows == 1 else rows)
        if proved:
            words = promise(together, ONE_OF_THEM if rows is None else own_rows(rows), told)
        else:
            words = f"Nothing is proved, because {self.why_not('your table')}."
            if not self.stated.bounded:
                own = f" The release's own words: {quoted(self.sentence)}" if self.sentence.strip() else ""
                return words + own
            words += f" Without that it would be {told}."
        words += self._beside(together)
        if together.central is None:
            return worst_first(together.local, words, proved=proved) if self.unprotected else words
        epsilon = together.central.epsilon
        return worst_first(epsilon, words, proved=proved) if epsilon > WEAK_CENTRAL else words

    def why_not(self, table: str) -> str:
        """Why nothing is proved: what was read off `table` is counted, other reasons are the card's own words."""
        if not self.stated.bounded:
            return UNBOUNDED
        domains = [reason.removeprefix(_DOMAIN) for reason in self.in_the_way if reason.startswith(_DOMAIN)]
        others = [reason for reason in self.in_the_way if not reason.startswith(_DOMAIN)]
        why: list[str] = []
        if domains:
            told = "the range of column {name} was read off {table}"
            if len(domains) > 1:
                told = "the ranges of {count:,} columns were read off {table}"
            why.append(said(told, name=own_words(domains[0], 80), count=len(domains), table=said(table)))
        if others:
            told = "these stand in the way, in the release's own words: {reasons}"
            why.append(said(told, reasons=listed([_named(one) for one in others])))
        return joined(why, ", and because ")

    def _beside(self, together: Values) -> str:
        """What the promise for rows that are bounded `together` leaves open, and what holds beside it."""
        words = LABEL_ON_TOP if self.exact_label and self.central is None else ""
        if together.central is not None and not self.in_the_way:
            words += f" {presence(together.central)}"
        if self.rows_per_person is None:
            words += f" {UNBOUNDED_ROWS}"
        elif self.rows_per_person > 1:
            words += f" One row alone: {figures(self.stated, self.central is not None)}."
            if self.central is not None:
                words += " Only rows that were used count: further ones of the same person were left out."
        return words

    def to_dict(self) -> dict[str, Any]:
        """As it stands on the card; null means infinite."""
        figures = {level: finite(getattr(self, level)) for level in ("component", "column", "record", "person")}
        formal = self.kind != EMPIRICAL
        return {
            "kind": self.kind,
            "epsilon_component": figures["component"],
            **{f"epsilon_{level}": figures[level] if formal else None for level in ("column", "record", "person")},
            "conditional_epsilon": None if formal or figures["record"] is None else figures,
            "central": None if self.central is None else self.central.to_dict(),
            "exact": self.exact,
            "amplification_component": finite(amplification(self.component)),
            "amplification_record": finite(amplification(self.record)) if formal else None,
            "label_epsilon": self.label_epsilon,
            "exact_label": self.exact_label,
            "rows_per_person": self.rows_per_person,
            "rows_per_person_learned": self.rows_per_person_learned,
            "posteriors": self.posteriors(),
            "assumptions": list(self.assumptions),
            "in_the_way": list(self.in_the_way),
            "sentence": self.sentence,
            "words": self.in_words(),
        }

    def posteriors(self) -> list[dict[str, float]]:
        """For a few priors: the highest and the lowest belief that one released record can lead to."""
        if not math.isfinite(self.record):
            return []
        return [
            {
                "prior": prior,
                "at_most": posterior_bound(prior, self.record),
                "at_least": posterior_bound(prior, self.record, downward=True),
            }
            for prior in PRIORS
        ]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Guarantee:
        """The inverse of `to_dict`."""
        figures = data["conditional_epsilon"] or {level: data[f"epsilon_{level}"] for level in ("column", "record")}
        plain = ("exact", "rows_per_person", "rows_per_person_learned", "label_epsilon", "sentence")
        return cls(
            component=infinite(data["epsilon_component"]),
            column=infinite(figures["column"]),
            record=infinite(figures["record"]),
            exact_label=bool(data.get("exact_label", False)),
            assumptions=tuple(data["assumptions"]),
            in_the_way=tuple(data["in_the_way"]),
            central=Central.from_dict(data["central"]) if data.get("central") else None,
            **{name: data[name] for name in plain},
        )


def exact_target(name: str) -> str:
    """What stands in the way of a guarantee where a number to predict is released as it is: a number can be anybody's
    own, so that no claim about the record is left."""
    return f"the number to predict, {name!r}, which is released as it is"


def learned_domain(column: str) -> str:
    """How the card says that a column's domain was learned."""
    return f"{_DOMAIN}{column!r}"


def summarized(reasons: Sequence[str]) -> list[str]:
    """The reasons with learned domains counted instead of listed."""
    domains = [reason for reason in reasons if reason.startswith(_DOMAIN)]
    if len(domains) < 3:
        return [_named(reason) for reason in reasons]
    rest = [_named(reason) for reason in reasons if reason not in domains]
    return [said("bounds or categories of {count} columns", count=len(domains)), *rest]


def _named(reason: str) -> str:
    """What was learned of one column, as a sentence that can be said in another language."""
    begin = next((one for one in (_DOMAIN, f"{LABEL_CLASSES} ") if reason.startswith(one)), "")
    return said(f"{begin}{{name}}", name=own_words(reason.removeprefix(begin), LONGEST_REASON)) if begin else reason


def worst_first(epsilon: float, words: str, *, proved: bool = True) -> str:
    """What a figure of this size comes to, before anything else is said."""
    if proved:
        first = "Practically unprotected, formally bounded: epsilon {epsilon}. {words}"
    else:
        first = "Practically unprotected: epsilon {epsilon}, and not even that is proved. {words}"
    return said(first, epsilon=rounded_up(epsilon), words=words)


def finite(value: float) -> float | None:
    """JSON has no infinity: null."""
    return value if math.isfinite(value) else None


def infinite(value: float | None) -> float:
    """The inverse of `finite`."""
    return math.inf if value is None else float(value)


# One function computes every guarantee: for the owner of a release, and for the coordinator from its card.

LEARNED_BASIS = "basis of principal components, with their variances"
BORROWED_BASIS = "basis that was learned from people's rows for another release"
LEARNED_GUIDANCE = "the guidance: the directions in which the classes differ"
BORROWED_GUIDANCE = "guidance that was learned from people's rows for another release"
LEARNED_MAPS = {LEARNED_BASIS, BORROWED_BASIS, LEARNED_GUIDANCE, BORROWED_GUIDANCE}
FLOATING_POINT = "floating-point noise"


def proved(recipe: Recipe, in_the_way: Sequence[str], assumptions: Sequence[str] = (), sentence: str = "") -> Guarantee:
    """What a recipe proves for one record (or for its presence in the table), and why that holds only conditionally.

    `in_the_way`: what was learned or is not public, in words; what the recipe itself shows is added. `sentence` is
    shown where nothing is proved.
    """
    if recipe.measured:
        return Guarantee.for_the_table(Central.of(recipe.measured, recipe.delta), assumptions).hindered(in_the_way)
    found = recipe.epsilons()
    if not math.isfinite(found.record):
        return Guarantee.none(sentence).hindered(in_the_way)
    told = [] if LEARNED_MAPS & set(in_the_way) else recipe.map.in_the_way(recipe.channels, recipe.encoding)
    floating = [] if recipe.path in (*EXACT_PATHS, NO_NOISE) else [FLOATING_POINT]
    return Guarantee(
        component=found.component,
        column=found.column,
        record=found.record,
        exact=found.exact,
        assumptions=tuple(assumptions),
    ).hindered([*in_the_way, *told, *floating])
