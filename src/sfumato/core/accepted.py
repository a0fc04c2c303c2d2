"""What a parameter may be that users set by name: one object checks it and says it in words."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any


class Accepted(ABC):
    """`allows` decides, `words` end the sentence "must be ..."."""

    @abstractmethod
    def allows(self, value: Any) -> bool: ...

    @property
    @abstractmethod
    def words(self) -> str: ...


@dataclass(frozen=True)
class Whole(Accepted):
    """A whole number from `least` to `most`."""

    least: int
    most: int

    def allows(self, value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most

    @property
    def words(self) -> str:
        return f"a whole number from {self.least:,} to {self.most:,}"


@dataclass(frozen=True)
class Positive(Accepted):
    """A number above 0 (or from 0 on) and at most `most`."""

    most: float = 1e6
    or_zero: bool = False

    def allows(self, value: Any) -> bool:
        return _is_number(value) and (value > 0 or (self.or_zero and value == 0)) and value <= self.most

    @property
    def words(self) -> str:
        return f"a number {'from 0' if self.or_zero else 'above 0'} to {self.most:g}"


@dataclass(frozen=True)
class Between(Accepted):
    """A number from `least` to `most`."""

    least: float
    most: float

    def allows(self, value: Any) -> bool:
        return _is_number(value) and self.least <= value <= self.most

    @property
    def words(self) -> str:
        return f"a number from {self.least:g} to {self.most:g}"


@dataclass(frozen=True)
class Word(Accepted):
    """One of a few words."""

    choices: tuple[str, ...]

    def allows(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.choices

    @property
    def words(self) -> str:
        return self.choices[0] if len(self.choices) == 1 else f"one of {', '.join(self.choices)}"


class Share(Accepted):
    """A number between 0 and 1, neither of them."""

    def allows(self, value: Any) -> bool:
        return _is_number(value) and 0 < value < 1

    @property
    def words(self) -> str:
        return "a number between 0 and 1"


class Flag(Accepted):
    """true or false."""

    def allows(self, value: Any) -> bool:
        return isinstance(value, bool)

    @property
    def words(self) -> str:
        return "true or false"


class Nothing(Accepted):
    """null: left to the classifier."""

    def allows(self, value: Any) -> bool:
        return value is None

    @property
    def words(self) -> str:
        return "null"


@dataclass(frozen=True)
class Several(Accepted):
    """A list of at least one."""

    of: Accepted

    def allows(self, value: Any) -> bool:
        return isinstance(value, list | tuple) and len(value) > 0 and all(self.of.allows(one) for one in value)

    @property
    def words(self) -> str:
        return f"a list, each {self.of.words}"


@dataclass(frozen=True)
class Either(Accepted):
    """One of several kinds of values."""

    kinds: tuple[Accepted, ...]

    def allows(self, value: Any) -> bool:
        return any(kind.allows(value) for kind in self.kinds)

    @property
    def words(self) -> str:
        return " or ".join(kind.words for kind in self.kinds)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
