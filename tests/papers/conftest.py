"""The papers are not part of the package: they are found from the root of the repository."""

import contextlib
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Whole papers belong to `make test-all`; test_paper_pieces has a piece of each for every day."""
    for item in items:
        if "run_fast" in getattr(item, "fixturenames", ()):
            item.add_marker("system")


@pytest.fixture(scope="session")
def modules_of():
    """Imports modules of a paper's folder, for as long as they are needed: papers have some of the same names."""

    @contextlib.contextmanager
    def enter(paper, *names):
        folder = ROOT / "papers" / paper
        own = {file.stem for file in folder.glob("*.py")}
        kept = {name: sys.modules.pop(name) for name in own & sys.modules.keys()}
        sys.path.insert(0, str(folder))
        try:
            yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
        finally:
            sys.path.remove(str(folder))
            for name in own & sys.modules.keys():
                del sys.modules[name]
            sys.modules.update(kept)

    return enter


@pytest.fixture(scope="session")
def run_fast():
    """Starts the fast part of a paper as `make papers` would, without any folder of data.

    Iris and Wine come with scikit-learn, so this needs nothing.
    """

    def start(name, out):
        command = [sys.executable, str(ROOT / "papers" / name / "run.py"), "--fast", "--out", str(out)]
        plain = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "SFUMATO_DATA": str(out / "nowhere")}
        return subprocess.run(command, env={**os.environ, **plain}, capture_output=True, text=True, check=True)

    return start


@pytest.fixture(scope="session")
def fast_run(tmp_path_factory, run_fast):
    """The folder, the printed text and all means of one fast run of principal-laplace."""
    out = tmp_path_factory.mktemp("principal-laplace")
    printed = run_fast("principal-laplace", out).stdout
    return out, printed, json.loads((out / "results.json").read_text())
