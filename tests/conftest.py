"""What every test shares: where the real tables are, a ledger that is never the owner's own, the same examples."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples in every run, and no deadline: a busy machine is not a finding.
settings.register_profile(
    "steady", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session", autouse=True)
def _session_ledger(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Fixtures of a wider scope than one test may release too: they get a ledger of the session."""
    os.environ["SFUMATO_LEDGER"] = str(tmp_path_factory.mktemp("ledger") / "ledger.json")


@pytest.fixture(autouse=True)
def _ledger(_session_ledger: None, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new ledger for each test, so that no test counts the releases of another."""
    monkeypatch.setenv("SFUMATO_LEDGER", str(tmp_path_factory.mktemp("ledger") / "ledger.json"))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real tables: SFUMATO_DATA, else the shared folder beside the checkout."""
    folder = Path(os.environ.get("SFUMATO_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("No folder of real tables. Name one in SFUMATO_DATA.")
    return folder
