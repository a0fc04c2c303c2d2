"""Who may do what: one study, one role, and one answer for everything that is not a good token."""

import consortium
import pytest
from consortium import Study

MISSING = "The token is missing, unknown, revoked or expired."
SHA = "0" * 64
OWNER_ONLY = [
    ("GET", "/sites"),
    ("POST", "/sites"),
    ("DELETE", "/sites/A"),
    ("PUT", "/test"),
    ("POST", "/models"),
]
EVERYBODY = [
    ("GET", ""),
    ("GET", "/releases"),
    ("GET", f"/releases/{SHA}"),
    ("DELETE", f"/releases/{SHA}"),
    ("GET", "/models"),
    ("GET", "/models/x"),
    ("GET", "/models/x/file"),
]
SITE_ONLY = [("PUT", f"/releases/{SHA}")]
BODIES = {"/sites": {"name": "B"}, "/models": {"classifier": "knn"}}


def refused(answer, status, code):
    assert answer.status_code == status, answer.text
    found = answer.json()
    assert found["error"] == code
    assert found["request"] == answer.headers["x-request-id"]
    return found["message"]


def ask(study, method, path, token):
    json = BODIES.get(path) if method == "POST" else None
    return study.call(method, path, token, **({"json": json} if json else {}))


@pytest.mark.parametrize(("method", "path"), OWNER_ONLY + EVERYBODY + SITE_ONLY)
def test_no_route_opens_without_a_good_token(study, method, path):
    good = study.invite("A")
    study.store.sites.revoke(study.id, "A")
    for token in ("", "nonsense", good, good[:-1], "sfu_owner_" + "x" * 43, study.owner + "x"):
        assert refused(ask(study, method, path, token), 401, "unauthorized").startswith(MISSING)
    answer = study.client.request(method, study.url + path, headers={"Cookie": f"token={study.owner}"})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    basic = study.client.request(method, study.url + path, headers={"Authorization": "Basic dTpw"})
    assert basic.status_code == 401


def test_an_expired_token_is_like_any_other(study, monkeypatch):
    token = study.invite("A", days=1)
    assert study.call("GET", token=token).status_code == 200
    now = study.store.database.now()
    monkeypatch.setattr(type(study.store.database), "now", lambda _: now + 86401)
    refused(study.call("GET", token=token), 401, "unauthorized")


@pytest.mark.parametrize(("method", "path"), OWNER_ONLY)
def test_a_site_cannot_do_what_owners_do(study, method, path):
    refused(ask(study, method, path, study.invite("A")), 403, "forbidden")


def test_an_owner_is_no_site(study, body):
    refused(study.push(body, study.owner), 403, "forbidden")


@pytest.mark.parametrize(("method", "path"), OWNER_ONLY + EVERYBODY + SITE_ONLY)
def test_another_study_is_as_good_as_none(study, method, path):
    other = Study(study.client, *study.store.studies.create(consortium.study()))
    for token in (study.owner, study.invite("A")):
        theirs = ask(other, method, path, token)
        none = ask(Study(study.client, "nothing", ""), method, path, token)
        assert refused(theirs, 404, "not-found") == refused(none, 404, "not-found")


def test_a_study_is_shown_with_its_hash(study):
    found = study.call("GET", token=study.invite("A")).json()
    assert found["hash"] == consortium.study().hash
    assert found["definition"] == consortium.study().to_dict()
    assert (found["id"], found["kind"], found["state"]) == (study.id, "pool", "open")


def test_sites_are_invited_listed_and_revoked(study):
    answer = study.call("POST", "/sites", json={"name": "Universitätsspital", "days": 7})
    assert answer.status_code == 201
    token = answer.json()["token"]
    assert study.call("GET", token=token).status_code == 200
    assert [site["name"] for site in study.call("GET", "/sites").json()] == ["Universitätsspital"]
    assert token not in study.call("GET", "/sites").text
    assert study.call("DELETE", "/sites/Universitätsspital").status_code == 204
    assert study.call("GET", token=token).status_code == 401
    assert study.call("GET", "/sites").json()[0]["revoked"]
    refused(study.call("DELETE", "/sites/Nobody"), 404, "not-found")


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("A\u030arhus", "\u00c5rhus"),
        ("\uff2eorth", "North"),
        ("\u0909\u0924\u094d\u0924\u0930", "\u0909\u0924\u094d\u0924\u0930"),  # Hindi: marks on its letters
        ("St. Mary-2_b", "St. Mary-2_b"),
    ],
)
def test_a_name_in_any_language_has_one_spelling(study, typed, kept):
    assert study.call("POST", "/sites", json={"name": typed}).json()["name"] == kept
    assert study.call("DELETE", f"/sites/{typed}").status_code == 204


@pytest.mark.parametrize(
    "wish",
    [
        {"name": "../../etc/passwd"},
        {"name": "<script>alert(1)</script>"},
        {"name": "a\x00b"},
        {"name": "left\u202eright"},
        {"name": "\u3164"},
        {"name": "_hidden"},
        {"name": "\u0301"},
        {"name": "\ufdfa" * 10},
        {"name": ""},
        {"name": "x" * 61},
        {"name": "A", "days": 0},
        {"name": "A", "days": 1e9},
        {"name": "A", "days": "7"},
        {"name": "A", "role": "owner"},
        {"name": ["A"]},
        {},
        [],
        "A",
        None,
    ],
    ids=str,
)
def test_strange_invitations_are_refused_without_an_echo(study, wish):
    answer = study.call("POST", "/sites", json=wish)
    refused(answer, 422, "invalid")
    assert "<script" not in answer.text
    assert "passwd" not in answer.text
    assert study.call("GET", "/sites").json() == []


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe{}", b'{"name": NaN}', b"[" * 50_000, b'{"name": "A"} x'])
def test_bodies_that_are_no_json(study, text):
    answer = study.call("POST", "/sites", content=text, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["request"]


def test_a_large_body_is_refused_where_a_small_one_is_expected(study):
    for content in (b"x" * 70_000, iter([b"x" * 40_000] * 2)):
        answer = study.call("POST", "/sites", content=content, headers={"Content-Type": "application/json"})
        refused(answer, 413, "too-large")


@pytest.mark.parametrize(
    "path", ["/", "/releases/../../..", "/releases/%2e%2e%2f%2e%2e", "/releases/" + "A" * 64, "/models/..%2f..", "/x"]
)
def test_paths_that_lead_elsewhere_lead_nowhere(study, path):
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        answer = study.call(method, path, study.invite("A"))
        assert answer.status_code in (404, 405, 422), (method, answer.status_code)
        assert set(answer.json()) == {"error", "message", "request", "objections"}


def test_too_many_requests_wait(tmp_path):
    from fastapi.testclient import TestClient

    from sfumato.study.server.app import create_app
    from sfumato.study.server.settings import Rate

    settings = consortium.settings(
        tmp_path, token_rate=Rate(0.001, 5), study_rate=Rate(0.001, 8), stranger_rate=Rate(0.001, 3)
    )
    with TestClient(create_app(settings)) as client:
        study = Study(client, *client.app.state.store.studies.create(consortium.study()))
        assert [study.call("GET").status_code for _ in range(6)] == [200] * 5 + [429]
        late = study.call("GET")
        assert int(late.headers["retry-after"]) > 100
        site = study.invite("A")  # a token of its own, but the same study
        assert [study.call("GET", token=site).status_code for _ in range(4)] == [200] * 3 + [429]
        strangers = [study.call("GET", token=f"sfu_site_{number:043d}").status_code for number in range(5)]
        assert strangers == [401] * 3 + [429] * 2


def test_a_bucket_fills_again():
    from sfumato.study.server.context import Buckets
    from sfumato.study.server.settings import Rate

    now = [0.0]
    buckets = Buckets(Rate(2, 3), clock=lambda: now[0], most=2)
    assert [buckets.wait("a") for _ in range(4)] == [0, 0, 0, 0.5]
    now[0] = 0.4
    assert buckets.wait("a") == pytest.approx(0.1)
    now[0] = 0.5
    assert buckets.wait("a") == 0
    assert buckets.wait("b") == buckets.wait("c") == 0  # and the oldest is forgotten
    assert buckets.wait("a") == 0
