"""A running app, a study in it, and callers with good tokens."""

import consortium
import postgres
import pytest
from fastapi.testclient import TestClient
from survey_visits import browser, double, visit  # noqa: F401 - fixtures

from sfumato.study.server.app import create_app


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """What needs a browser belongs to `make test-all`, but for one whole answer."""
    for item in items:
        if "visit" in getattr(item, "fixturenames", ()) and "sent_as_it_was_shown_and_nothing_else" not in item.name:
            item.add_marker("system")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """An app for a whole file of tests: every test makes its own study in it."""
    settings = consortium.settings(tmp_path_factory.mktemp("data"), stranger_rate=consortium.PLENTY)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def study(client):
    return consortium.Study(client, *client.app.state.store.studies.create(consortium.study()))


@pytest.fixture(scope="session")
def body(tmp_path_factory):
    """A release that the study takes: the first of its people, whatever was released by other tests before."""
    folder = tmp_path_factory.mktemp("release")
    return consortium.release(folder, ledger=folder / "ledger.json")


@pytest.fixture(scope="session")
def cluster():
    """A real PostgreSQL server, one for each process of the tests."""
    bin = postgres.binaries()
    if bin is None:
        pytest.skip("PostgreSQL is not installed. `make test` installs it.")
    cluster = postgres.Cluster(bin)
    yield cluster
    cluster.remove()


@pytest.fixture(scope="session")
def shared_database(cluster):
    """A PostgreSQL database whose tables are made once."""
    return cluster.new_database()


@pytest.fixture
def postgres_url(cluster, shared_database):
    """A PostgreSQL database without rows."""
    return cluster.empty(shared_database)
