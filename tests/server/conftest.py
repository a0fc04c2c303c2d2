"""A running app, a study in it, and callers with good tokens."""

from dataclasses import dataclass

import consortium
import postgres
import pytest
from fastapi.testclient import TestClient

from sfumato.server.app import create_app


@dataclass
class Study:
    """One study of an app under test."""

    client: TestClient
    id: str
    owner: str

    @property
    def url(self):
        return f"/api/v1/studies/{self.id}"

    @property
    def store(self):
        return self.client.app.state.store

    def invite(self, name="St. Mary", days=30):
        return self.store.invite(self.id, name, days).token

    def call(self, method, path="", token=None, **more):
        headers = {"Authorization": f"Bearer {self.owner if token is None else token}"} | more.pop("headers", {})
        return self.client.request(method, self.url + path, headers=headers, **more)

    def push(self, body, token, sha256=None, purpose="train", **more):
        path = f"/releases/{sha256 or consortium.sha(body)}?purpose={purpose}"
        return self.call("PUT", path, token, content=body, **more)


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """An app for a whole file of tests: every test makes its own study in it."""
    settings = consortium.settings(tmp_path_factory.mktemp("data"), stranger_rate=consortium.PLENTY)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def study(client):
    return Study(client, *client.app.state.store.create_study(consortium.study()))


@pytest.fixture(scope="session")
def body(tmp_path_factory):
    """A release that the study takes."""
    return consortium.release(tmp_path_factory.mktemp("release"))


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
