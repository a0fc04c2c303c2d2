"""What slow tests share with the quick ones: the server's small study, a real PostgreSQL server, a visitor's desk."""

import sys
from pathlib import Path

import pytest
from seen import ARGUMENTS, CHROMIUM

sys.path.append(str(Path(__file__).resolve().parent.parent / "server"))
sys.path.append(str(Path(__file__).resolve().parent.parent / "desk"))
sys.path.append(str(Path(__file__).resolve().parent.parent / "ledger"))

import postgres
from desk_visits import opened, own_places, patients  # noqa: F401 - fixtures


@pytest.fixture
def a_cluster():
    """A PostgreSQL server that a test may stop."""
    bin = postgres.binaries()
    if bin is None:
        pytest.skip("PostgreSQL is not installed. `make test` installs it.")
    cluster = postgres.Cluster(bin)
    yield cluster
    cluster.remove()


@pytest.fixture
def a_database(a_cluster):
    return a_cluster.new_database()


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM.exists():
        pytest.skip("Debian's chromium is not installed")
    with pytest.importorskip("playwright.sync_api").sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield found
        found.close()
