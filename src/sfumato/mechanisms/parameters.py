"""Parameters as scikit-learn has them (`get_params`, `set_params`, `clone`), without importing scikit-learn.

Importing it takes seconds, and an owner who sanitizes a table trains nothing. `sklearn.base.clone`, `GridSearchCV` and
nested parameters only ask for these methods.
"""

from __future__ import annotations

import inspect
import json
import math
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeGuard, dataclass_transform

from sfumato.core.accepted import Accepted, check_accepted
from sfumato.core.errors import UsageError


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class Parameters:
    """A subclass declares its parameters as fields, ``k: int = 10``; a constructor of its own must only store them."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "__init__" not in vars(cls) and inspect.get_annotations(cls):
            dataclass(eq=False, repr=False)(cls)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(name for name in inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002 (mechanisms are not nested)
        """Parameters by name."""
        return {name: getattr(self, name) for name in self._get_param_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters by name; a fit made before does not follow."""
        known = self._get_param_names()
        for name, value in parameters.items():
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}. It has: {', '.join(known)}.")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        shown, defaults = [], inspect.signature(type(self)).parameters
        for name, value in self.get_params().items():
            usual = defaults[name].default
            if value is not usual and not (isinstance(value, bool | int | float | str) and value == usual):
                shown.append(f"{name}={_short(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


LONGEST = 60
"""Letters of a parameter's value; a basis or guidance has thousands, which do not belong in a message."""


def _short(value: object) -> str:
    shape = getattr(value, "shape", None)
    if shape is None and isinstance(value, list | tuple) and value and isinstance(value[0], list | tuple):
        shape = (len(value), len(value[0]))
    if shape:
        return f"<{' x '.join(map(str, shape))} numbers>"
    text = repr(value)
    if len(text) <= LONGEST:
        return text
    what = "letters" if isinstance(value, str) else "entries"
    return f"<{type(value).__name__} of {len(value)} {what}>" if hasattr(value, "__len__") else f"{text[:LONGEST]}..."


def parameter(accepted: Accepted, words: str, *, default: Any) -> Any:
    """A parameter of an attack or of a named classifier: what it may be, what it does, and its default.

    The class's docstring gets its entry from here, so that type, range and default are said once.
    """
    return field(default=default, metadata={"accepted": accepted, "words": words})


@dataclass_transform(eq_default=False, field_specifiers=(parameter,))
class CheckedParameters(Parameters):
    """Each parameter says what it may be: ``k: int = parameter(Whole(1, 10_000), "Rows that vote.", default=11)``."""

    name: ClassVar[str]
    called: ClassVar[str] = ""
    """What stands before the name in a refusal."""
    accepts: ClassVar[Mapping[str, Accepted]] = MappingProxyType({})
    """What every parameter may be."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if hasattr(cls, "__dataclass_fields__"):
            cls.accepts = MappingProxyType({one.name: one.metadata["accepted"] for one in fields(cls)})
        if cls.accepts and "__doc__" in vars(cls):
            cls.__doc__ = "\n".join([inspect.cleandoc(cls.__doc__ or ""), *cls._described()])

    @classmethod
    def _described(cls) -> list[str]:
        """The parameters as a docstring has them, in the numpydoc manner."""
        lines = ["", "Parameters", "----------"]
        for one in fields(cls):
            lines.append(f"{one.name} : {one.metadata['accepted'].words}, default={json.dumps(one.default)}")
            lines += textwrap.wrap(one.metadata["words"], 116, initial_indent="    ", subsequent_indent="    ")
        return lines

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Every parameter with its default."""
        return {name: one.default for name, one in inspect.signature(cls).parameters.items()}

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that differ from their defaults, in their order: what stands on cards."""
        given, usual = self.get_params(), self.defaults()
        return {name: given[name] for name in usual if given[name] != usual[name]}

    def check(self) -> None:
        """Refuse a parameter that is out of its range, in a sentence."""
        check_accepted(f"{self.called}{self.name}", self.accepts, {name: getattr(self, name) for name in self.accepts})


# Which parameter of a mechanism says how strong the change is: what a search turns.


@dataclass(frozen=True)
class Knob:
    """A parameter and the range in which a search looks, even on the scale of its logarithm.

    protects: whether a larger value protects more; of an epsilon it is the other way round. whole: only whole numbers.
    beside: what goes with it, whatever its value. proved_with: what goes with it where a formal guarantee is wanted.
    """

    parameter: str
    low: float
    high: float
    protects: bool = False
    whole: bool = False
    beside: Mapping[str, Any] = field(default_factory=dict)
    proved_with: Mapping[str, Any] = field(default_factory=dict)

    def at(self, openness: float) -> float | int:
        """Its value for an openness between 0 (protects most) and 1 (tells most), of three digits at most.

        >>> Knob("epsilon_record", 0.1, 10.0).at(0.5), Knob("k", 2, 200, protects=True, whole=True).at(1.0)
        (1.0, 2)
        """
        share = 1.0 - openness if self.protects else openness
        value = math.exp(math.log(self.low) + share * math.log(self.high / self.low))
        value = min(max(float(f"{value:.3g}"), self.low), self.high)
        return round(value) if self.whole else value

    def openness(self, value: float) -> float:
        """The inverse of `at`, kept between 0 and 1."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return min(1.0, max(0.0, 1.0 - share if self.protects else share))

    def up_to(self, high: float) -> Knob:
        """The same knob that goes no further than `high`."""
        return replace(self, low=min(self.low, high / 2.0), high=min(high, self.high))


RECORD = Knob("epsilon_record", 0.1, 300.0)
PRESENCE = Knob("epsilon", 0.05, 20.0)


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is one, and not true or false."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, Integral) and not isinstance(value, bool)


# The strength that a wanted epsilon asks for.


STRENGTHS = (1e-6, 1e6)
"""Between which it is looked for where no formula gives it, relative to the range of what is blurred."""
FROM_BELOW = 1 + 1e-12
"""Products and quotients are rounded; a derived strength is larger by more than that, so that epsilon is never
exceeded."""


def laplace_strength(owner: str, at_one: float, wanted: float, rounding: Callable[[float], float]) -> float:
    """That of Laplace noise, whose epsilon is the one `at_one` over it; `rounding` of a strength comes on top."""
    lost = rounding(at_one / wanted)
    if lost > wanted / 2:
        raise UsageError(
            f"The 'epsilon_record' parameter of {owner} must be at least {2 * lost:.1e}: below that, rounding to the "
            f"grid alone costs more. Got {wanted:g} instead."
        )
    return at_one / (wanted - lost) * FROM_BELOW


def searched_strength(epsilon: Callable[[float], float], wanted: float, too_small: str, too_large: str) -> float:
    """Where an epsilon of the record that falls as the strength grows is the wanted one, from the safe side; the texts
    end the sentence that refuses an epsilon which no strength has."""
    from scipy.optimize import brentq  # loads slowly, and few laws need it

    def excess(log_strength: float) -> float:
        return epsilon(math.exp(log_strength)) - wanted

    least, most = map(math.log, STRENGTHS)
    if (too_strong := excess(most) > 0) or excess(least) < 0:
        why = too_small if too_strong else too_large
        raise UsageError(f"A record epsilon of {wanted:g} cannot be reached{why}")
    root = brentq(excess, least, most, xtol=1e-13)
    while excess(root) > 0:
        root += 1e-12
    return math.exp(root)
