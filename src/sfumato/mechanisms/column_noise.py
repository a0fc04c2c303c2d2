"""Noise on every column by itself, the oldest perturbation of all [Agrawal & Srikant 2000]: added, carried by an
operator, or randomized response."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sfumato.channels import Additive, Carried, Channel, Exact, Identity, Recipe, laplace_channels
from sfumato.channels import RandomizedResponse as RandomizedResponseChannel
from sfumato.core.array_types import Matrix
from sfumato.core.errors import SchemaError, UsageError
from sfumato.guarantee import Key
from sfumato.mechanisms.base import Mechanism, as_matrix
from sfumato.mechanisms.columnwise import columnwise_channel, epsilon_shares
from sfumato.mechanisms.parameters import STRENGTHS, Knob, searched_strength
from sfumato.noise import CUSTOM, LAWS, Laplace, Law, Operator, OperatorNoise, make_law, make_operator
from sfumato.noise.law import is_own
from sfumato.table import Column, Encoding, Group
from sfumato.table.statistics import Statistics

NO_BOUND = (
    "Noise of this law has no bounded amplification: a value far enough out reveals its source [principal-laplace, "
    "Theorem 4]."
)


class AdditiveNoise(Mechanism):
    """Add independent noise to every numeric column, and randomize categories.

    Noise is relative to a column's range: with Laplace noise of scale b each column is exp(1/b)-amplifying and a
    record of d columns exp(d/b) [principal-laplace, Eq. 7]. Categories and "missing" are reported by randomized
    response, with the same epsilon as the numeric columns unless `category_epsilon` says otherwise. A missing
    value is noised at the middle of its range, and shown or withheld as the randomized "missing" says. A column of the
    schema may choose its own law and scale (`noise`), and columns share the epsilon as their weights say.

    Parameters
    ----------
    law : {laws}.
    scale : b for Laplace, standard deviation for normal and uniform, scale for Student's t, half-width for the others;
        relative to the range.
    low, high : range of uniform noise instead of a scale; relative to the range of the column.
    df : degrees of freedom of Student's t.
    category_epsilon : epsilon of one categorical column; 1 / scale by default.
    noise : "exact" (Laplace on a grid) or "float"; other laws than Laplace are always floating-point.
    epsilon_record : target epsilon of the record; the scale is then derived (Laplace and Student's t).
    """

    name = "additive-noise"
    learns = False
    columnwise = True
    proves = True
    column_choices = frozenset({"law", "scale", "low", "high", "df", "epsilon_share"})
    papers = ("principal-laplace", "density-reconstruction")
    published = MappingProxyType({"noise": "float"})
    rests_on = (
        "The noise of different rows and columns is independent and secret.",
        "Values outside the bounds were clipped to them before noise was added.",
    )
    not_protected = (
        "Columns are blurred one by one: where columns are correlated, filtering removes part of the noise.",
    )

    law: str = "laplace"
    scale: float | None = None
    low: float | None = None
    high: float | None = None
    df: float | None = None
    category_epsilon: float | None = None
    noise: str = "exact"
    epsilon_record: float | None = None

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        self._check_law(self.law)
        self._check_choice(("exact", "float"), noise=self.noise)
        self._check_positive(
            scale=self.scale, df=self.df, category_epsilon=self.category_epsilon, epsilon_record=self.epsilon_record
        )
        self.encoding_ = encoding
        usual = not is_own(self.law) and all(one is None for one in (self.scale, self.low, self.high))
        self.law_ = self._law(0.3 if usual else self.scale)
        if self.epsilon_record is not None:
            self.law_ = self._law(self._scale_for(self.epsilon_record))
        self.recipe_ = self._recipe(self.law_)
        return self

    def _recipe(self, law: Law) -> Recipe:
        """Every number gets this noise, or the one it asks for; categories and "missing" are randomized."""
        channels = []
        for group, share in zip(self.encoding_.groups, epsilon_shares(self.encoding_.groups), strict=True):
            # A column that says how strong its noise is has settled it; others get their share of the epsilon.
            own, fixed = self._own_law(group.column, law), group.column.choices.settles_strength
            told = own if fixed or share == 1.0 else own.scaled(1.0 / share)
            answered = self._response_epsilon(own) * (1.0 if fixed and not group.is_onehot else share)
            channels.append(columnwise_channel(group, self._number(told), answered))
        return Recipe(self.encoding_, Identity(self.encoding_.width), tuple(channels))

    def _own_law(self, column: Column, law: Law) -> Law:
        own = column.choices
        if column.is_categorical or not {"law", "scale", "low", "high", "df"} & own.chosen.keys():
            return law
        name = own.law or self.law
        df = own.df if own.df is not None or name != self.law else self.df
        try:
            scale = own.scale if own.settles_strength or is_own(name) else spread_of(law)
            return make_law(name, scale=scale, low=own.low, high=own.high, df=df)
        except UsageError as error:
            raise SchemaError(f"Column {column.name!r}: {error}") from None

    def _number(self, law: Law) -> Channel:
        if isinstance(law, Laplace) and self.noise == "exact":
            one = np.ones(1)
            return laplace_channels(0 * one, one, law.scale * one, exact=True)[0]
        return Additive(law, low=0.0, high=1.0)

    def _law(self, scale: float | None) -> Law:
        return make_law(self.law, scale=scale, low=self.low, high=self.high, df=self.df)

    def _response_epsilon(self, law: Law) -> float:
        return 1.0 / spread_of(law) if self.category_epsilon is None else float(self.category_epsilon)

    def _scale_for(self, wanted: float) -> float:
        """The scale whose record epsilon is the wanted one, approached from the safe side."""
        if not math.isfinite(self._recipe(self.law_).epsilons().record):
            laws = {self._own_law(group.column, self.law_) for group in self.encoding_.groups if not group.is_onehot}
            name = next((law.name for law in laws if not math.isfinite(law.log_amplification(1.0))), self.law)
            raise UsageError(f"No scale of {name} noise gives a record epsilon. {NO_BOUND} Use law=laplace.")

        fixed = "the columns whose noise is fixed alone exceed it. Lower category_epsilon, or raise their scale."
        small = f"that needs noise of more than {STRENGTHS[1]:g} times the range. Ask for a larger epsilon."
        settled = any(group.column.choices.settles_strength for group in self.encoding_.groups)
        return searched_strength(
            lambda scale: self._recipe(self._law(scale)).epsilons().record,
            wanted,
            f": {small if self.category_epsilon is None and not settled else fixed}",
            f": that needs noise of less than {STRENGTHS[0]:g} times the range, which protects no one. Ask for a "
            "smaller epsilon.",
        )

    def sentence(self) -> str:
        return NO_BOUND

    def parameters_used(self) -> dict[str, Any]:
        law = self.law_.to_dict()
        used = {name: law.get(name) for name in ("law", "scale", "low", "high", "df")}  # a file has become its table
        return {**super().parameters_used(), **used, "category_epsilon": self._response_epsilon(self.law_)}


def spread_of(law: Law) -> float:
    """The law's scale, or its standard deviation where it has none."""
    found = float(getattr(law, "scale", None) or math.sqrt(law.variance))
    return found if math.isfinite(found) else float(law.ppf(0.75) - law.ppf(0.25))


AdditiveNoise.__doc__ = (AdditiveNoise.__doc__ or "").replace("{laws}", ", ".join(f'"{name}"' for name in LAWS))


# Noise carried into every number by an operator z = Z(e, x) on raw units [density-reconstruction, Eq. 1].


BOUNDED = (
    "The noise is bounded, so every released value confines its source to a known interval with certainty, and "
    "values near the ends of the possible range reveal their source."
)
USUAL = 0.3
UNBOUNDED = "What a released value reveals depends on where it lies; nothing is proved for the worst case."


class NoisyOperator(Mechanism):
    """Release z = Z(e, x) for every number x in its own units, with noise e of one law, and randomize categories.

    The operator is given by name ("additive", "multiplicative", "quartic": x e + x^2 e^4), as an expression in e and x
    ("x * exp(e)", with "; inverse log(z / x)" where you know it better than a search), which the card states, or as
    your own `Operator` (Python only; the card then says "custom", and readers need the same operator from you). Inverse
    and derivative are checked against the forward map over every column's range.
    Categories and "missing" are reported by randomized response; a missing value is noised at the middle of its
    range. There is no worst-case guarantee. A column of the schema may choose its own operator and law (`noise`).

    Parameters
    ----------
    operator : name, expression in e and x, or an `sfumato.noise.Operator`.
    law : "uniform", "normal", "laplace" or "student-t", in the units that the operator expects.
    scale : b for Laplace, standard deviation for normal and uniform, scale for Student's t.
    low, high : range of uniform noise instead of a scale.
    df : degrees of freedom of Student's t.
    category_epsilon : epsilon of one categorical column.
    """

    not_about_zero = True
    name = "noisy-operator"
    learns = False
    columnwise = True
    column_choices = frozenset({"law", "scale", "low", "high", "df", "operator", "base", "epsilon_share"})
    papers = ("density-reconstruction",)
    published = MappingProxyType({})
    not_protected = (
        "Columns are blurred one by one: where columns are correlated, filtering removes part of the noise.",
        "Bounded noise gives a hard interval for every record; near the ends of the range it is short.",
    )

    operator: str | Operator = "additive"
    law: str = "uniform"
    scale: float | None = None
    low: float | None = None
    high: float | None = None
    df: float | None = None
    category_epsilon: float = 1.0

    def fit_statistics(self, statistics: Statistics, encoding: Encoding, key: Key | None = None) -> Self:  # noqa: ARG002
        self._check_law(self.law)
        self._check_positive(scale=self.scale, df=self.df, category_epsilon=self.category_epsilon)
        self.noise_ = self._noise()
        self.encoding_ = encoding
        self.noises_ = {group.start: self._noise_of(group.column) for group in self._numeric()}
        for group in self._numeric():
            low, high = (float(bound) for bound in group.column.bounds)
            # Learned bounds are values of people: an error must not tell them.
            told = "" if group.column.source == "learned" else f" (range {low:g} to {high:g})"
            self.noises_[group.start].check(low, high, where=f"Column {group.column.name!r}{told}")
        pairs = zip(encoding.groups, epsilon_shares(encoding.groups), strict=True)
        channels = (
            columnwise_channel(one, self._number(one), float(self.category_epsilon) * share) for one, share in pairs
        )
        self.recipe_ = Recipe(encoding, Identity(encoding.width), tuple(channels))
        return self

    def _number(self, group: Group) -> Channel:
        """Of a column in encoded units; added noise is the same in all of them but for its scale."""
        if group.is_onehot or group.is_constant:
            return Exact()
        low, high = (float(bound) for bound in group.column.bounds)
        noise = self.noises_[group.start]
        if noise.operator.is_additive:
            return Additive(noise.law.scaled(1 / (high - low)), low=0.0, high=1.0)
        return Carried.of(noise, low, high - low)

    def _noise_of(self, column: Column) -> OperatorNoise:
        """What the column asks for in the schema; the mechanism's own where it asks for nothing."""
        if not column.choices.chosen.keys() - {"epsilon_share"}:
            return self._instead(column)
        try:
            return self._own_noise(column)
        except UsageError as error:
            raise SchemaError(f"Column {column.name!r}: {error}") from None

    def _own_noise(self, column: Column) -> OperatorNoise:
        own, usual = column.choices, self.noise_
        name = own.operator or usual.operator.name
        carried = usual.operator
        if name != carried.name or own.base is not None:
            factor = 0.0 if own.low is not None or own.high is not None else 1.0
            base = {"base": factor if own.base is None else own.base}
            carried = make_operator(name, base if name == "multiplicative" else {})
        law = own.law or usual.law.name
        if own.settles_strength:
            return OperatorNoise(carried, make_law(law, scale=own.scale, low=own.low, high=own.high, df=own.df))
        if name == usual.operator.name and law == usual.law.name:
            return OperatorNoise(carried, usual.law if own.df is None else make_law(law, scale=self.scale, df=own.df))
        low, high = column.bounds  # of noise whose strength was not chosen: 0.3 of that, or a factor that is off by 0.3
        usual_scale = None if is_own(law) else USUAL * (high - low) if name == "additive" else USUAL
        return OperatorNoise(carried, make_law(law, scale=usual_scale, df=own.df))

    def _instead(self, column: Column) -> OperatorNoise:  # noqa: ARG002 (subclasses look at the column)
        return self.noise_

    def _noise(self) -> OperatorNoise:
        if not isinstance(self.operator, str | Operator):
            raise UsageError(
                f"The 'operator' parameter of {self.name} must be a name or an expression in e and x, such as x * "
                f"exp(e). Got {self.operator!r} instead."
            )
        operator = self.operator if isinstance(self.operator, Operator) else make_operator(self.operator)
        if operator.name != CUSTOM and isinstance(self.operator, Operator):
            raise UsageError(
                f"The operator {operator.name} is a registered operator: give its name, or call your own {CUSTOM!r}."
            )
        usual = not is_own(self.law) and all(one is None for one in (self.scale, self.low, self.high))
        scale = 1.0 if usual else self.scale
        return OperatorNoise(operator, make_law(self.law, scale=scale, low=self.low, high=self.high, df=self.df))

    def _numeric(self) -> list[Group]:
        """Columns that noise is carried into; a constant says nothing and is released as it is."""
        return [group for group in self.encoding_.groups if not group.is_onehot and not group.is_constant]

    def _lines(self) -> Iterator[tuple[int, float, float]]:
        """Column, slope and shift: a mean factor m takes low + u w to m (low + u w), so u to m u + (m - 1) low / w."""
        for group in self._numeric():
            low, high = group.column.bounds
            slope = self.noises_[group.start].slope
            yield group.start, slope, (slope - 1.0) * low / (high - low)

    def embed(self, X: ArrayLike) -> Matrix:
        out = as_matrix(X).copy()
        for place, slope, shift in self._lines():
            out[:, place] = slope * out[:, place] + shift
        return out

    def restore(self, Z: Matrix) -> Matrix:
        """Numbers divided by their mean factor: written like the original, a release is about as large as it."""
        out = Z.copy()
        for place, slope, shift in self._lines():
            if slope != 0.0:
                out[:, place] = (Z[:, place] - shift) / slope
        return out

    def sentence(self) -> str:
        laws = [noise.law for noise in self.noises_.values()] or [self.noise_.law]
        return BOUNDED if all(math.isfinite(end) for law in laws for end in law.support) else UNBOUNDED

    def parameters_used(self) -> dict[str, Any]:
        law = self.noise_.law.to_dict()
        used = {name: law.get(name) for name in ("law", "scale", "low", "high", "df")}  # a file has become its table
        return {**super().parameters_used(), **used, "operator": self.noise_.operator.name}


# Every number times a random factor [density-reconstruction, Example 3].


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

    def __init__(  # it has no `operator`
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
        self.law, self.low, self.high, self.scale, self.df = law, low, high, scale, df
        self.base, self.category_epsilon, self.zero = base, category_epsilon, zero

    def _instead(self, column: Column) -> OperatorNoise:
        self._check_choice(("refuse", "additive"), zero=self.zero)
        low, high = column.bounds
        if self.zero == "refuse" or not low <= 0.0 <= high:
            return self.noise_
        return OperatorNoise(make_operator("additive"), make_law(self.law, scale=USUAL * (high - low), df=self.df))

    def _noise(self) -> OperatorNoise:
        low, high, scale = self.low, self.high, self.scale
        if low is None and high is None and scale is None:
            low, high, scale = (1.0, 3.0, None) if self.law == "uniform" else (None, None, 0.3)
        factor = low is not None or high is not None
        base = self.base if self.base is not None else 0.0 if factor else 1.0
        law = make_law(self.law, scale=scale, low=low, high=high, df=self.df)
        return OperatorNoise(make_operator("multiplicative", {"base": base}), law)

    def parameters_used(self) -> dict[str, Any]:
        return {**super().parameters_used(), **self.noise_.operator.parameters}


# Randomized response on tables of categories.


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
