"""What a release provably gives away, at every level, with what the claim rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfumato.guarantee.concentrated import NOTHING_PROVED, Central, Values
from sfumato.guarantee.own_words import listed, quoted
from sfumato.guarantee.posterior import PRACTICALLY_UNPROTECTED, amplification, posterior_bound
from sfumato.guarantee.rounding import at_most, rounded_up
from sfumato.wording import counted

LOCAL_DP, CENTRAL_DP = "local-dp", "central-dp"
EMPIRICAL = "empirical-only"
_DOMAIN = "bounds or categories of column "
PRIORS = (0.001, 0.01, 0.1)
LABEL_ON_TOP = " The label reveals more on top: it is released exactly."
WEAK_CENTRAL = 10.0
"""Above this epsilon a test for presence with one false alarm in 22,000 may be certain."""


@dataclass(frozen=True, repr=False)
class Guarantee:
    """Epsilon for one released component, one source column, the whole record, and a person.

    `kind` is ``local-dp`` only if nothing stands `in_the_way`: bounds, categories, basis or widths learned from the
    data, floating-point noise, a fixed seed. Otherwise the figures are conditional ("would hold if these had been
    public"). Infinite figures mean that there is no bound at all.

    Rows that belong to nobody have `central` instead: what seeing all of them tells about anybody's presence. The
    kind is then ``central-dp``, and the record's epsilon is what a pure one comes to for somebody's values.
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
    def values(self) -> Values:
        """What really holds for the values of a record: infinite where the figures are only conditional."""
        if self.central is None:
            return Values(self.proved)
        return Values(0.0, self.central if self.kind == CENTRAL_DP else NOTHING_PROVED)

    @property
    def person_values(self) -> float:
        """Epsilon of the same for all rows of a person."""
        if self.rows_per_person is None or not self.values.bounded:
            return math.inf
        return self.person if self.central is None else self.central.group(self.rows_per_person).value.epsilon

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
        return math.isfinite(self.record) and posterior_bound(0.001, self.record) > PRACTICALLY_UNPROTECTED

    def hindered(self, reasons: Sequence[str]) -> Guarantee:
        """The same figures with more reasons why they hold only conditionally."""
        return replace(self, in_the_way=tuple(dict.fromkeys((*self.in_the_way, *reasons))))

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

    def in_words(self, prior: float = 0.001) -> str:
        """One paragraph for a data steward, about this release alone; see `AllReleases` for all of them."""
        if self.central is not None and math.isfinite(self.central.epsilon):
            return self._nobodys_rows()
        if not math.isfinite(self.record):
            own = f" The release's own words: {quoted(self.sentence)}" if self.sentence.strip() else ""
            return f"Empirical only: no bound on what can be learned about a record is proved.{own}"
        figure = f"epsilon {rounded_up(self.record)} for the whole record{'' if self.exact else ', an upper bound'}"
        words = becoming_sure(prior, self.record, "that person's released record", figure)
        if self.exact_label:
            words += LABEL_ON_TOP
        if self.rows_per_person is not None and self.rows_per_person > 1:
            words += f" A person with {self.rows_per_person:,} rows: epsilon {rounded_up(self.person)}."
        if self.in_the_way:
            words = (
                "Empirical only: this would hold if the following had been public or exact, in the release's own "
                f"words: {listed(summarized(self.in_the_way))}. {words}"
            )
        return worst_first(self.record, words, proved=not self.in_the_way) if self.unprotected else words

    def _nobodys_rows(self) -> str:
        assert self.central is not None
        words = presence(self.central, "this release")
        words += f" What values a record has, {self.central.value.words()}: one record goes and another comes."
        person = self.central_person
        if person is not None and self.rows_per_person != 1:
            words += f" A person with up to {self.rows_per_person:,} rows: {person.words()}."
            words += " A record means one of the rows that were used: further ones of the same person were left out."
        if self.in_the_way:
            words = (
                f"Empirical only: this would hold had it not been for {listed(summarized(self.in_the_way))}. {words}"
            )
        if self.central.epsilon > WEAK_CENTRAL:
            return worst_first(self.central.epsilon, words, proved=not self.in_the_way)
        return words

    def to_dict(self) -> dict[str, Any]:
        """As it stands on the card; null means infinite."""
        figures = {
            "component": finite(self.component),
            "column": finite(self.column),
            "record": finite(self.record),
            "person": finite(self.person),
        }
        formal = self.kind != EMPIRICAL
        return {
            "kind": self.kind,
            "epsilon_component": figures["component"],
            "epsilon_column": figures["column"] if formal else None,
            "epsilon_record": figures["record"] if formal else None,
            "epsilon_person": figures["person"] if formal else None,
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
        figures = data["conditional_epsilon"] or {
            "column": data["epsilon_column"],
            "record": data["epsilon_record"],
        }
        return cls(
            component=infinite(data["epsilon_component"]),
            column=infinite(figures["column"]),
            record=infinite(figures["record"]),
            exact=data["exact"],
            rows_per_person=data["rows_per_person"],
            rows_per_person_learned=data["rows_per_person_learned"],
            label_epsilon=data["label_epsilon"],
            exact_label=bool(data.get("exact_label", False)),
            assumptions=tuple(data["assumptions"]),
            in_the_way=tuple(data["in_the_way"]),
            sentence=data["sentence"],
            central=Central.from_dict(data["central"]) if data.get("central") else None,
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
        return list(reasons)
    rest = [reason for reason in reasons if reason not in domains]
    return [f"bounds or categories of {len(domains)} columns", *rest]


def worst_first(epsilon: float, words: str, *, proved: bool = True) -> str:
    """What a figure of this size comes to, before anything else is said."""
    figure = f"epsilon {rounded_up(epsilon)}"
    if proved:
        return f"Practically unprotected, formally bounded: {figure}. {words}"
    return f"Practically unprotected: {figure}, and not even that is proved. {words}"


def becoming_sure(prior: float, epsilon: float, seeing: str, figure: str) -> str:
    """The sentence that an epsilon comes to."""
    return (
        f"Somebody who believes something about a person's private columns with probability {prior:g} "
        f"can become {at_most(posterior_bound(prior, epsilon))} sure of it by seeing {seeing} ({figure})."
    )


def presence(central: Central, seeing: str) -> str:
    """What central differential privacy comes to, about the presence of one record."""
    odds = rounded_up(math.exp(min(central.epsilon, 700.0)))
    if central.delta == 0.0:
        return (
            f"Whether or not somebody's record was in the table, every outcome of {seeing} is as likely up to a factor "
            f"of {odds} ({central.words()}): nobody's presence can be told with more confidence than that."
        )
    return (
        f"Whether or not somebody's record was in the table, {seeing} looks nearly the same: a test that says \"was in "
        f'the table" wrongly with probability p says it rightly with probability at most {odds} p + {central.delta:g} '
        f"({central.words()})."
    )


def finite(value: float) -> float | None:
    """JSON has no infinity: null."""
    return value if math.isfinite(value) else None


def infinite(value: float | None) -> float:
    """The inverse of `finite`."""
    return math.inf if value is None else float(value)
