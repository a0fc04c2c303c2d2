"""What a parameter of a method or a field of a file may be: one object checks it, and says it in words."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from sfumato.core.errors import UsageError


class Accepted(ABC):
    """`allows` decides, `words` end the sentence "must be ..."; `read` takes it from JSON and `write` puts it there."""

    words: str

    @abstractmethod
    def allows(self, value: Any) -> bool: ...

    def read(self, value: Any) -> Any:
        """The value as a program uses it; a `ValueError` ends a sentence that begins with its name."""
        if not self.allows(value):
            raise ValueError(f"must be {self.words}")
        return value

    def write(self, value: Any) -> Any:
        """The inverse: plain JSON."""
        return value


class Whole(Accepted):
    """A whole number, from `least` to `most` where both are given."""

    def __init__(self, least: float = -math.inf, most: float = math.inf) -> None:
        self.least, self.most = least, most
        self.words = "a whole number" + ("" if math.isinf(most) else f" from {least:,} to {most:,}")

    def allows(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most


class Number(Accepted):
    """A finite number; whole ones are read as such."""

    words = "a finite number"

    def allows(self, value: Any) -> bool:
        """A double can hold it: JSON has whole numbers of any length, and Python reads NaN and Infinity."""
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max

    def read(self, value: Any) -> float:
        return float(super().read(value))


class Positive(Number):
    """A number above 0 (or from 0 on) and at most `most`."""

    def __init__(self, most: float = 1e6, or_zero: bool = False) -> None:
        self.most, self.or_zero = most, or_zero
        first = "from 0" if or_zero else "above 0"
        self.words = f"a number {first}" if math.isinf(most) else f"a number {first} to {most:g}"

    def allows(self, value: Any) -> bool:
        return super().allows(value) and (value > 0 or (self.or_zero and value == 0)) and value <= self.most


class Between(Number):
    """A number from `least` to `most`."""

    def __init__(self, least: float, most: float) -> None:
        self.least, self.most, self.words = least, most, f"a number from {least:g} to {most:g}"

    def allows(self, value: Any) -> bool:
        return super().allows(value) and self.least <= value <= self.most


class Share(Number):
    """A number between 0 and 1, neither of them."""

    words = "a number between 0 and 1"

    def allows(self, value: Any) -> bool:
        return super().allows(value) and 0 < value < 1


class OrInfinite(Number):
    """A number from 0 on, where null stands for infinity, which JSON does not have."""

    words = "a number from 0 on, or null"

    def allows(self, value: Any) -> bool:
        return value is None or (super().allows(value) and value >= 0)

    def read(self, value: Any) -> float:
        return math.inf if value is None else super().read(value)

    def write(self, value: Any) -> Any:
        return None if value is None or math.isinf(value) else value


class Word(Accepted):
    """One of a few words."""

    def __init__(self, choices: tuple[str, ...]) -> None:
        self.choices = choices
        self.words = choices[0] if len(choices) == 1 else f"one of {', '.join(choices)}"

    def allows(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.choices


class Flag(Accepted):
    """true or false."""

    words = "true or false"

    def allows(self, value: Any) -> bool:
        return isinstance(value, bool)


class Nothing(Accepted):
    """null: left to the classifier."""

    words = "null"

    def allows(self, value: Any) -> bool:
        return value is None


class Text(Accepted):
    """Text of at most `most` characters."""

    def __init__(self, most: float = math.inf) -> None:
        self.most, self.words = most, "text" if math.isinf(most) else f"text of at most {most:,} characters"

    def allows(self, value: Any) -> bool:
        return isinstance(value, str) and len(value) <= self.most


class Listed(Accepted):
    """A list of JSON, `least` to `most` long, which is read as one or as a tuple."""

    def __init__(self, of: Accepted, kind: type = tuple, least: int = 0, most: float = math.inf) -> None:
        self.of, self.kind, self.least, self.most, self.words = of, kind, least, most, f"a list, each {of.words}"

    def allows(self, value: Any) -> bool:
        counted = isinstance(value, list | tuple) and self.least <= len(value) <= self.most
        return counted and all(self.of.allows(one) for one in value)

    def read(self, value: Any) -> Any:
        return self.kind(self.of.read(one) for one in super().read(value))

    def write(self, value: Any) -> list[Any]:
        return [self.of.write(one) for one in value]


class Named(Accepted):
    """An object of JSON: values of one kind by name."""

    def __init__(self, of: Accepted) -> None:
        self.of, self.words = of, f"a mapping, each entry {of.words}"

    def allows(self, value: Any) -> bool:
        named = isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
        return named and all(self.of.allows(one) for one in value.values())

    def read(self, value: Any) -> dict[str, Any]:
        return {name: self.of.read(one) for name, one in super().read(value).items()}

    def write(self, value: Any) -> dict[str, Any]:
        return {name: self.of.write(one) for name, one in value.items()}


class Either(Accepted):
    """One of several kinds of values."""

    def __init__(self, kinds: tuple[Accepted, ...]) -> None:
        self.kinds, self.words = kinds, " or ".join(kind.words for kind in kinds)

    def allows(self, value: Any) -> bool:
        return any(kind.allows(value) for kind in self.kinds)

    def read(self, value: Any) -> Any:
        checked = super().read(value)
        return next(kind for kind in self.kinds if kind.allows(checked)).read(checked)

    def write(self, value: Any) -> Any:
        if value is None:
            return None
        return next(kind for kind in self.kinds if not isinstance(kind, Nothing)).write(value)


def check_accepted(owner: str, accepts: Mapping[str, Accepted], given: Mapping[str, Any]) -> None:
    """Refuse a parameter that does not exist, or is out of its range, in a sentence."""
    for name, value in given.items():
        if name not in accepts:
            has = f"It has: {', '.join(accepts)}." if accepts else "It has none."
            raise UsageError(f"{owner[0].upper()}{owner[1:]} has no parameter {name[:60]!r}. {has}")
        if not accepts[name].allows(value):
            raise UsageError(
                f"The {name!r} parameter of {owner} must be {accepts[name].words}. Got {str(value)[:60]!r} instead."
            )


# One switch, "as published": the paper's own variant in place of ours, wherever the two differ.
#
# A mechanism, an attack or a classifier declares what its paper does (`published`, parameters by name). The switch puts
# that in; a parameter of one's own that says otherwise is refused, so that the mark on card, audit and model is true.


def as_published(
    owner: str, published: Mapping[str, Any] | None, given: Mapping[str, Any], among: Sequence[str] = ()
) -> dict[str, Any]:
    """The given parameters with the paper's own beside them; refused where no paper has a variant (None).

    `among` are the owners that have a variant, for the refusal.

    >>> as_published("radius-vote", {"prior_correction": False}, {"n": 3})
    {'prior_correction': False, 'n': 3}
    """
    if published is None:
        instead = f", or choose one of: {', '.join(among)}" if among else ""
        raise UsageError(f"No paper has a variant of {owner}. Leave --as-published out{instead}.")
    for name, value in published.items():
        if name in given and given[name] != value:
            raise UsageError(
                f"As published, {owner} has {name}={value!s}. Leave {name} out, or leave --as-published out and choose "
                "every parameter yourself."
            )
    return {**published, **given}


def follows(published: Mapping[str, Any] | None, used: Mapping[str, Any]) -> bool:
    """Whether parameters as they were used are the paper's own wherever ours differ; False where none is declared."""
    return published is not None and all(used.get(name) == value for name, value in published.items())
