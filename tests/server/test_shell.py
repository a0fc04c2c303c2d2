"""What surrounds every request: headers, ids, logs without secrets, metrics, health."""

import asyncio
import io
import json
import logging

import consortium
import pytest
from consortium import Study
from fastapi.testclient import TestClient
from sqlalchemy.exc import OperationalError
from survey_examples import example_survey

from sfumato.study.server.app import create_app
from sfumato.study.server.shell import LOGGER, JsonLines, configure_logs


@pytest.fixture
def lines():
    """What is logged while a test runs, one object a line."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    LOGGER.addHandler(handler)
    level = LOGGER.level
    LOGGER.setLevel(logging.INFO)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    LOGGER.removeHandler(handler)
    LOGGER.setLevel(level)


def test_every_answer_has_an_id_and_security_headers(study):
    ids = set()
    for path in ("/healthz", "/nowhere", study.url, "/api/v1/openapi.json"):
        answer = study.client.get(path)
        ids.add(answer.headers["x-request-id"])
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert "server" not in answer.headers
        assert "strict-transport-security" not in answer.headers
    assert len(ids) == 4


def test_a_trusted_proxy_that_speaks_https_is_told_to_keep_doing_so(tmp_path):
    with TestClient(create_app(consortium.settings(tmp_path, trust_proxy=True))) as client:
        assert "strict-transport-security" in client.get("/healthz", headers={"X-Forwarded-Proto": "https"}).headers
        assert "strict-transport-security" not in client.get("/healthz").headers


def test_a_request_is_one_line_without_secrets(study, body, lines):
    token = study.invite("A")
    study.push(body, token)
    study.call("GET", "/releases?token=hunter2&purpose=<b>", token)
    study.client.get("/api/v1/studies/secret-in-a-path/releases/hunter2")
    found = lines()
    assert [line["event"] for line in found] == ["request"] * 3
    push, listed, strange = found
    assert push["route"] == "/api/v1/studies/{study_id}/releases/{sha256}"
    assert (push["method"], push["status"], push["study"], push["site"]) == ("PUT", 201, study.id, "A")
    assert listed["route"] == "/api/v1/studies/{study_id}/releases"
    assert (strange["status"], "study" in strange) == (401, False)
    text = json.dumps(found)
    for secret in (token, token[9:], "hunter2", "testclient", consortium.sha(body), "Bearer", "secret-in-a-path"):
        assert secret not in text
    assert all(set(line) >= {"time", "level", "event", "ms", "request"} for line in found)


def test_a_fault_is_answered_and_logged_without_its_words(study, lines, monkeypatch):
    def faulty(*_, **__):
        raise RuntimeError("the cell of Mary Miller is 42")

    monkeypatch.setattr(type(study.store.releases), "all", faulty)
    answer = study.call("GET", "/releases")
    assert (answer.status_code, answer.json()["error"]) == (500, "fault")
    text = json.dumps(lines())
    assert "Mary" not in text + answer.text
    fault = next(line for line in lines() if line["event"] == "fault")
    assert fault["fault"] == "RuntimeError"
    assert fault["request"] == answer.json()["request"]
    assert any("test_shell.py" in place for place in fault["where"])


def test_a_database_that_is_away_makes_the_server_unhealthy(study, monkeypatch):
    assert study.client.get("/healthz").json() == {"status": "ok"}

    def away(*_):
        raise OperationalError("SELECT", {}, Exception("connection refused to hunter2"))

    monkeypatch.setattr(type(study.store.database), "reading", away)
    for path in ("/healthz", study.url):
        answer = study.client.get(path, headers={"Authorization": f"Bearer {study.owner}"})
        assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
        assert answer.headers["retry-after"] == "5"
        assert "hunter2" not in answer.text
    assert study.client.get("/metrics").status_code == 200


def test_metrics_count_what_happens(tmp_path, body):
    with TestClient(create_app(consortium.settings(tmp_path)), raise_server_exceptions=False) as client:
        study = Study(client, *client.app.state.store.studies.create(consortium.study()))
        token = study.invite()
        study.push(body, token)
        study.push(body, token)
        study.push(b"rubbish", token)
        study.call("POST", "/models", json={"classifier": "knn"})
        client.request("BREW", "/")
        text = client.get("/metrics").text
    for line in (
        'sfumato_pushes_total{outcome="new"} 1.0',
        'sfumato_pushes_total{outcome="same"} 1.0',
        'sfumato_pushes_total{outcome="refused"} 1.0',
        f"sfumato_push_bytes_total {len(body) + 7}.0",
        "sfumato_pushes_in_progress 0.0",
        "sfumato_models_waiting 1.0",
        'method="OTHER"',
        'status="201"} 1.0',
    ):
        assert line in text
    assert study.id not in text


@pytest.mark.parametrize("trickles", [False, True])
@pytest.mark.parametrize("path", ["/api/v1/studies/{}/sites", "/api/v1/surveys/{}/answers"])
def test_a_slow_body_is_given_up(tmp_path, path, trickles):
    """One that stops, and one of which a byte comes now and then; whichever application reads it."""
    app = create_app(consortium.settings(tmp_path, idle_seconds=0.05))
    asked = example_survey() if "surveys" in path else consortium.study()
    study, owner = app.state.store.studies.create(asked)
    sent = []

    class Cycle:
        more_body = True  # uvicorn's, whose last part has not come

        async def receive(self):
            await asyncio.sleep(0.02 if trickles else 60)
            return {"type": "http.request", "body": b" ", "more_body": True}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": path.format(study),
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {owner}".encode()), (b"content-type", b"application/json")],
        "app": app,
    }
    asyncio.run(asyncio.wait_for(app(scope, Cycle().receive, send), 200))
    assert sent[0]["status"] == 408
    assert json.loads(sent[1]["body"])["error"] == "too-slow"
    app.state.context.close()


def test_logs_go_to_standard_error_as_json():
    stream = io.StringIO()
    handlers, propagate, level = LOGGER.handlers, LOGGER.propagate, LOGGER.level
    other = logging.getLogger("uvicorn").handlers
    try:
        configure_logs(stream)
        LOGGER.info("started", extra={"fields": {"version": "1"}})
        logging.getLogger("uvicorn.error").warning("a path: %s", "/hunter2")
    finally:
        LOGGER.handlers, LOGGER.propagate = handlers, propagate
        LOGGER.setLevel(level)
        logging.getLogger("uvicorn").handlers = other
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["event"], first["level"], first["version"]) == ("started", "info", "1")
    assert second["event"] == "uvicorn.error"
    assert "hunter2" not in stream.getvalue()
