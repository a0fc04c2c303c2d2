"""Randomized response on tables of categories."""

from __future__ import annotations

from typing import Any, Self

from sfumato.channels import Identity, Recipe
from sfumato.channels import RandomizedResponse as RandomizedResponseChannel
from sfumato.core.errors import SchemaError
from sfumato.guarantee import Key
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.columnwise import epsilon_shares
from sfumato.table import Encoding
from sfumato.table.statistics import Statistics


class RandomizedResponse(Mechanism):
    """Report the true category with probability e^eps / (e^eps + k - 1), otherwise another at random [Warner 1965].

    Each column has epsilon `epsilon`, whatever its number of categories k; a record of d columns has d times that.
    With `epsilon_record` the columns share it. They share evenly unless the schema gives them weights.
    """

    only_categories = True
    name = "randomized-response"
    learns = False
    columnwise = True
    proves = True
    column_choices = frozenset({"epsilon_share"})
    papers = ("principal-laplace",)
    rests_on = ("The responses of different rows and columns are independent and their randomness is secret.",)
    not_protected = (
        "Columns are randomized one by one: correlated columns together reveal more, up to the record's epsilon.",
    )

    epsilon: float = 1.0
    epsilon_record: float | None = None

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        self._check_positive(epsilon=self.epsilon, epsilon_record=self.epsilon_record)
        numeric = [group.column for group in encoding.groups if not group.is_onehot]
        if numeric:
            raise SchemaError(
                f"RandomizedResponse works on categories only, but {numeric[0].name!r} is {numeric[0].kind}. "
                "Use additive-noise, which randomizes categories too, or declare the column categorical."
            )
        self.encoding_ = encoding
        self.epsilon_ = float(self.epsilon)
        if self.epsilon_record is not None:  # a column of one category needs no part; the sum must not round above it
            columns = sum(group.width > 1 for group in encoding.groups)
            self.epsilon_ = float(self.epsilon_record) / max(columns, 1) * (1 - 1e-14)
        pairs = zip(encoding.groups, epsilon_shares(encoding.groups), strict=True)
        channels = (RandomizedResponseChannel.of_epsilon(self.epsilon_ * share, group.width) for group, share in pairs)
        self.recipe_ = Recipe(encoding, Identity(encoding.width), tuple(channels))
        return self

    def parameters_used(self) -> dict[str, Any]:
        return {**super().parameters_used(), "epsilon": self.epsilon_}
