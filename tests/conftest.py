"""What every test shares: where the real tables are, a ledger that is never the owner's own, the same examples."""

from __future__ import annotations

import gc
import itertools
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, and no deadline: a busy machine is not a finding.
settings.register_profile(
    "steady", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

NUMBERS = itertools.count()
ROOT = Path(__file__).resolve().parent.parent


def pytest_collection_finish() -> None:
    """What thousands of collected tests hold stays until the end: it need not be looked through again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _session_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fixtures of a wider scope than one test may release too: they get a ledger of the session."""
    folder = tmp_path_factory.mktemp("ledger")
    os.environ["SFUMATO_LEDGER"] = str(folder / "ledger.json")
    return folder


@pytest.fixture(autouse=True)
def _ledger(_session_ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new ledger for each test, so that no test counts the releases of another. Its folder is made when it is
    written: to number thousands of folders, pytest would list all of them again for each test."""
    monkeypatch.setenv("SFUMATO_LEDGER", str(_session_ledger / str(next(NUMBERS)) / "ledger.json"))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real tables: SFUMATO_DATA, else the shared folder beside the checkout."""
    folder = Path(os.environ.get("SFUMATO_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("No folder of real tables. Name one in SFUMATO_DATA.")
    return folder
