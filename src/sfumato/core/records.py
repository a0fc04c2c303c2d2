"""Records: dataclasses that travel as JSON or YAML objects. A field says once what it may hold and how it is stated.

The annotation is the declaration: `float` is a finite number, `int` a whole one, `str` text, `bool` true or false,
`X | None` may be null, `tuple[X, ...]` and `list[X]` are lists of X, `dict[str, X]` an object, and a class with
`from_dict` and `to_dict` stands as it says itself. `Annotated` adds what the type leaves open:

    share: Annotated[float, Share()]                what it must be, in the words that a reader is told
    law: Annotated[Law, Key("noise")]               the key, where it is not the field's name
    steps: Annotated[int, Whole(2, 9), BRIEF] = 0   left out of the object where it is the default
    own: Annotated[Operator | None, APART] = None   never stated
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, ClassVar, Literal, Self, Union, get_args, get_origin, get_type_hints

from sfumato.core.accepted import Accepted, Either, Flag, Listed, Named, Nothing, Number, Text, Whole, Word

BRIEF, APART = object(), object()
"""Marks of a field that is left out of the object where it is the default, and of one that is never stated."""


@dataclass(frozen=True)
class Key:
    """How the object calls a field."""

    name: str


class FieldError(ValueError):
    """A record lacks a key, has one too many, or one that holds something else: `field` names it."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field


class Record:
    """JSON there and back: `from_dict` believes nothing that the fields do not allow."""

    takes_more: ClassVar[bool] = True
    """Whether keys that it does not know are passed over: so an older program reads a newer one's records."""
    beside: ClassVar[tuple[str, ...]] = ()
    """Keys that stand in the object and are read by others."""

    @classmethod
    def refusal(cls, problem: FieldError) -> Exception:
        """The error for an object that is no such record; a class of files that people write names the file here."""
        return problem

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {entry.key: entry.accepted.write(value) for entry, value in self.told()}

    def told(self) -> Iterator[tuple[Entry, Any]]:
        """The fields that stand in the object, with what they hold."""
        for entry in entries(type(self)):
            value = getattr(self, entry.field)
            if not (entry.brief and value == entry.default):
                yield entry, value

    @classmethod
    def from_dict(cls, found: Any) -> Self:
        """The inverse of `to_dict`; whatever it could not have written is refused."""
        try:
            given = dict(cls._given(found))
        except FieldError as problem:
            raise cls.refusal(problem) from None
        return cls(**given)

    @classmethod
    def _given(cls, found: Any) -> Iterator[tuple[str, Any]]:
        stated = entries(cls)
        known = [entry.key for entry in stated]
        if not isinstance(found, Mapping):
            raise FieldError("", f"it must be a mapping with the keys {', '.join(known)}")
        for key in () if cls.takes_more else found:
            if key not in (*known, *cls.beside):
                may = ", ".join((*known, *cls.beside))
                raise FieldError(str(key), f"it has an unknown key {str(key)[:60]!r}; it may have: {may}")
        for entry in stated:
            if entry.key in found:
                yield entry.field, _read(entry.key, entry.accepted, found[entry.key])
            elif entry.default is MISSING:
                raise FieldError(entry.key, f"`{entry.key}` is missing")


def _read(key: str, accepted: Accepted, value: Any) -> Any:
    try:
        return accepted.read(value)
    except FieldError as problem:
        raise FieldError(f"{key}.{problem.field}", f"{problem} (in `{key}`)") from None
    except ValueError as problem:
        raise FieldError(key, f"`{key}` {problem}") from None


# What a field's annotation says.


@dataclass(frozen=True)
class Entry:
    """One field as it stands in the object."""

    field: str
    key: str
    accepted: Accepted
    brief: bool
    default: Any
    """MISSING where it must be stated; a default that is made anew for each record is not told from others."""


def _entries(record: Any) -> tuple[Entry, ...]:
    hints, found = get_type_hints(record, include_extras=True), []
    for one in fields(record):
        marks = get_args(hints[one.name])[1:] if get_origin(hints[one.name]) is Annotated else ()
        if APART in marks:
            continue
        key = next((mark.name for mark in marks if isinstance(mark, Key)), one.name)
        default = one.default if one.default_factory is MISSING else one.default_factory
        found.append(Entry(one.name, key, accepted_by(hints[one.name]), BRIEF in marks, default))
    return tuple(found)


entries: Callable[[Any], tuple[Entry, ...]] = functools.cache(_entries)
"""The fields of a class of records that are stated, in the order of the declaration."""


def accepted_by(kind: Any) -> Accepted:
    """What a type allows; a type that says nothing is not looked at."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return next((mark for mark in inner[1:] if isinstance(mark, Accepted)), accepted_by(inner[0]))
    if origin is Literal:
        return Word(inner)
    if origin in (Union, types.UnionType):
        return Either(tuple(accepted_by(one) for one in inner))
    if origin in (tuple, list) and (origin is list or inner[1:] == (...,)):
        return Listed(accepted_by(inner[0]), origin)
    if origin in (dict, Mapping):
        return Named(accepted_by(inner[1]))
    return Nested(getattr(kind, "from_dict", None)) if hasattr(kind, "to_dict") else Anything()


_PLAIN: dict[Any, Accepted] = {float: Number(), int: Whole(), bool: Flag(), str: Text(), type(None): Nothing()}


@dataclass(frozen=True)
class Nested(Accepted):
    """A record, or whatever else has `to_dict` and a function that reads it again."""

    of: Callable[[Any], Any] | None
    words = "a mapping"

    def allows(self, value: Any) -> bool:
        return isinstance(value, Mapping)

    def read(self, value: Any) -> Any:
        if self.of is None:
            raise ValueError("is written for others, and is never read")
        return self.of(super().read(value))

    def write(self, value: Any) -> Any:
        return value.to_dict()


class Anything(Accepted):
    """What is not looked at."""

    words = "anything"

    def allows(self, value: Any) -> bool:  # noqa: ARG002
        return True
