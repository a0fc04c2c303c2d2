"""Every number times a random factor [density-reconstruction, Example 3]."""

from __future__ import annotations

from typing import Any

from sfumato.mechanisms.knob import Knob
from sfumato.mechanisms.noisy_operator import USUAL, NoisyOperator
from sfumato.noise import OperatorNoise, make_law, make_operator
from sfumato.table import Column


class MultiplicativeNoise(NoisyOperator):
    """Multiply every number by independent noise, in its own units, and randomize categories.

    z = x (base + e). With `low` and `high` the noise is the factor itself, uniform between them (base 0), as in the
    paper: 1 to 3 by default. With `scale` it is the relative error of the factor 1 (base 1), of any law. A range that
    contains 0 is refused, because 0 times anything is 0, unless such columns get noise that is added. A column of the
    schema may choose its own operator and law (`noise`). There is no worst-case guarantee; bounded noise gives a hard
    interval for every record.

    Parameters
    ----------
    law : "uniform", "normal", "laplace" or "student-t".
    low, high : range of the uniform factor.
    scale : b for Laplace, standard deviation for normal and uniform, scale for Student's t, of the relative error.
    df : degrees of freedom of Student's t.
    base : what is added to the noise to give the factor; 0 with low and high, 1 with scale.
    zero : "refuse" columns whose range contains 0, or give them "additive" noise of the law: of standard deviation (for
        Laplace, Student's t: of scale) 0.3 of their range.
    category_epsilon : epsilon of one categorical column.
    """

    name = "multiplicative-noise"
    own_knob = Knob("scale", 0.01, 3.0, protects=True, beside={"law": "normal", "zero": "additive"})

    def __init__(
        self,
        law: str = "uniform",
        low: float | None = None,
        high: float | None = None,
        scale: float | None = None,
        df: float | None = None,
        base: float | None = None,
        category_epsilon: float = 1.0,
        zero: str = "refuse",
    ):
        self.law = law
        self.low = low
        self.high = high
        self.scale = scale
        self.df = df
        self.base = base
        self.category_epsilon = category_epsilon
        self.zero = zero

    def _instead(self, column: Column) -> OperatorNoise:
        self._check_choice(("refuse", "additive"), zero=self.zero)
        low, high = column.bounds
        if self.zero == "refuse" or not low <= 0.0 <= high:
            return self.noise_
        law = make_law(self.law, scale=USUAL * (high - low), df=self.df)
        return OperatorNoise(make_operator("additive"), law)

    def _noise(self) -> OperatorNoise:
        low, high, scale = self.low, self.high, self.scale
        if low is None and high is None and scale is None:
            low, high, scale = (1.0, 3.0, None) if self.law == "uniform" else (None, None, 0.3)
        factor = low is not None or high is not None
        base = self.base if self.base is not None else 0.0 if factor else 1.0
        return OperatorNoise(
            make_operator("multiplicative", {"base": base}),
            make_law(self.law, scale=scale, low=low, high=high, df=self.df),
        )

    def parameters_used(self) -> dict[str, Any]:
        return {**super().parameters_used(), **self.noise_.operator.parameters}
