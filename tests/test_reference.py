"""The pages of reference say what the program does: parameters with type and default, and no page is stale."""

import inspect
import re
import runpy
from pathlib import Path

import pytest

import sfumato as sf

FUNCTIONS = [name for name in sf.__all__ if inspect.isfunction(getattr(sf, name))]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_is_described_with_its_default(name):
    function = getattr(sf, name)
    body = inspect.getdoc(function).split("Parameters\n----------\n")[1].split("\n\n")[0]
    described = dict(line.split(" : ") for line in body.splitlines() if not line.startswith(" "))
    parameters = inspect.signature(function).parameters
    assert list(described) == list(parameters)
    for one in parameters.values():
        if isinstance(one.default, float):  # by its value: 1e-6 is written as people write it
            assert float(described[one.name].split("default ")[-1]) == one.default, one.name
        elif isinstance(one.default, int | str):
            shown = f'"{one.default}"' if isinstance(one.default, str) else str(one.default)
            assert described[one.name].endswith(f"default {shown}"), one.name
        elif one.default is None:
            assert re.search("optional|default", described[one.name]), one.name


def test_the_reference_is_not_stale():
    """`make reference` writes it anew."""
    script = Path(__file__).parents[1] / "scripts" / "write_reference.py"
    written = runpy.run_path(str(script))["pages"]()
    assert len(written) == 4
    for path, text in written.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is stale: run make reference"
