"""Records: dataclasses that travel as JSON objects, whose keys are the fields' names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any, Self

_SHAPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str | None": (str, type(None)),
    "float | None": (int, float, type(None)),
    "dict[str, Any]": (dict,),
    "dict[str, Any] | None": (dict, type(None)),
}
"""What JSON gives for a field's type; types that are not named here are not looked at."""


class FieldError(ValueError):
    """A record that somebody else wrote lacks a field, or has one of another type; `field` names it."""

    def __init__(self, field: str) -> None:
        super().__init__(f"the field {field!r} is missing or of another type")
        self.field = field


class Record:
    """JSON there and back. Readers ignore keys that they do not know: an older program reads a newer one's records."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """Of our own JSON, as it is."""
        known = {item.name for item in fields(cls)}  # type: ignore[arg-type]
        return cls(**{name: value for name, value in found.items() if name in known})

    @classmethod
    def checked(cls, found: Any) -> Self:
        """Of JSON that somebody else wrote: each field has the type that it declares, else `FieldError` names it."""
        if not isinstance(found, Mapping):
            raise FieldError("")
        for item in fields(cls):  # type: ignore[arg-type]
            if item.name in found:
                value, shapes = found[item.name], _SHAPES.get(str(item.type), (object,))
                if not isinstance(value, shapes) or (isinstance(value, bool) and not {bool, object} & set(shapes)):
                    raise FieldError(item.name)
            elif item.default is MISSING and item.default_factory is MISSING:
                raise FieldError(item.name)
        return cls.from_dict(found)
