"""Parameters as scikit-learn has them (`get_params`, `set_params`, `clone`), without importing scikit-learn.

Importing it takes seconds, and an owner who sanitizes a table trains nothing. `sklearn.base.clone`, `GridSearchCV` and
nested parameters only ask for these methods.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, Self, dataclass_transform


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
        defaults = {name: item.default for name, item in inspect.signature(type(self)).parameters.items()}
        changed = {name: value for name, value in self.get_params().items() if value is not defaults[name]}
        shown = (f"{name}={_short(value)}" for name, value in changed.items() if not _same(value, defaults[name]))
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


def _same(value: object, default: object) -> bool:
    return isinstance(value, bool | int | float | str) and value == default
