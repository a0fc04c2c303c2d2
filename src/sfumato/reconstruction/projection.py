"""A weighted sum of columns, such as ``income - 2 * rent``: what it is read from, and the noise that it has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.channels import Mixed
from sfumato.core.array_types import Floats
from sfumato.core.errors import CardError, UsageError
from sfumato.guarantee import Card
from sfumato.noise import Law, OperatorNoise, Uniform, make_operator
from sfumato.noise.expression import parse_expression
from sfumato.noise.kernel_laws import SumLaw
from sfumato.reconstruction.noise_strength import describe

_QUOTED = re.compile(r"`([^`]*)`")


@dataclass(frozen=True)
class Projection:
    """`offset` and `weights` times columns; no weight is 0."""

    weights: Mapping[str, float]
    offset: float = 0.0
    title: str = ""

    @classmethod
    def of(cls, weights: Mapping[str, float]) -> Projection:
        used = {name: float(weight) for name, weight in weights.items() if weight != 0}
        if not used:
            raise UsageError("A projection needs at least one weight that is not 0.")
        return cls(used, title=" + ".join(f"{weight:g} {name}" for name, weight in used.items()))

    @classmethod
    def read(cls, text: str, columns: Sequence[str]) -> Projection:
        """From an expression that is linear in columns; a name that is no word stands between `backticks`."""
        quoted = dict.fromkeys(_QUOTED.findall(text))
        for name in quoted:
            if name not in columns:
                raise UsageError(f"The release has no column {name!r}. It has: {', '.join(columns)}.")
        stand_ins = {f"quoted_{number}": name for number, name in enumerate(quoted)}
        places = {name: stand_in for stand_in, name in stand_ins.items()}
        plain = _QUOTED.sub(lambda found: places[found[1]], text)
        variables = [*stand_ins, *(name for name in columns if name.isidentifier())]
        expression = parse_expression(plain, variables)
        weights: dict[str, float] = {}
        zeros = [0.0] * len(variables)
        for variable in variables:
            slope = expression.derivative(variable)
            if any(slope.uses(name) for name in variables):
                raise UsageError(
                    f"{text!r} is not a weighted sum of columns. Only a sum such as 'a - 2 * b' has a known noise."
                )
            if weight := float(slope(*zeros)):
                name = stand_ins.get(variable, variable)
                weights[name] = weights.get(name, 0.0) + weight
        offset = float(expression(*zeros))
        if not np.isfinite([offset, *weights.values()]).all():
            raise UsageError(f"{text!r} has weights that are no finite numbers.")
        return cls(Projection.of(weights).weights, offset, text.strip())

    def noise(self, card: Card) -> tuple[OperatorNoise, float, float]:
        """The noise of the sum, which is the weighted sum of its columns' noises, and the range of the true sum."""
        laws: list[Law] = []
        channels = dict(zip((recipe := card.made_by()).names(), recipe.channels, strict=True))
        shared: dict[Law, Floats] = {}
        low = high = self.offset
        for name, weight in self.weights.items():
            one = describe(card, name)
            if one.is_categorical or not isinstance(one.noise, OperatorNoise) or not one.noise.operator.is_additive:
                raise CardError(
                    f"Column {name!r} has no additive noise, so the noise of its sum with others is unknown."
                )
            if one.missing_keep is not None:
                raise CardError(f"Column {name!r} may be missing; a sum with it is not defined for everybody.")
            channel = channels[name]
            if isinstance(channel, Mixed) and channel.source is not None:  # columns that share noise add it up first
                added = weight * (one.high - one.low) * np.array(channel.weights)
                shared[channel.source] = shared.get(channel.source, np.zeros(len(added))) + added
            else:
                laws.append(reflected(one.noise.law, weight))
            low += min(weight * one.low, weight * one.high)
            high += max(weight * one.low, weight * one.high)
        for source, added in shared.items():
            laws += [source.scaled(abs(weight)) for weight in added.tolist() if weight]
        return OperatorNoise(make_operator("additive"), SumLaw.of(laws)), low, high

    def values(self, columns: Mapping[str, Floats]) -> Floats:
        """The sum, row by row."""
        total: Floats | None = None
        for name, weight in self.weights.items():
            if name not in columns:
                raise UsageError(f"There is a weight for column {name!r}, but there are no values of it.")
            values = np.asarray(columns[name], dtype=np.float64).ravel()
            if total is not None and len(total) != len(values):
                raise UsageError("The columns of a projection have different numbers of rows.")
            total = weight * values + (self.offset if total is None else total)
        assert total is not None
        return np.asarray(total)


def reflected(law: Law, weight: float) -> Law:
    """The law of `weight` times the noise; all laws but the uniform one are symmetric about 0."""
    if weight < 0 and isinstance(law, Uniform):
        low, high = law.support
        return Uniform(low=weight * high, high=weight * low)
    if weight < 0 and not law.is_symmetric:
        raise CardError("A column with noise of its owner's own law can only be added, not subtracted.")
    return law.scaled(abs(weight))
