"""Examples in docstrings run as they stand, in every module of the package."""

import doctest
import importlib
import warnings
from pathlib import Path

import pytest

import sfumato
from sfumato.core.errors import PrivacyLeakWarning

SOURCE = Path(sfumato.__file__).parent
MODULES = sorted(
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCE.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_say_what_happens(name):
    module = importlib.import_module(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)
        found = doctest.testmod(module, report=False)
    assert found.failed == 0, "run `python -m doctest -v` on the module, the differences stand above"


def test_every_function_of_the_front_door_that_starts_something_has_an_example():
    for name in ("sanitize", "audit", "train", "reconstruct", "show"):
        assert ">>> import sfumato as sf" in getattr(sfumato, name).__doc__, name
