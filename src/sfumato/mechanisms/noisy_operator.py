"""Noise carried into every number by an operator z = Z(e, x) on raw units [density-reconstruction, Eq. 1]."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.errors import UsageError
from sfumato.guarantee import Guarantee, Key
from sfumato.mechanisms.base import Block, Codes, Matrix, Mechanism, as_matrix
from sfumato.mechanisms.responses import Response, respond_in_group
from sfumato.noise import CUSTOM, LAWS, Law, Operator, OperatorNoise, make_law, make_operator
from sfumato.statistics import Statistics
from sfumato.table import Encoding, Group

BOUNDED = (
    "The noise is bounded, so every released value confines its source to a known interval with certainty, and values "
    "near the ends of what is possible give their source away."
)
UNBOUNDED = "What a released value tells depends on where it lies; nothing is proved for the worst case."


class NoisyOperator(Mechanism):
    """Release z = Z(e, x) for every number x in its own units, with noise e of one law, and randomize categories.

    The operator is given by name ("additive", "multiplicative", "quartic": x e + x^2 e^4) or as your own `Operator`
    (Python only; the card then says "custom", and readers need the same operator from you). Its declared inverse is
    checked against its forward map over every column's range. Density reconstruction needs nothing but the card.
    Categories and "missing" are reported by randomized response; a missing value is noised at the middle of its
    range. There is no worst-case guarantee.

    Parameters
    ----------
    operator : name, or an `sfumato.noise.Operator`.
    law : "uniform", "normal", "laplace" or "student-t", in the units that the operator expects.
    scale : b for Laplace, standard deviation for normal and uniform, scale for Student's t.
    low, high : range of uniform noise instead of a scale.
    df : degrees of freedom of Student's t.
    category_epsilon : epsilon of one categorical column.
    """

    name = "noisy-operator"
    columnwise = True
    papers = ("density-reconstruction",)
    not_protected = (
        "Columns are perturbed one by one: where columns are correlated, filtering removes part of the noise.",
        "Bounded noise gives a hard interval for every record; near the ends of the range it is short.",
    )

    def __init__(
        self,
        operator: str | Operator = "additive",
        law: str = "uniform",
        scale: float | None = None,
        low: float | None = None,
        high: float | None = None,
        df: float | None = None,
        category_epsilon: float = 1.0,
    ):
        self.operator = operator
        self.law = law
        self.scale = scale
        self.low = low
        self.high = high
        self.df = df
        self.category_epsilon = category_epsilon

    @property
    def needs_statistics(self) -> bool:
        return False

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        self._check_choice(tuple(LAWS), law=self.law)
        self._check_positive(scale=self.scale, df=self.df, category_epsilon=self.category_epsilon)
        self.noise_ = self._noise()
        self.encoding_ = encoding
        for group in self._numeric():
            low, high = (float(bound) for bound in group.column.bounds)
            # Learned bounds are somebody's values: an error must not tell them.
            told = "" if group.column.source == "learned" else f" (range {low:g} to {high:g})"
            self.noise_.check(low, high, where=f"Column {group.column.name!r}{told}")
        return self

    def _noise(self) -> OperatorNoise:
        """The operator with its law, from the parameters."""
        operator = self.operator if isinstance(self.operator, Operator) else make_operator(self.operator)
        if operator.name == CUSTOM or isinstance(self.operator, str):
            return OperatorNoise(operator, self._law())
        raise UsageError(
            f"The operator {operator.name} is a registered one: give its name, or name your own {CUSTOM!r}."
        )

    def _law(self) -> Law:
        given = self.scale is not None or self.low is not None or self.high is not None
        return make_law(self.law, scale=self.scale if given else 1.0, low=self.low, high=self.high, df=self.df)

    def _numeric(self) -> list[Group]:
        """Columns that noise is carried into; a constant says nothing and is released as it is."""
        return [group for group in self.encoding_.groups if not group.is_onehot and not group.is_constant]

    def _response(self, group: Group) -> Response:
        return Response(group.stop - group.start if group.is_onehot else 2, self.category_epsilon)

    def perturb(self, X: Matrix, y: Codes | None, rng: np.random.Generator) -> Block:
        out = X.copy()
        for group in self._numeric():
            low, high = group.column.bounds
            z = self.noise_.sample(low + X[:, group.start] * (high - low), rng)
            if not np.isfinite(z).all():
                raise UsageError(f"The operator gives values that are no numbers in column {group.column.name!r}.")
            out[:, group.start] = (z - low) / (high - low)
        for group in self.encoding_.groups:
            if group.is_onehot or group.has_indicator:
                respond_in_group(X, out, group, self._response(group), rng)
        return Block(out, y, np.arange(len(X)))

    def embed(self, X: ArrayLike) -> Matrix:
        """Where x lies on average: a mean factor m takes low + u w to m (low + u w), so u to m u + (m - 1) low / w."""
        out = as_matrix(X).copy()
        for group in self._numeric():
            low, high = group.column.bounds
            offset = (self.noise_.slope - 1.0) * low / (high - low)
            out[:, group.start] = self.noise_.slope * out[:, group.start] + offset
        return out

    def restore(self, Z: Matrix) -> Matrix:
        """Numbers divided by their mean factor: written like the original, a release is about as large as it."""
        out = Z.copy()
        for group in self._numeric():
            low, high = group.column.bounds
            if self.noise_.slope != 0.0:
                offset = (self.noise_.slope - 1.0) * low / (high - low)
                out[:, group.start] = (Z[:, group.start] - offset) / self.noise_.slope
        return out

    def guarantee(self) -> Guarantee:
        bounded = all(math.isfinite(end) for end in self.noise_.law.support)
        return Guarantee.none(BOUNDED if bounded else UNBOUNDED).hindered([*self.learned(), "floating-point noise"])

    def operator_noise(self) -> list[OperatorNoise | None]:
        """Operator and law of every column of the release *matrix*, in raw units; None where no noise is carried in."""
        noise: list[OperatorNoise | None] = [None] * self.encoding_.width
        for group in self._numeric():
            noise[group.start] = self.noise_
        return noise

    def laws(self) -> list[Law | None]:
        """Only the additive operator's noise is additive."""
        laws: list[Law | None] = [None] * self.encoding_.width
        if self.noise_.operator.is_additive:
            for group in self._numeric():
                laws[group.start] = self.noise_.law.scaled(1 / float(self.encoding_.scale[group.start]))
        return laws

    def release_columns(self) -> list[dict[str, Any]]:
        columns = []
        for group in self.encoding_.groups:
            response, noise = self._response(group), self.noise_.to_dict()
            stated: dict[str, Any] | None = noise
            if group.is_onehot:
                stated = response.to_dict()
            elif group.is_constant:
                stated = {**response.to_dict(), "missing_keep": response.keep} if group.has_indicator else None
            elif group.has_indicator:
                stated = {**noise, "missing_keep": response.keep}
            columns.append({"name": group.column.name, "kind": group.column.kind, "units": "source", "noise": stated})
        return columns

    def noise_path(self) -> str:
        return "float-noise" if self._numeric() else "exact-response"

    def parameters_used(self) -> dict[str, Any]:
        law = self.noise_.law.to_dict()
        used = {name: law.get(name) for name in ("scale", "low", "high", "df")}
        return {**super().parameters_used(), **used, "operator": self.noise_.operator.name}
