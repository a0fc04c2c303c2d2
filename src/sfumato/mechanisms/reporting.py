"""Mechanisms whose records report some of their columns, each with its share of the record's epsilon."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

from sfumato.channels import Channel, Exact, HidesMissing, Identity, RandomizedResponse, Recipe, Sampled
from sfumato.channels.reports import tells
from sfumato.guarantee import Key
from sfumato.mechanisms.base import Mechanism
from sfumato.statistics import Statistics
from sfumato.table import Encoding, Group

PER_COLUMN = 2.5
"""The epsilon that a column should have before another one is reported [Wang et al. 2019, Eq. 12]."""
ROUND_DOWN = 1 - 1e-14
"""k times a k-th must not round above the whole."""


class ReportsSome(Mechanism):
    """Every record reports exactly k of its d columns, drawn without looking at it, with epsilon / k each.

    Which columns a record reports is public and says nothing of it, so sampling costs nothing; and since the set is
    released, it amplifies nothing either. Constants are no columns to draw from: they are released as they are.
    """

    columnwise = True
    proves = True
    rests_on = (
        "The noise of different rows and columns is independent and secret.",
        "Values outside the bounds were clipped to them before noise was added.",
        "Which columns a record reports is drawn without looking at it. An empty cell means that the record does not "
        "report the column, and nothing else; a missing cell is reported as any value, within the epsilon.",
    )

    epsilon_record: float
    columns: int | None
    noise: str

    @property
    def needs_statistics(self) -> bool:
        return False

    @abstractmethod
    def number(self, epsilon: float) -> Channel:
        """The channel of a number."""

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        self._check_choice(("exact", "float"), noise=self.noise)
        self._check_positive(epsilon_record=self.epsilon_record)
        self.encoding_ = encoding
        free = [group for group in encoding.groups if tells(group)]
        self.columns_ = self._count_of_columns(self.columns, int(self.epsilon_record / PER_COLUMN), len(free))
        share = float(self.epsilon_record) / max(1, self.columns_) * ROUND_DOWN
        number = self.number(share) if any(not group.is_onehot for group in free) else Exact()
        rate = self.columns_ / max(1, len(free))
        channels = tuple(self._channel(group, number, share, rate) for group in encoding.groups)
        reports = self.columns_ if rate < 1 else None
        self.recipe_ = Recipe(encoding, Identity(encoding.width), channels, reports=reports)
        return self

    def missing_number(self, epsilon: float) -> Channel:
        """The channel of a number that may be missing: one whose outcomes can all be as likely."""
        return self.number(epsilon)

    def _channel(self, group: Group, number: Channel, share: float, rate: float) -> Channel:
        if not tells(group):
            found: Channel = RandomizedResponse(1.0, 1) if group.is_onehot else Exact()
            return HidesMissing(found) if group.column.missing else found
        found = self.missing_number(share) if group.has_indicator else number
        if group.is_onehot:
            found = RandomizedResponse.of_epsilon(share, len(group.column.categories or ()))
        if group.column.missing:
            found = HidesMissing(found)
        return Sampled(found, rate) if rate < 1 else found

    def parameters_used(self) -> dict[str, Any]:
        return {**super().parameters_used(), "columns": self.columns_}
