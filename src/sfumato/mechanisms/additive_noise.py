"""Noise of one law on every column, the oldest perturbation of all [Agrawal & Srikant 2000]."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from sfumato.channels import Additive, Channel, Identity, Recipe, laplace_channels
from sfumato.core.errors import SchemaError, UsageError
from sfumato.guarantee import Key
from sfumato.mechanisms.base import Mechanism
from sfumato.mechanisms.columnwise import columnwise_channel, epsilon_shares
from sfumato.mechanisms.parameters import STRENGTHS, searched_strength
from sfumato.noise import LAWS, Laplace, Law, make_law
from sfumato.noise.law import is_own
from sfumato.table import Column, Encoding
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
