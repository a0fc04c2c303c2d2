"""The API against its own description: whatever is sent, only what is described comes back."""

import consortium
import pytest
import schemathesis
from consortium import PLENTY, Study
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sfumato.study.server.app import create_app
from sfumato.study.server.store.release_store import Arrived

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
TAGS = ["service", "studies", "releases", "models"]

schemathesis.serializer.alias("application/vnd.apache.parquet", "application/octet-stream")


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """An app with a study, a release and a model in it, and rates that tests do not reach."""
    rates = {"token_rate": PLENTY, "study_rate": PLENTY, "stranger_rate": PLENTY}
    app = create_app(consortium.settings(tmp_path_factory.mktemp("data"), **rates))
    yield app
    app.state.context.close()


@pytest.fixture(scope="module")
def world(app):
    """The study that paths lead to, and tokens of everybody."""
    store = app.state.store
    identity, owner = store.studies.create(consortium.study())
    site = store.sites.invite(identity, "A").token
    store.sites.invite(identity, "B")
    store.releases.record(Arrived(identity, "A", "a" * 64, "train", 1, 1, None, {}))
    model = store.models.queue(identity, "knn", contains_rows=True).id
    _, stranger = store.studies.create(consortium.study())
    tokens = {"nobody": None, "owner": owner, "site": site, "stranger": stranger}
    return {"study_id": identity, "sha256": "a" * 64, "model_id": model, "name": "B"}, tokens


def test_every_answer_is_described(app, world):
    api = schemathesis.openapi.from_asgi("/api/v1/openapi.json", app).include(tag=TAGS)
    operations = [found.ok() for found in api.get_all_operations()]
    assert len(operations) >= 15
    with TestClient(app, raise_server_exceptions=False) as client:
        seen = {(operation.method, answer) for operation in operations for answer in _drive(operation, client, *world)}
    assert {answer for _, answer in seen} >= {200, 201, 202, 204, 400, 401, 403, 404, 422}
    assert {answer for method, answer in seen if method == "put"} >= {400, 401, 403, 404, 422}


def _drive(operation, client, places, tokens):
    """Some requests to one operation, as everybody in turn; half of them to something that is there."""

    @given(case=operation.as_strategy(), there=st.booleans())
    @settings(max_examples=4, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def drive(case, there):
        for name in case.path_parameters or {}:
            if there or name == "study_id":
                case.path_parameters[name] = places[name]
        for token in tokens.values():
            wish = case.as_transport_kwargs(headers={"Authorization": f"Bearer {token}"} if token else {})
            known = {name: wish[name] for name in ("method", "url", "headers", "params", "json") if name in wish}
            response = client.request(**known, **({"content": wish["data"]} if wish.get("data") else {}))
            case.validate_response(response, checks=CHECKS)
            seen.add(response.status_code)

    seen = set()
    drive()
    return seen


def test_the_description_tells_all_that_a_program_needs(app):
    described = app.api.openapi()
    push = described["paths"]["/api/v1/studies/{study_id}/releases/{sha256}"]["put"]
    assert set(push["responses"]) == {
        *("200", "201", "400", "401", "403", "404", "408", "409", "410", "413", "422", "429", "503", "507")
    }
    body = push["requestBody"]["content"]["application/vnd.apache.parquet"]
    assert body == {"schema": {"type": "string", "format": "binary"}}
    assert {"token": []} in push["security"]
    operations = [
        (path, method, operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
        if set(operation["tags"]) <= {"studies", "releases", "models"}
    ]
    assert len(operations) >= 13
    for path, method, operation in operations:
        answers = operation["responses"]
        assert {"401", "404", "429", "503"} <= set(answers), (path, method)
        for status, answer in answers.items():
            if int(status) >= 400:
                schema = answer["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/ErrorMessage"}, (path, method, status)
    assert set(described["components"]["schemas"]["ErrorMessage"]["properties"]) == {
        *("error", "message", "request", "objections")
    }


def test_a_token_of_one_study_never_opens_another(app):
    """Every described route, with a good token of somebody else: 404, whatever it is."""
    store = app.state.store
    mine, _ = store.studies.create(consortium.study())
    other = Study(TestClient(app), mine, store.studies.create(consortium.study())[1])
    values = {"study_id": mine, "sha256": "0" * 64, "model_id": "x", "density_id": "x", "name": "A"}
    for path, methods in app.api.openapi()["paths"].items():
        if path.startswith("/api/v1/studies/"):
            for method in methods:
                answer = other.client.request(
                    method.upper(), path.format(**values), headers={"Authorization": f"Bearer {other.owner}"}
                )
                assert answer.status_code == 404, (path, method, answer.text)
