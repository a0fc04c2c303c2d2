"""One pattern for everything that can be chosen by name: it stands in its room's folder and declares itself.

A room is looked through once. A thing that lacks what it must declare, or a second one of the same name, stops the
program at once: nothing is half there.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

Kind = TypeVar("Kind")
Function = TypeVar("Function", bound=Callable[..., Any])


class NotDeclaredError(TypeError):
    """A fault of whoever wrote the thing, never of a user."""


def modules_of(package: str) -> Iterable[Any]:
    """Every module of a package, imported."""
    for found in pkgutil.iter_modules(import_module(package).__path__):
        if not found.ispkg:  # a folder in it is another subject
            yield import_module(f"{package}.{found.name}")


def found_in(package: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package from which everything can be imported that one of its modules defines."""

    def look(name: str) -> Any:
        if not name.startswith("_") and find_spec(f"{package}.{name}") is None:
            for module in modules_of(package):
                found = vars(module).get(name)
                if found is not None and str(getattr(found, "__module__", package)).startswith(package):
                    setattr(sys.modules[package], name, found)
                    return found
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return look


def names_in(package: str) -> list[str]:
    """The names that classes of a package declare, sorted, as their files say: for help, which loads none of them."""
    found = find_spec(package)
    folders = [] if found is None else list(found.submodule_search_locations or ())
    texts = (file.read_text(encoding="utf-8") for folder in folders for file in Path(folder).glob("*.py"))
    return sorted(name for text in texts for name in re.findall(r'^    name = "(.+)"$', text, re.MULTILINE))


def discover(package: str, base: type[Kind], declares: Iterable[str] = ()) -> dict[str, type[Kind]]:
    """Every concrete class of a package that is a `base` and has a `name`, sorted by name.

    declares: attributes that each must have and that may not be empty, beside `name` and a docstring.
    """
    found: dict[str, type[Kind]] = {}
    for module in modules_of(package):
        for item in vars(module).values():
            if not (isinstance(item, type) and issubclass(item, base) and item.__module__ == module.__name__):
                continue
            if inspect.isabstract(item) or not isinstance(getattr(item, "name", None), str):
                continue
            enter(found, getattr(item, "name"), item, declares)  # noqa: B009
    return dict(sorted(found.items()))


def enter(found: dict[str, Any], name: str, item: Any, declares: Iterable[str]) -> None:
    """Add one; refuses a name that is taken and an item that does not say what it must."""
    if name in found and found[name] is not item:
        raise NotDeclaredError(f"Two things are called {name!r}: {found[name].__name__} and {item.__name__}.")
    for attribute in declares:
        if not getattr(item, attribute, None):
            raise NotDeclaredError(f"{item.__name__} must declare {attribute!r}: see CONTRIBUTING.md.")
    if not (item.__doc__ or "").strip():
        raise NotDeclaredError(f"{item.__name__} has no docstring: its first paragraph is what users read.")
    found[name] = item


METRICS: dict[str, Callable[..., Any]] = {}
"""The metrics of the modules that were imported so far, by name; see `all_metrics`."""


def all_metrics() -> dict[str, Callable[..., Any]]:
    """Every metric of its room, whichever file it stands in, by its name."""
    for _ in modules_of("sfumato.attacks.metrics"):
        pass  # a metric enters itself when its module is imported
    return dict(sorted(METRICS.items()))


def metric(takes: str, better: str) -> Callable[[Function], Function]:
    """Declare a metric: what it is computed from, and which way is better.

    takes : "guess" (original values and a guess of them), "samples" (two samples of one column), "noise" (the noise of
        a column and its values), "shares" (two vectors of shares), or "answers" (true and predicted classes).
    better : "higher" or "lower". For what a guess or noise tells, better means safer; for the rest, more useful. The
        contract in tests/contracts/test_metrics.py tries it and believes no docstring.
    """
    if takes not in ("guess", "samples", "noise", "shares", "answers") or better not in ("higher", "lower"):
        raise NotDeclaredError(f"A metric takes {takes!r} and is better when {better!r}: neither may be anything else.")

    def declare(function: Function) -> Function:
        function.takes, function.better = takes, better  # type: ignore[attr-defined]
        enter(METRICS, function.__name__, function, ("takes", "better"))
        return function

    return declare
