"""Parameters as scikit-learn has them (`get_params`, `set_params`, `clone`), without importing scikit-learn.

Importing it takes seconds, and an owner who sanitizes a table trains nothing. `sklearn.base.clone`, `GridSearchCV` and
nested parameters only ask for these methods.
"""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar, Self, dataclass_transform

from sfumato.core.accepted import Accepted, check_accepted


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
    """The value, or what kind of thing it is."""
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
