"""Mechanisms whose records report some of their columns, each with its share of the record's epsilon."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from sfumato.channels import (
    Channel,
    Exact,
    HidesMissing,
    Hybrid,
    Identity,
    Piecewise,
    RandomizedResponse,
    Recipe,
    Sampled,
    SquareWave,
)
from sfumato.channels.sampled import tells
from sfumato.core.errors import SchemaError
from sfumato.guarantee import Key
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.columnwise import epsilon_shares, reporting_rates
from sfumato.table import Encoding, Group
from sfumato.table.statistics import Statistics

PER_COLUMN = 2.5
"""The epsilon that a column should have before another one is reported [Wang et al. 2019, Eq. 12]."""
ROUND_DOWN = 1 - 1e-14
"""k times a k-th must not round above the whole."""
SELDOM = 1e-6
"""Nothing can be learned of a column that is reported less often."""


class Plan(NamedTuple):
    """How often a column is reported, and with which epsilon."""

    rate: float
    epsilon: float


def plan_of(groups: Sequence[Group], columns: int, epsilon: float) -> dict[int, Plan]:
    """For records that report so many of these columns, by where a column starts.

    The part of the epsilon that a column has over all records follows its share. As long as columns are drawn, the
    drawing sees to that: every reported column has the same epsilon, so the record has the sum of any `columns` of
    them, whatever the shares. Where all columns are reported, their epsilons follow the shares.
    """
    shares, even = epsilon_shares(groups), epsilon / max(1, columns) * ROUND_DOWN
    if columns >= len(groups):
        return {group.start: Plan(1.0, even * share) for group, share in zip(groups, shares, strict=True)}
    plans = {}
    for group, rate in zip(groups, reporting_rates(shares, columns), strict=True):
        plans[group.start] = Plan(rate, even)
        if rate < SELDOM:
            raise SchemaError(
                f"Column {group.column.name!r} would be reported by less than one record in {1 / SELDOM:,.0f}: its "
                "privacy weight is too large beside the others', or its share too small. Change it, or leave the "
                "column out of the table."
            )
    return plans


def reported_channel(group: Group, epsilon: float, number: Callable[[float], Channel]) -> Channel:
    """Of a column's reported cells; that one is missing is hidden."""
    if group.is_onehot:
        found: Channel = RandomizedResponse.of_epsilon(epsilon, len(group.column.categories or ()))
    else:
        found = number(epsilon)
    return HidesMissing(found) if group.column.missing else found


class ReportsSome(Mechanism):
    """Every record reports exactly k of its d columns, drawn without looking at it, with epsilon / k each.

    Which columns a record reports is public and says nothing of it, so sampling costs nothing; and since the set is
    released, it amplifies nothing either. Constants are no columns to draw from: they are released as they are. The
    schema's weights say how often a column is reported (`plan_of`).
    """

    leaves_cells_out = True
    learns = False
    columnwise = True
    proves = True
    column_choices = frozenset({"epsilon_share"})
    rests_on = (
        "The noise of different rows and columns is independent and secret.",
        "Values outside the bounds were clipped to them before noise was added.",
        "Which columns a record reports is drawn without looking at it. An empty cell means that the record does not "
        "report the column, and nothing else; a missing cell is reported as any value, within the epsilon.",
    )

    not_protected = (
        "Of each record it is public which columns it reports.",
        "The mechanism spends its whole epsilon: an adversary who knows the likelihood gets all that it allows.",
    )

    epsilon_record: float = 4.0
    columns: int | None = None
    noise: str = "exact"

    @abstractmethod
    def number(self, epsilon: float) -> Channel:
        """The channel of a number."""

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        self._check_choice(("exact", "float"), noise=self.noise)
        self._check_positive(epsilon_record=self.epsilon_record)
        self.encoding_ = encoding
        free = [group for group in encoding.groups if tells(group)]
        self.columns_ = self._count_of_columns(self.columns, int(self.epsilon_record / PER_COLUMN), len(free))
        plans = plan_of(free, self.columns_, float(self.epsilon_record))
        ways = {False: functools.cache(self.number), True: functools.cache(self.missing_number)}
        channels = tuple(
            self._channel(group, plans.get(group.start), ways[group.has_indicator]) for group in encoding.groups
        )
        always = sum(plan.rate == 1 for plan in plans.values())
        reports = self.columns_ - always if always < len(plans) else None
        self.recipe_ = Recipe(encoding, Identity(encoding.width), channels, reports=reports)
        return self

    def missing_number(self, epsilon: float) -> Channel:
        """The channel of a number that may be missing: one whose outcomes can all be as likely."""
        return self.number(epsilon)

    def _channel(self, group: Group, plan: Plan | None, number: Callable[[float], Channel]) -> Channel:
        if plan is None:
            found: Channel = RandomizedResponse(1.0, 1) if group.is_onehot else Exact()
            return HidesMissing(found) if group.column.missing else found
        found = reported_channel(group, plan.epsilon, number)
        return Sampled(found, plan.rate) if plan.rate < 1 else found

    def parameters_used(self) -> dict[str, Any]:
        return {**super().parameters_used(), "columns": self.columns_}


# The square wave on some columns of every record: what is known to leave most for learners at a small epsilon.


class SquareWaveColumns(ReportsSome):
    """Report a few columns of every record, numbers by the square wave [Li et al. 2020], categories by randomized
    response, and leave the other cells empty.

    A number is released within b of the truth with density p, elsewhere on [-b, 1 + b] of its range with density
    p e^-eps, where eps is the record's epsilon over the number of columns that it reports. Released numbers are biased
    towards the middle: learners and reconstruction go by the likelihood. A missing cell is released as any value.

    Parameters
    ----------
    epsilon_record : epsilon of the whole record.
    columns : how many columns every record reports; None for epsilon / 2.5, at least 1.
    noise : "exact" (on a grid) or "float", for experiments.
    """

    name = "square-wave"
    papers = ("Li et al. 2020", "Wang et al. 2019")

    def number(self, epsilon: float) -> Channel:
        return SquareWave.of_epsilon(epsilon, exact=self.noise == "exact")


class PiecewiseNoise(ReportsSome):
    """Report a few columns of every record without bias: numbers by the piecewise mechanism [Wang et al. 2019],
    categories by randomized response; the other cells are empty.

    A reported number is right on average, whatever it is, so the mean of a column's reported cells is an unbiased
    estimate of the column's mean. It is at most C / 2 of the range away from the middle, C = (e^(eps/2) + 1) /
    (e^(eps/2) - 1), where eps is the record's epsilon over the number of columns that it reports. For learning, the
    square wave keeps more. A missing cell is released as any value, which is the middle of the range on average.

    Parameters
    ----------
    epsilon_record : epsilon of the whole record.
    columns : how many columns every record reports; None for epsilon / 2.5, at least 1.
    form : "hybrid", which mixes in two far ends and varies least at worst, or "piecewise". A number that may be
        missing is always piecewise.
    noise : "exact" (on a grid) or "float", for experiments.
    """

    name = "piecewise-noise"
    papers = ("Wang et al. 2019",)

    form: str = "hybrid"

    def number(self, epsilon: float) -> Channel:
        self._check_choice(("hybrid", "piecewise"), form=self.form)
        kind = Hybrid if self.form == "hybrid" else Piecewise
        return kind.of_epsilon(epsilon, exact=self.noise == "exact")

    def missing_number(self, epsilon: float) -> Channel:
        return Piecewise.of_epsilon(epsilon, exact=self.noise == "exact")
