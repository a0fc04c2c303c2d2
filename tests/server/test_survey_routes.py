"""The survey's protocol over HTTP: two rounds, one answer, and every refusal in its own words."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from sqlalchemy.exc import OperationalError
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from survey_examples import example_survey, message, some_bits

from sfumato.channels.guidance.guidance import GuidanceError, SurveyCounts, decode_matrix
from sfumato.core.errors import CardError, CoordinatorError, SchemaError, UsageError
from sfumato.learn.model import load_model
from sfumato.study.asked import RespondAsked
from sfumato.study.client.private_notes import RememberedHeads
from sfumato.study.client.respondent import Device, NotYetError, choices_of, prepare, send, waiting, was_sent
from sfumato.study.client.survey_server import SurveyLink, SurveyServer, read_link
from sfumato.study.protocol.agreed import LogEntry, check_chain
from sfumato.study.protocol.survey_guidance import verify_guidance
from sfumato.study.server.app import create_app
from sfumato.study.server.settings import Rate, Settings
from sfumato.study.server.store.survey_store import SurveyStore
from sfumato.study.server.survey.desk import SurveyDesk
from sfumato.study.server.survey.survey_app import ROUTES
from sfumato.study.server.worker.worker import Worker

ANSWERS = {"q0": "yes", "q1": "no", "q2": "yes", "q3": None, "ill": "no"}


@pytest.fixture
def app(tmp_path: Path) -> FastAPI:
    return create_app(Settings(data=tmp_path / "data", worker=False))


@pytest.fixture
def study(app: FastAPI) -> str:
    return str(app.state.store.studies.create(example_survey())[0])


@pytest.fixture
def client(app: FastAPI) -> Iterator[TestClient]:
    with TestClient(app) as client:
        yield client


def path(study: str, rest: str = "") -> str:
    return f"/api/v1/surveys/{study}{rest}"


def fill(client: TestClient, study: str, number: int, version: int = 1) -> None:
    rng = np.random.default_rng(number)
    for _ in range(number):
        body = message(some_bits(rng), label=int(rng.integers(2)), version=version)
        assert client.post(path(study, "/answers"), content=body).status_code == 201


def test_two_rounds_and_an_answer(client: TestClient, study: str) -> None:
    described = client.get(path(study)).json()
    assert described["state"] == "open"
    assert described["hash"] == example_survey().hash
    asked = client.get(path(study, "/inquiry")).json()
    told = client.post(path(study, "/ready"), json={"version": asked["version"]}).json()
    assert (told["version"], told["k"], told["head"]) == (asked["version"], asked["k"], asked["head"])
    decode_matrix(told["v"], told["width"], told["k"])
    body = message([1, 4])
    assert client.post(path(study, "/answers"), content=body).status_code == 201
    again = client.post(path(study, "/answers"), content=body)
    assert (again.status_code, again.json()["id"]) == (200, json.loads(body)["id"])


def test_the_log_can_be_followed_and_recomputed(app: FastAPI, client: TestClient, study: str) -> None:
    fill(client, study, 45)
    app.state.surveys._desks[study].close_batches()
    survey = example_survey()
    entries = [LogEntry.from_dict(entry) for entry in client.get(path(study, "/log")).json()["entries"]]
    assert entries[-1].answers == 40
    head = client.get(path(study, "/head")).json()
    assert head == {"survey": survey.hash, "version": entries[-1].version, "hash": check_chain(entries, survey.hash)}
    for entry in entries:
        inputs = client.get(path(study, f"/log/{entry.version}/inputs")).text
        told = client.post(path(study, "/ready"), json={"version": entry.version}).json()
        verify_guidance(survey, inputs, decode_matrix(told["v"], survey.width, entry.k), entry.k)
    after = client.get(path(study, f"/log?after={entries[-1].version}")).json()["entries"]
    assert after == []
    fill(client, study, 1, version=1)  # a version once issued is taken until the survey closes


@pytest.mark.parametrize(
    ("how", "where", "body", "status", "code"),
    [
        ("post", "/answers", b"{", 422, "malformed"),
        ("post", "/answers", message([1], version=7), 422, "unknown-version"),
        ("post", "/answers", message([1], label=5), 422, "unknown-label"),
        ("post", "/answers", message([11]), 422, "bad-bits"),
        ("post", "/answers", message([1], address="here"), 422, "malformed"),
        ("post", "/answers", b"x" * 100_000, 413, "too-large"),
        ("post", "/ready", b'{"version": 9}', 404, "unknown-version"),
        ("post", "/ready", b'{"version": "x"}', 422, "malformed"),
        ("get", "/log?after=-1", None, 422, "malformed"),
        ("get", "/log/9/inputs", None, 404, "unknown-version"),
        ("put", "/answers", b"", 405, "wrong-method"),
    ],
    ids=map(str, range(20)),
)
def test_refusals_say_why(
    client: TestClient, study: str, how: str, where: str, body: bytes | None, status: int, code: str
) -> None:
    refused = client.request(how.upper(), path(study, where), content=body)
    assert (refused.status_code, refused.json()["error"]) == (status, code)
    assert len(refused.json()["message"]) > 20


def test_nothing_but_a_version_is_read_from_who_is_ready(client: TestClient, study: str) -> None:
    """Deeply nested nonsense in another field would have to be parsed before it is ignored."""
    nested = b'{"x":' + b"[" * 20_000 + b"]" * 20_000 + b',"version":1}'
    for body in (nested, b'{"version": 1, "limit": 3}'):
        answer = client.post(path(study, "/ready"), content=body)
        assert (answer.status_code, answer.json()["error"]) == (422, "malformed")


def test_one_id_names_one_answer(client: TestClient, study: str) -> None:
    body = json.loads(message([1]))
    assert client.post(path(study, "/answers"), json=body).status_code == 201
    refused = client.post(path(study, "/answers"), json=body | {"bits": [2]})
    assert (refused.status_code, refused.json()["error"]) == (409, "other-answer")


def test_unknown_surveys_and_other_kinds_are_not_found(client: TestClient) -> None:
    assert client.get(path("nothing")).status_code == 404
    assert client.get(path("../studies")).status_code == 404


def test_a_closed_survey_counts_no_more(app: FastAPI, client: TestClient) -> None:
    study = app.state.store.studies.create(example_survey(closes="2020-01-01"))[0]
    assert client.get(path(study)).json()["state"] == "closed"
    refused = client.post(path(study, "/answers"), content=message([1]))
    assert (refused.status_code, refused.json()["error"]) == (410, "closed")


def test_an_owner_closes_a_survey_by_hand(app: FastAPI, client: TestClient) -> None:
    study, token = app.state.store.studies.create(example_survey())
    assert client.post(path(study, "/answers"), content=message([1])).status_code == 201
    owner, end = {"Authorization": f"Bearer {token}"}, f"/api/v1/studies/{study}/survey"
    assert client.get(end, headers=owner).json()["state"] == "open"
    assert client.post(f"{end}/close").status_code == 401
    assert client.post(f"{end}/close", headers=owner).json() == {"state": "closed"}
    app.state.surveys._desks[study]._look()  # as every process does each second
    assert client.get(path(study)).json()["state"] == "closed"
    refused = client.post(path(study, "/answers"), content=message([2]))
    assert (refused.status_code, refused.json()["error"]) == (410, "closed")
    kept = client.get(end, headers=owner).json()
    assert (kept["state"], kept["answers"]) == ("closed", 1)
    assert client.post(f"{end}/close", headers=owner).status_code == 200, "closing twice changes nothing"


def test_any_page_may_ask_and_nothing_is_remembered_in_it(client: TestClient, study: str) -> None:
    asked = client.options(path(study, "/answers"), headers={"Origin": "https://elsewhere.example"})
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, "*")
    told = client.get(path(study, "/inquiry"))
    assert told.headers["access-control-allow-origin"] == "*"
    assert "set-cookie" not in told.headers
    refused = client.post(path(study, "/answers"), content=b"{")
    assert refused.headers["access-control-allow-origin"] == "*"


def test_one_client_cannot_flood(tmp_path: Path) -> None:
    app = create_app(Settings(data=tmp_path, worker=False, respondent_rate=Rate(1, 5)))
    study = app.state.store.studies.create(example_survey())[0]
    with TestClient(app) as client:
        answers = [client.get(path(study, "/inquiry")).status_code for _ in range(8)]
    assert answers[:5] == [200] * 5
    assert answers[-1] == 429


def test_faults_are_told_together_and_not_when_somebody_asked(
    app: FastAPI, client: TestClient, study: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_: object, **__: object) -> None:
        raise OperationalError("INSERT", {}, Exception("server closed the connection of hunter2"))

    client.get(path(study))
    app.state.surveys.patience = math.inf  # however slow this machine is
    with caplog.at_level("INFO", logger="sfumato.study.server"):
        with monkeypatch.context() as patch:
            patch.setattr(SurveyStore, "add", away)
            patch.setattr(SurveyStore, "log", away)
            patch.setattr(SurveyDesk, "inquiry", property(lambda _: 1 / 0), raising=False)
            for _ in range(3):
                assert client.post(path(study, "/answers"), content=message([1])).status_code == 503
                asked = client.get(path(study, "/log"))
                assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (503, "*")
                assert client.get(path(study, "/inquiry")).status_code == 500
        assert not caplog.records
        app.state.surveys.tell(now=True)
        told = [(record.getMessage(), record.fields["times"], record.fields["fault"]) for record in caplog.records]
        assert sorted(told) == [
            ("database", 3, "OperationalError"),
            ("database", 3, "OperationalError"),
            ("fault", 3, "ZeroDivisionError"),
        ]
        assert "hunter2" not in caplog.text
        assert not any("request" in record.fields for record in caplog.records)
        app.state.surveys.tell(now=True)
        assert len(caplog.records) == 3  # told once


def test_answers_leave_no_line_in_the_log(client: TestClient, study: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="sfumato.study.server"):
        fill(client, study, 2)
        client.post(path(study, "/answers"), content=b"{")
        client.get(path(study))
        client.get("/survey/")
        assert not caplog.records
        client.get("/healthz")
        assert len(caplog.records) == 1  # other requests do leave one
    counted = client.get("/metrics").text
    assert 'route="/api/v1/surveys/{survey_id}/answers"' in counted
    assert study not in counted


def test_the_page_is_served_with_its_policy(client: TestClient) -> None:
    page = client.get("/survey/")
    assert page.status_code == 200
    assert "script-src 'self'" in page.headers["content-security-policy"]
    script = client.get("/survey/perturb.js")
    assert "getRandomValues" in script.text
    assert "javascript" in script.headers["content-type"]


def test_the_server_works_inside_a_foreign_app(app: FastAPI, study: str) -> None:
    """Custom plug-ins that one can easily install to existing systems [guided-survey, 6]: no start-up is needed."""
    foreign = TestClient(Starlette(routes=[Mount("/ours", app)]))
    assert foreign.get(f"/ours{path(study, '/inquiry')}").json()["version"] == 1
    assert foreign.get("/ours/survey/").status_code == 200


def test_the_owners_pages_work_inside_a_foreign_app(app: FastAPI) -> None:
    study, token = app.state.store.studies.create(example_survey(name="Inside"))
    foreign = TestClient(Starlette(routes=[Mount("/ours", app)]), headers={"accept": "text/html"})
    assert 'action="/ours/sign-in"' in foreign.get("/ours/").text
    assert 'href="/ours/"' in foreign.get("/ours/nothing").text
    same = {"origin": "http://testserver"}
    shown = foreign.post("/ours/sign-in", data={"token": token}, headers=same)
    assert shown.status_code == 200
    assert str(shown.url).endswith(f"/ours/studies/{study}")
    assert "Inside" in shown.text
    addresses = re.findall(r'(?:href|src|action)="(/[^"]*)"', shown.text)
    assert len(addresses) > 5
    assert all(address.startswith("/ours/") for address in addresses)
    pinned = example_survey(name="Inside").hash.removeprefix("sha256:")
    assert f'href="http://testserver/ours/survey/#survey={study}&amp;hash={pinned}"' in shown.text
    assert foreign.get("/ours/static/page.css").status_code == 200
    assert str(foreign.post("/ours/sign-out", data={"a": "b"}, headers=same).url).endswith("/ours/")


def test_the_description_names_every_route(client: TestClient) -> None:
    """It is written by hand, beside the table of routes."""
    paths = client.get("/api/v1/openapi.json").json()["paths"]
    described = {(name, method.upper()) for name in paths if "/surveys/" in name for method in paths[name]}
    assert described == {(route.path, route.method) for route in ROUTES.values()}


# The respondent's program


@pytest.fixture
def server(client: TestClient, study: str) -> SurveyServer:
    return SurveyServer(f"http://127.0.0.1/survey/#survey={study}", transport=client._transport)


def test_a_program_answers_like_the_page(
    app: FastAPI, client: TestClient, study: str, server: SurveyServer, tmp_path: Path
) -> None:
    heads = RememberedHeads(tmp_path / "heads.json")
    prepared = prepare(server, ANSWERS, RespondAsked(max_level=9), Device(heads=heads))
    assert prepared.witnesses == "not witnessed"
    assert 0 < prepared.epsilon < 100
    pending = tmp_path / "pending.json"
    assert send(server, prepared.drawn, pending)
    assert was_sent(pending)
    assert json.loads(pending.read_text()) == {"sent": True}  # and nothing of the answer
    assert not server.send(prepared.drawn.to_dict())  # the same answer again is not counted again
    assert app.state.store.surveys.count(study) == 1
    assert heads.head(server.name) == (1, client.get(path(study, "/head")).json()["hash"])


def test_a_level_above_the_limit_sends_nothing(app: FastAPI, study: str, server: SurveyServer) -> None:
    level = server.inquire().k
    if level == 1:
        with pytest.raises(UsageError, match="at least 1"):
            prepare(server, ANSWERS, RespondAsked(max_level=0))
    else:
        with pytest.raises(NotYetError, match=f"level {level}"):
            prepare(server, ANSWERS, RespondAsked(max_level=level - 1))
    with pytest.raises(NotYetError, match="more than the"):
        prepare(server, ANSWERS, RespondAsked(max_level=9, max_epsilon=0.01))
    assert app.state.store.surveys.count(study) == 0


def test_a_log_that_does_not_continue_the_remembered_one_is_refused(server: SurveyServer, tmp_path: Path) -> None:
    heads = RememberedHeads(tmp_path / "heads.json")
    heads.remember(server.name, 1, "0" * 64)
    with pytest.raises(GuidanceError, match="not the one that this device saw"):
        prepare(server, ANSWERS, RespondAsked(max_level=9), Device(heads=heads))


def test_counts_may_be_longer_than_other_messages(server: SurveyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    (survey, _), (entry,) = server.describe(), server.log(server.describe()[0].hash)
    monkeypatch.setattr("sfumato.study.client.connection.MOST_BYTES", 10)
    assert SurveyCounts.from_json(server.inputs(entry)).width == survey.width
    with pytest.raises(CoordinatorError, match="too long"):
        server.describe()


def test_a_log_that_repeats_itself_is_not_read_for_ever(server: SurveyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    (survey, _), page = server.describe(), server._connection.ask("GET", f"{server._path}/log")
    assert len(page["entries"]) == 1
    monkeypatch.setattr(server._connection, "ask", lambda *_, **__: page)
    with pytest.raises(CardError, match="broken after version 1"):
        server.log(survey.hash)


def test_drawn_bits_wait_privately_and_are_sent_unchanged(
    server: SurveyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared, pending = prepare(server, ANSWERS, RespondAsked(max_level=9)), tmp_path / "pending.json"
    with monkeypatch.context() as broken:
        broken.setattr(server, "send", lambda _: (_ for _ in ()).throw(CoordinatorError("away")))
        with pytest.raises(CoordinatorError):
            send(server, prepared.drawn, pending)
    assert pending.stat().st_mode & 0o077 == 0
    sent: list[dict[str, object]] = []
    monkeypatch.setattr(server, "send", lambda answer: bool(sent.append(answer)) or True)
    assert send(server, waiting(pending), pending)
    assert sent == [prepared.drawn.to_dict()]
    assert was_sent(pending)


def test_answers_that_do_not_fit_are_named() -> None:
    survey = example_survey()
    with pytest.raises(SchemaError, match="does not ask 'age'"):
        choices_of(survey, {**ANSWERS, "age": 3})
    with pytest.raises(SchemaError, match="lack 'ill'"):
        choices_of(survey, {"q0": "yes"})
    with pytest.raises(SchemaError, match="not one of its choices"):
        choices_of(survey, {**ANSWERS, "q0": "perhaps"})
    drawn = {int(choices_of(survey, ANSWERS)[0][3]) for _ in range(60)}
    assert drawn == {0, 1}  # "prefer not to say" is any choice


@pytest.mark.parametrize(
    ("link", "base"),
    [
        ("https://host/survey/#survey=abc", "https://host"),
        ("https://host/survey/index.html#survey=abc", "https://host"),
        ("https://host:8/part/survey/#survey=abc&code=x", "https://host:8/part"),
        ("https://host/api/v1/surveys/abc", "https://host"),
        ("https://pages.example/#survey=https://host/api/v1/surveys/abc", "https://host"),
    ],
)
def test_links_are_read(link: str, base: str) -> None:
    found = read_link(link)
    assert (found.base, found.identity, found.hash, found.witnesses) == (base, "abc", None, ())


def test_a_link_names_the_survey_and_its_witnesses() -> None:
    digest = "0f" * 32
    link = f"https://pages.example/#survey=https://host/api/v1/surveys/abc&hash={digest}&witness=https://a&witness=b"
    assert read_link(link) == SurveyLink("https://host", "abc", f"sha256:{digest}", ("https://a", "b"))
    assert read_link(f"https://host/survey/#survey=abc&hash=sha256:{digest}").hash == f"sha256:{digest}"
    for half in (digest[:-1], "", "é" * 64, f"{digest}&hash={digest}"):
        with pytest.raises(UsageError, match=r"not whole|not the link"):
            read_link(f"https://host/survey/#survey=abc&hash={half}x")


@pytest.mark.parametrize("link", ["https://host/", "https://host/survey/", "https://host/survey/#survey=a/b", "x"])
def test_other_links_are_refused(link: str) -> None:
    with pytest.raises(UsageError, match="not the link of a survey"):
        read_link(link)


# The owner


def test_a_model_is_trained_on_the_received_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Worker, "niceness", 0)  # the test waits for it
    app = create_app(Settings(data=tmp_path / "data", respondent_rate=Rate(1e6, 1e6)))
    study, token = app.state.store.studies.create(example_survey())
    owner = {"Authorization": f"Bearer {token}"}
    rng = np.random.default_rng(8)
    with TestClient(app) as client:
        asked = f"/api/v1/studies/{study}"

        def ended(model: str) -> dict[str, Any]:
            while (found := client.get(f"{asked}/models/{model}", headers=owner).json())["state"] in (
                "queued",
                "running",
            ):
                time.sleep(0.1)
            return found

        nothing = client.post(f"{asked}/models", json={"classifier": "id3"}, headers=owner).json()
        assert ended(nothing["id"])["state"] == "failed"
        for _ in range(120):
            label = int(rng.integers(2))
            told = rng.random(5) < (0.8 if label else 0.2)  # every question says something about the class
            bits = sorted(int(2 * place + one) for place, one in enumerate(told))
            assert client.post(path(study, "/answers"), content=message(bits, label=label)).status_code == 201
        queued = client.post(f"{asked}/models", json={"classifier": "bernoulli-naive-bayes"}, headers=owner).json()
        model = ended(queued["id"])
        assert model["state"] == "done", model["failure"]
        assert model["results"]["cross_validation"]["error"] < 0.3
        assert model["results"]["rows"] == 120
        file = client.get(f"{asked}/models/{queued['id']}/file", headers=owner)
        (tmp_path / "m.skops").write_bytes(file.content)
        progress = client.get(f"{asked}/survey", headers=owner).json()
    assert progress["accuracy"]["share"] > 0.7
    assert not list((tmp_path / "data" / "incoming").glob("*/*"))
    people = tmp_path / "people.csv"
    people.write_text("q0,q1,q2,q3,q4,ill\nyes,yes,yes,yes,yes,yes\nno,no,no,no,no,no\n")
    assert load_model(tmp_path / "m.skops").classify(people).accuracy == 1.0
