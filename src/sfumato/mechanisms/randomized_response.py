"""Randomized response on tables of categories."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.errors import SchemaError
from sfumato.guarantee import Guarantee, Key
from sfumato.mechanisms.base import Block, Codes, Matrix, Mechanism, as_matrix
from sfumato.mechanisms.responses import Response, respond_in_group
from sfumato.noise import Law
from sfumato.statistics import Statistics
from sfumato.table import Encoding, Group


class RandomizedResponse(Mechanism):
    """Report every category truly with probability e^eps / (e^eps + k - 1), else another at random [Warner 1965].

    Each column has epsilon `epsilon` whatever its number of categories k; a record of d columns d times that.
    With `epsilon_record` the columns share it evenly.
    """

    name = "randomized-response"
    columnwise = True
    papers = ("principal-laplace",)
    not_protected = (
        "Columns are randomized one by one: correlated ones together tell more, up to the record's epsilon.",
    )

    def __init__(self, epsilon: float = 1.0, epsilon_record: float | None = None):
        self.epsilon = epsilon
        self.epsilon_record = epsilon_record

    @property
    def needs_statistics(self) -> bool:
        return False

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        self._check_positive(epsilon=self.epsilon, epsilon_record=self.epsilon_record)
        numeric = [group.column for group in encoding.groups if not group.is_onehot]
        if numeric:
            raise SchemaError(
                f"RandomizedResponse works on categories only, and {numeric[0].name!r} is {numeric[0].kind}. "
                "Use additive-noise, which randomizes categories too, or declare the column categorical."
            )
        self.encoding_ = encoding
        self.epsilon_ = float(self.epsilon if self.epsilon_record is None else self._share_of(self.epsilon_record))
        self.responses_ = [Response(group.stop - group.start, self.epsilon_) for group in encoding.groups]
        return self

    def _share_of(self, record: float) -> float:
        """Every column's part; a column of one category needs none, and the sum must not round above the whole."""
        columns = sum(group.width > 1 for group in self.encoding_.groups)
        return float(record) / max(columns, 1) * (1 - 1e-14)

    def _pairs(self) -> list[tuple[Group, Response]]:
        return list(zip(self.encoding_.groups, self.responses_, strict=True))

    def perturb(self, X: Matrix, y: Codes | None, rng: np.random.Generator) -> Block:
        out = np.empty_like(X)
        for group, response in self._pairs():
            respond_in_group(X, out, group, response, rng)
        return Block(out, y, np.arange(len(X)))

    def embed(self, X: ArrayLike) -> Matrix:
        return as_matrix(X)

    def restore(self, Z: Matrix) -> Matrix:
        return Z

    def guarantee(self) -> Guarantee:
        epsilons = [response.epsilon for response in self.responses_]
        return Guarantee(
            component=max(epsilons),
            column=max(epsilons),
            record=float(np.sum(epsilons)),
            assumptions=(
                "The responses of different rows and columns are independent and their randomness is secret.",
            ),
        ).hindered(self.learned())

    def laws(self) -> list[Law | None]:
        return [None] * self.encoding_.width

    def release_columns(self) -> list[dict[str, Any]]:
        return [
            {"name": group.column.name, "kind": group.column.kind, "units": "source", "noise": response.to_dict()}
            for group, response in self._pairs()
        ]

    def noise_path(self) -> str:
        return "exact-response"

    def parameters_used(self) -> dict[str, Any]:
        return {**super().parameters_used(), "epsilon": self.epsilon_}
