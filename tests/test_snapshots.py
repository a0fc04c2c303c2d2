"""What users call stays what it is while the house behind it is moved: a change must be meant."""

import runpy
from pathlib import Path

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[1] / "scripts" / "snapshots.py"))


@pytest.mark.parametrize("page", ["signatures", "help_pages"])
def test_what_users_call_changes_on_purpose_only(page):
    path = SCRIPT["FOLDER"] / {"signatures": "signatures.txt", "help_pages": "help.txt"}[page]
    lines = SCRIPT["changes"](path, SCRIPT[page]())
    assert not lines, "\n".join(["If this is meant: python scripts/snapshots.py --write", *lines])
