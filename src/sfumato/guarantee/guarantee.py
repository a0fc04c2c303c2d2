"""What a release provably gives away, at every level, with what the claim rests on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfumato.guarantee.own_words import listed, quoted
from sfumato.guarantee.posterior import PRACTICALLY_UNPROTECTED, amplification, posterior_bound
from sfumato.guarantee.rounding import at_most, rounded_up
from sfumato.wording import counted

LOCAL_DP = "local-dp"
EMPIRICAL = "empirical-only"
_DOMAIN = "bounds or categories of column "
PRIORS = (0.001, 0.01, 0.1)
LABEL_ON_TOP = " What the label itself tells comes on top: it is released exactly."
UNPROTECTED = " That is formally bounded, practically unprotected."


@dataclass(frozen=True, repr=False)
class Guarantee:
    """Epsilon for one released component, one source column, the whole record, and a person.

    `kind` is ``local-dp`` only if nothing stands `in_the_way`: bounds, categories, basis or widths learned from the
    data, floating-point noise, a fixed seed. Otherwise the figures are conditional ("would hold had these been
    public"). Infinite figures mean that there is no bound at all.
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

    def __repr__(self) -> str:
        if not math.isfinite(self.record):
            return f"<Guarantee {self.kind}: no bound>"
        hindered = f", if it were not for {counted(len(self.in_the_way), 'reason')}" if self.in_the_way else ""
        return f"<Guarantee {self.kind}: epsilon {rounded_up(self.record)} for the record{hindered}>"

    @classmethod
    def none(cls, sentence: str) -> Guarantee:
        """No proof: an honest sentence instead of a figure."""
        return cls(math.inf, math.inf, math.inf, exact=True, sentence=sentence)

    @property
    def kind(self) -> str:
        return LOCAL_DP if math.isfinite(self.record) and not self.in_the_way else EMPIRICAL

    @property
    def proved(self) -> float:
        """The record's epsilon that really holds; infinite where it is only conditional."""
        return self.record if self.kind == LOCAL_DP else math.inf

    @property
    def person(self) -> float:
        """Rows of one person are perturbed independently, so their epsilons add up."""
        return math.inf if self.rows_per_person is None else self.record * self.rows_per_person

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
        if not math.isfinite(self.record):
            own = f" The release's own words: {quoted(self.sentence)}" if self.sentence.strip() else ""
            return f"Empirical only: no bound on what can be learned about a record is proved.{own}"
        figure = f"epsilon {rounded_up(self.record)} for the whole record{'' if self.exact else ', an upper bound'}"
        words = becoming_sure(prior, self.record, "that person's released record", figure)
        if self.exact_label:
            words += LABEL_ON_TOP
        if self.unprotected:
            words += UNPROTECTED
        if self.rows_per_person is not None and self.rows_per_person > 1:
            words += f" A person with {self.rows_per_person:,} rows: epsilon {rounded_up(self.person)}."
        if self.in_the_way:
            words = (
                "Empirical only: this would hold had the following been public or exact, in the release's own words: "
                f"{listed(summarized(self.in_the_way))}. {words}"
            )
        return words

    def to_dict(self) -> dict[str, Any]:
        """As it stands on the card; null means infinite."""
        figures = {
            "component": finite(self.component),
            "column": finite(self.column),
            "record": finite(self.record),
            "person": finite(self.person),
        }
        formal = self.kind == LOCAL_DP
        return {
            "kind": self.kind,
            "epsilon_component": figures["component"],
            "epsilon_column": figures["column"] if formal else None,
            "epsilon_record": figures["record"] if formal else None,
            "epsilon_person": figures["person"] if formal else None,
            "conditional_epsilon": None if formal or figures["record"] is None else figures,
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
        )


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


def becoming_sure(prior: float, epsilon: float, seeing: str, figure: str) -> str:
    """The sentence that an epsilon comes to."""
    return (
        f"Somebody who believes something about a person's private columns with probability {prior:g} "
        f"can become {at_most(posterior_bound(prior, epsilon))} sure of it by seeing {seeing} ({figure})."
    )


def finite(value: float) -> float | None:
    """JSON has no infinity: null."""
    return value if math.isfinite(value) else None


def infinite(value: float | None) -> float:
    """The inverse of `finite`."""
    return math.inf if value is None else float(value)
