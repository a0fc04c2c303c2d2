"""Parameters as scikit-learn has them (`get_params`, `set_params`, `clone`), without importing scikit-learn.

Importing it takes seconds, and somebody who sanitizes a table trains nothing. `sklearn.base.clone`, `GridSearchCV` and
nested parameters only ask for these methods.
"""

from __future__ import annotations

import inspect
from typing import Any, Self


class Parameters:
    """The constructor's arguments are the parameters; the constructor only stores them."""

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
        shown = (f"{name}={value!r}" for name, value in changed.items() if not _same(value, defaults[name]))
        return f"{type(self).__name__}({', '.join(shown)})"


def _same(value: object, default: object) -> bool:
    return isinstance(value, bool | int | float | str) and value == default
