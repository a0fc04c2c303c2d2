"""Noise of one law on every column, the oldest perturbation of all [Agrawal & Srikant 2000]."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.errors import UsageError
from sfumato.guarantee import Guarantee, Key
from sfumato.mechanisms.base import Block, Codes, Matrix, Mechanism, as_matrix
from sfumato.mechanisms.grid_laplace import LaplaceNoise
from sfumato.mechanisms.responses import Response, respond_in_group
from sfumato.noise import LAWS, Law, make_law
from sfumato.statistics import Statistics
from sfumato.table import Encoding, Group

NO_BOUND = (
    "Noise of this law has no bounded amplification: a value far enough out gives its source away "
    "[principal-laplace, Theorem 4]."
)


SCALES = (1e-6, 1e6)
"""Between which a scale is looked for, relative to the range of a column."""


class AdditiveNoise(Mechanism):
    """Add independent noise to every numeric column, and randomize categories.

    Noise is relative to a column's range: with Laplace noise of scale b each column is exp(1/b)-amplifying and a
    record of d columns exp(d/b) [principal-laplace, Eq. 7]. Categories and "missing" are reported by randomized
    response, with the same epsilon as the numeric columns unless `category_epsilon` says otherwise. A missing
    value is noised at the middle of its range, and shown or withheld as the randomized "missing" says.

    Parameters
    ----------
    law : "laplace", "normal", "uniform", "student-t" or "epanechnikov".
    scale : b for Laplace, standard deviation for normal and uniform, scale for Student's t, half-width for
        Epanechnikov; relative to the range.
    low, high : range of uniform noise instead of a scale; relative to the range of the column.
    df : degrees of freedom of Student's t.
    category_epsilon : epsilon of one categorical column; 1 / scale by default.
    noise : "exact" (Laplace on a grid) or "float"; other laws than Laplace are always floating-point.
    epsilon_record : the record's epsilon to reach; the scale is then derived (Laplace and Student's t).
    """

    name = "additive-noise"
    columnwise = True
    papers = ("principal-laplace", "density-reconstruction")
    not_protected = (
        "Columns are perturbed one by one: where columns are correlated, filtering removes part of the noise.",
    )

    def __init__(
        self,
        law: str = "laplace",
        scale: float | None = None,
        low: float | None = None,
        high: float | None = None,
        df: float | None = None,
        category_epsilon: float | None = None,
        noise: str = "exact",
        epsilon_record: float | None = None,
    ):
        self.law = law
        self.scale = scale
        self.low = low
        self.high = high
        self.df = df
        self.category_epsilon = category_epsilon
        self.noise = noise
        self.epsilon_record = epsilon_record

    @property
    def needs_statistics(self) -> bool:
        return False

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        self._check_choice(tuple(LAWS), law=self.law)
        self._check_choice(("exact", "float"), noise=self.noise)
        self._check_positive(
            scale=self.scale, df=self.df, category_epsilon=self.category_epsilon, epsilon_record=self.epsilon_record
        )
        self.encoding_ = encoding
        self.law_ = self._law(self._scale())
        if self.epsilon_record is not None:
            self.law_ = self._law(self._scale_for(self.epsilon_record))
        self.response_epsilon_ = self._response_epsilon(self.law_)
        return self

    def _scale(self) -> float | None:
        if self.scale is None and self.low is None and self.high is None:
            return 0.3
        return self.scale

    def _law(self, scale: float | None) -> Law:
        return make_law(self.law, scale=scale, low=self.low, high=self.high, df=self.df)

    def _response_epsilon(self, law: Law) -> float:
        if self.category_epsilon is not None:
            return float(self.category_epsilon)
        return 1.0 / float(getattr(law, "scale", None) or math.sqrt(law.variance))

    def _scale_for(self, wanted: float) -> float:
        """The scale whose record epsilon is the wanted one, approached from the safe side."""
        if not math.isfinite(self.law_.log_amplification(1.0)):
            raise UsageError(f"No scale of {self.law} noise gives a record epsilon. {NO_BOUND} Use law=laplace.")
        self.response_epsilon_ = self._response_epsilon(self.law_)

        def excess(log_scale: float) -> float:
            law = self._law(math.exp(log_scale))
            return self._epsilons(law, self._response_epsilon(law))[2] - wanted

        least, most = (math.log(scale) for scale in SCALES)
        if excess(most) > 0:
            fixed = "the categorical columns alone exceed it. Lower category_epsilon."
            small = f"that needs noise of more than {SCALES[1]:g} times the range. Ask for a larger epsilon."
            reason = small if self.category_epsilon is None else fixed
            raise UsageError(f"A record epsilon of {wanted:g} cannot be reached: {reason}")
        if excess(least) < 0:
            raise UsageError(
                f"A record epsilon of {wanted:g} cannot be reached: that needs noise of less than {SCALES[0]:g} times "
                "the range, which protects nobody. Ask for a smaller epsilon."
            )
        from scipy.optimize import brentq  # loads slowly, and only this knob needs it

        root = brentq(excess, least, most, xtol=1e-13)
        while excess(root) > 0:
            root += 1e-12
        return math.exp(root)

    def _laplace(self, law: Law) -> LaplaceNoise | None:
        """The exact sampler, where it applies: zero-based unit intervals of all numeric columns."""

        if self.law != "laplace":
            return None
        ones = np.ones(max(1, len(self._numeric())))
        return LaplaceNoise(0 * ones, ones, float(getattr(law, "scale")) * ones, self.noise == "exact")  # noqa: B009

    def _numeric(self) -> list[Group]:
        return [group for group in self.encoding_.groups if not group.is_onehot]

    def _response(self, group: Group, epsilon: float) -> Response:
        return Response(group.stop - group.start if group.is_onehot else 2, epsilon)

    def perturb(self, X: Matrix, y: Codes | None, rng: np.random.Generator) -> Block:
        out = np.empty_like(X)
        numeric = [group.start for group in self._numeric()]
        if numeric:
            laplace = self._laplace(self.law_)
            values = np.ascontiguousarray(X[:, numeric])
            out[:, numeric] = laplace.add(values, rng) if laplace else values + self.law_.sample(rng, values.shape)
        for group in self.encoding_.groups:
            if group.is_onehot or group.has_indicator:
                respond_in_group(X, out, group, self._response(group, self.response_epsilon_), rng)
        return Block(out, y, np.arange(len(X)))

    def embed(self, X: ArrayLike) -> Matrix:
        return as_matrix(X)

    def restore(self, Z: Matrix) -> Matrix:
        return Z

    def _epsilons(self, law: Law, response_epsilon: float) -> tuple[float, float, float]:
        """Of one released component, one source column, the record: columns are independent, so they add up."""
        laplace = self._laplace(law)
        rounding = 2.0**-laplace.bits if laplace and laplace.exact else 0.0

        def moved(distance: float) -> float:
            whole = laplace.component_epsilon()[0] if laplace else law.log_amplification(1.0)
            if distance == 0:
                return 0.0
            if distance >= 1:
                return float(whole)
            partial = distance / laplace.scale[0] if laplace else law.log_amplification(distance)
            return float(min(partial + rounding, whole))

        columns = [self._column_epsilon(group, moved, response_epsilon) for group in self.encoding_.groups]
        components = [moved(1.0)] if any(not group.is_constant for group in self._numeric()) else [0.0]
        components += [
            self._response(group, response_epsilon).epsilon
            for group in self.encoding_.groups
            if group.is_onehot or group.has_indicator
        ]
        return max(components), max(columns), float(sum(columns))

    def _column_epsilon(self, group: Group, moved: Callable[[float], float], response_epsilon: float) -> float:
        response = self._response(group, response_epsilon)
        if group.is_onehot:
            return response.epsilon
        width = 0.0 if group.is_constant else 1.0
        if group.has_indicator:  # from an end of the range to the middle, and from present to missing
            return max(moved(width), moved(width / 2) + response.epsilon)
        return moved(width)

    def guarantee(self) -> Guarantee:
        bounded = math.isfinite(self.law_.log_amplification(1.0)) or not self._numeric()
        component, column, record = self._epsilons(self.law_, self.response_epsilon_)
        floating = self._numeric() and self.noise_path() == "float-noise"
        return Guarantee(
            component=component,
            column=column,
            record=record,
            assumptions=(
                "The noise of different rows and columns is independent and secret.",
                "Values outside the bounds were clipped to them before noise was added.",
            ),
            sentence="" if bounded else NO_BOUND,
        ).hindered([*self.learned(), *(["floating-point noise"] if floating else [])])

    def laws(self) -> list[Law | None]:
        laws: list[Law | None] = [None] * self.encoding_.width
        for group in self._numeric():
            laws[group.start] = self.law_
        return laws

    def release_columns(self) -> list[dict[str, Any]]:
        columns = []
        noise: dict[str, Any] | None
        laplace = self._laplace(self.law_)
        for group in self.encoding_.groups:
            response = self._response(group, self.response_epsilon_)
            if group.is_onehot:
                noise = response.to_dict()
            elif group.is_constant:  # every value is the same public constant: only "missing" tells anything
                noise = {**response.to_dict(), "missing_keep": response.keep} if group.has_indicator else None
            else:
                scale = float(self.encoding_.scale[group.start])
                noise = self.law_.scaled(scale).to_dict()
                if laplace and laplace.exact:
                    noise["grid"] = float(laplace.grid[0]) * scale
                if group.has_indicator:
                    noise["missing_keep"] = response.keep
            columns.append({"name": group.column.name, "kind": group.column.kind, "units": "source", "noise": noise})
        return columns

    def noise_path(self) -> str:
        if not self._numeric():
            return "exact-response"
        return "exact-grid" if self.law == "laplace" and self.noise == "exact" else "float-noise"

    def parameters_used(self) -> dict[str, Any]:
        law = self.law_.to_dict()
        used = {name: law.get(name) for name in ("scale", "low", "high", "df")}
        return {**super().parameters_used(), **used, "category_epsilon": self.response_epsilon_}
