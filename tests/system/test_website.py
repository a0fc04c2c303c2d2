"""The site builds with every link checked, and its check for addresses elsewhere can fail."""

import os
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.system
ROOT = Path(__file__).resolve().parents[2]
OWN = ROOT / ".venv" / "docs" / "bin" / "python"
PYTHON = Path(os.environ.get("SFUMATO_DOCS_PYTHON", sys.executable if find_spec("mkdocs") else OWN))


@pytest.mark.skipif(not PYTHON.exists(), reason="make docs installs what builds the site")
def test_the_site_builds_and_fetches_nothing():
    result = subprocess.run([PYTHON, ROOT / "scripts" / "website" / "build.py"], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "every link checked, nothing is fetched from elsewhere" in result.stdout


@pytest.mark.parametrize(
    ("tag", "finds"),
    [
        ('<script src="https://example.org/x.js"></script>', True),
        ('<link rel="stylesheet" href="//example.org/x.css">', True),
        ("<style>@import 'https://example.org/x.css'</style>", True),
        ('<a href="https://example.org">a link that a reader follows</a>', False),
        ('<img src="../picture.svg">', False),
    ],
)
def test_what_a_browser_would_fetch_elsewhere_is_found(tag, finds, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts" / "website")  # as Python does for a script that it is given
    (tmp_path / "page.html").write_text(tag)
    asked = runpy.run_path(str(ROOT / "scripts" / "website" / "build.py"))["asked_elsewhere"]
    assert bool(list(asked(tmp_path))) is finds
