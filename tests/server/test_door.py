"""At the door: strange addresses and names are refused in words on both databases, and nobody invents who he is."""

import consortium
import pytest
from fastapi.testclient import TestClient

from sfumato.study.server.app import create_app
from sfumato.study.server.settings import Rate, Settings
from sfumato.study.server.shell import enter

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
STRANGE = [
    ("POST", "/sign-in", {"Origin": "http://[", **FORM}, 403),
    ("POST", "/sign-in", {"Origin": "http://[::1", **FORM}, 403),
    ("POST", "/sign-in", {"Origin": "null", **FORM}, 403),
    ("GET", "/%00", {}, 404),
    ("GET", "/studies/%00", {}, 404),
    ("GET", "/api/v1/studies/%00", {}, 404),
    ("GET", "/api/v1/surveys/%00", {}, 404),
    ("GET", "/api/v1/surveys/%00/inquiry", {}, 404),
    ("POST", "/api/v1/surveys/a%00b/answers", {}, 404),
    ("GET", "/survey/%00", {}, 404),
    ("GET", "/survey/..%2f..%2fsettings.py", {}, 404),
    ("GET", "/static/%0a", {}, 404),
    ("GET", "/nowhere", {"Host": "["}, 400),
    ("GET", "/nowhere", {"Host": "a b", "Accept": "text/html"}, 400),
    ("GET", "/nowhere", {"Host": "[", "Accept": "text/html"}, 400),
    ("GET", "/", {"Cookie": "sfumato-session=%00; a=\x7f"}, 200),
    ("GET", "/api/v1/studies/x", {"Authorization": "Bearer \x7f"}, 401),
    ("GET", "/api/v1/studies/x", {"Authorization": "\x01"}, 401),
    ("GET", "/api/v1/surveys/" + 300 * "x" + "/inquiry", {}, 404),
    ("GET", "/api/v1/surveys/%ED%A0%80/inquiry", {}, 404),
]


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def anybody(request, tmp_path_factory):
    url = None if request.param == "sqlite" else request.getfixturevalue("shared_database")
    settings = consortium.settings(tmp_path_factory.mktemp("door"), database=url, stranger_rate=consortium.PLENTY)
    with TestClient(create_app(settings), raise_server_exceptions=False) as client:
        yield client


@pytest.mark.parametrize(("method", "path", "headers", "status"), STRANGE)
def test_nothing_that_a_stranger_sends_is_our_fault(anybody, method, path, headers, status):
    answer = anybody.request(method, path, headers=headers)
    assert answer.status_code == status
    assert "x-request-id" in answer.headers


def test_text_that_no_database_stores_is_the_callers_mistake(anybody):
    """An owner's form can hold what an address cannot."""
    store = anybody.app.state.store
    study, token = store.studies.create(consortium.study())
    signed = {"Origin": "http://testserver", **FORM}
    assert anybody.post("/sign-in", content=f"token={token}", headers=signed, follow_redirects=False).status_code == 303
    for form, body in (("revoke", "site=a%00b"), ("withdraw", "sha256=%00"), ("invite", "name=a%00b")):
        answer = anybody.post(f"/studies/{study}/{form}", content=body, headers=signed)
        assert answer.status_code in (404, 422), form
    anybody.cookies.clear()


def entered(said, hops=1, trust=True, headers=()):
    scope = {
        "headers": [(b"x-forwarded-for", said.encode()), *headers],
        "client": ("10.0.0.1", 5),
        "scheme": "http",
        "path": "/",
    }
    enter(scope, Settings("data", trust_proxy=trust, proxy_hops=hops))
    return scope


def test_the_caller_is_who_our_outermost_proxy_saw():
    assert entered("6.6.6.6, 1.2.3.4")["client"][0] == "1.2.3.4"
    assert entered("6.6.6.6, 1.2.3.4, 10.0.0.9", hops=2)["client"][0] == "1.2.3.4"
    assert entered("1.2.3.4", hops=2)["client"][0] == "1.2.3.4"
    assert entered("6.6.6.6", trust=False)["client"] == ("10.0.0.1", 5)
    assert entered("6.6.6.6", hops=0)["client"] == ("10.0.0.1", 5)
    assert entered("")["client"] == ("10.0.0.1", 5)
    several = [(b"x-forwarded-for", b"1.2.3.4")]
    assert entered("6.6.6.6", headers=several)["client"][0] == "1.2.3.4"
    for written, plain in (("1.2.3.4:999", "1.2.3.4"), ("[::2]:999", "::2"), ("::2", "::2")):
        assert entered(f"6.6.6.6, {written}")["client"][0] == plain
    assert entered("1.2.3.4", headers=[(b"x-forwarded-proto", b"https")])["scheme"] == "https"


def test_invented_addresses_do_not_dodge_the_rates(tmp_path):
    """A proxy that appends: the stranger writes another address before his own every time."""
    settings = consortium.settings(tmp_path, trust_proxy=True, stranger_rate=Rate(0.001, 3))
    with TestClient(create_app(settings)) as client:
        tries = [
            client.get("/api/v1/studies/x", headers={"X-Forwarded-For": f"6.6.6.{n}, 1.2.3.4"}).status_code
            for n in range(6)
        ]
        assert tries == [401, 401, 401, 429, 429, 429]
        assert client.get("/api/v1/studies/x", headers={"X-Forwarded-For": "4.3.2.1"}).status_code == 401


def test_only_our_own_names_are_answered(tmp_path):
    with TestClient(create_app(consortium.settings(tmp_path, hosts="study.example, other.example"))) as client:
        for name in ("study.example", "STUDY.example:443", "other.example", "127.0.0.1:8000", "localhost"):
            assert client.get("/healthz", headers={"Host": name}).status_code == 200, name
        for path in ("/healthz", "/", "/api/v1/surveys/x/inquiry"):
            answer = client.get(path, headers={"Host": "evil.example"})
            assert (answer.status_code, answer.json()["error"]) == (421, "other-host")
