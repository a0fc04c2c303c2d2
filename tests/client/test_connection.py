"""Requests over real sockets: tried again where it helps and is safe, and never led astray."""

import json
import socket
import time
from email.utils import formatdate

import httpx
import pytest
from scripted import BREAK, SITE

from sfumato.core.errors import CoordinatorError, PrivacyLeakWarning, UsageError
from sfumato.study.client.connection import Address, Connection, Patience, RefusedError, check_token, read_token
from sfumato.study.client.coordinator import Coordinator

OK = (200, {"fine": True})
SICK = (503, {"error": "unavailable", "message": "The database is away.", "request": "1"})


@pytest.fixture
def connect(server, waits):
    opened = []

    def make(**words):
        opened.append(Connection(Address.read(server.url), SITE, **{"patience": waits[1], **words}))
        return opened[-1]

    yield make
    for connection in opened:
        connection.close()


@pytest.mark.parametrize(
    "failure", [BREAK, SICK, (500, b""), (502, b"<html>"), (504, b""), (429, b""), (408, b"")], ids=str
)
def test_what_may_pass_is_tried_again(server, connect, waits, failure):
    server.script = [failure, failure, OK]
    assert connect().ask("GET", "/x") == {"fine": True}
    assert len(waits[0]) == 2


def test_waits_grow_are_random_and_end(server, connect, waits):
    server.script = [SICK]
    with pytest.raises(RefusedError, match="database is away"):
        connect().ask("GET", "/x")
    slept = waits[0]
    assert len(slept) == 6
    assert all(0.25 * 2**i <= wait <= 0.5 * 2**i for i, wait in enumerate(slept))
    server.script = [SICK]
    with pytest.raises(RefusedError):
        connect().ask("GET", "/x")
    assert slept[:6] != slept[6:]


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [("7", 7, 7), ("a date in 40 s", 30, 41), ("soon", 0, 1), ("-3", 0, 1)],
)
def test_the_server_may_ask_for_a_longer_wait(server, connect, waits, header, least, most):
    header = formatdate(time.time() + 40, usegmt=True) if header == "a date in 40 s" else header
    server.script = [(429, b"", {"Retry-After": header}), OK]
    connect().ask("GET", "/x")
    assert least <= waits[0][0] <= most


def test_nobody_waits_for_an_hour(server, connect, waits):
    server.script = [(429, b"", {"Retry-After": "3600"}), OK]
    with pytest.raises(RefusedError):
        connect().ask("GET", "/x")
    assert waits[0] == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 413, 422, 507])
def test_a_refusal_is_final_and_in_the_servers_words(server, connect, waits, status):
    server.script = [(status, {"error": "code", "message": "No, because.", "request": "1"})]
    with pytest.raises(RefusedError, match="No, because") as caught:
        connect().ask("GET", "/x")
    assert (caught.value.status, caught.value.code, waits[0]) == (status, "code", [])


def test_a_conflict_that_will_end_is_waited_for(server, connect):
    server.script = [(409, b"", {"Retry-After": "2"}), OK]
    assert connect().ask("PUT", "/x") == {"fine": True}


def test_what_must_happen_once_is_not_repeated_when_it_may_have_happened(server, connect):
    for failure in (BREAK, (500, b""), (502, b"")):
        server.script, server.seen[:] = [failure, OK], []
        with pytest.raises(CoordinatorError):
            connect().ask("POST", "/x", json={}, once=True)
        assert len(server.seen) == 1
    server.script = [SICK, (429, b""), OK]
    assert connect().ask("POST", "/x", json={}, once=True) == {"fine": True}


def test_objections_are_listed(server, connect):
    server.script = [(422, {"error": "refused", "message": "Not taken.", "request": "1", "objections": ["a", "b"]})]
    with pytest.raises(RefusedError, match=r"Not taken\.\n  - a\n  - b"):
        connect().ask("GET", "/x")


def test_what_a_server_says_cannot_move_the_terminals_cursor(server, connect):
    server.script = [(404, {"error": "x", "message": "gone\x1b[2J\rreally" + "y" * 9999, "request": "1"})]
    with pytest.raises(RefusedError) as caught:
        connect().ask("GET", "/x")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 500


@pytest.mark.parametrize("body", [b"", b"<html>hello</html>", b"[1, 2", b"{" * 100_000], ids=len)
@pytest.mark.parametrize("status", [200, 404])
def test_answers_that_are_no_answers(server, connect, body, status):
    server.script = [(status, body)]
    if status == 200 and not body:
        assert connect().ask("GET", "/x") is None
        return
    with pytest.raises(CoordinatorError):
        connect().ask("GET", "/x")


def test_an_endless_answer_is_not_read(server, connect, monkeypatch):
    monkeypatch.setattr("sfumato.study.client.connection.MOST_BYTES", 1 << 17)
    server.script = [(200, b"[" + b"1," * (1 << 17) + b"1]")]
    with pytest.raises(CoordinatorError, match="too long"):
        connect().ask("GET", "/x")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(server, connect, status):
    server.script = [(status, b"", {"Location": "https://elsewhere.example/"})]
    with pytest.raises(CoordinatorError, match="not followed"):
        connect().ask("GET", "/x")
    assert len(server.seen) == 1


def test_nobody_there_is_said_at_once():
    """Waiting does not open a closed port: seven attempts took 21 s."""
    waits = []
    with socket.socket() as deaf:  # bound, so that nobody else is there either, and not listening
        deaf.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        with (
            Coordinator(address, SITE, patience=Patience(sleep=waits.append)) as coordinator,
            pytest.raises(CoordinatorError, match="no server listens there") as caught,
        ):
            coordinator.study("k3f9")
    assert waits == []
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("number", "words", "attempts"),
    [(socket.EAI_NONAME, "no machine has that name", 1), (socket.EAI_AGAIN, r"\(ConnectError\)", 7)],
)
def test_a_name_that_does_not_exist_is_final_and_one_that_cannot_be_looked_up_now_is_not(
    monkeypatch, number, words, attempts
):
    asked, waits = [], []

    def look_up(*_, **__):
        asked.append(1)
        raise socket.gaierror(number, "as the resolver says")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setenv("NO_PROXY", "*")
    with (
        Coordinator("https://study.example", SITE, patience=Patience(sleep=waits.append)) as coordinator,
        pytest.raises(CoordinatorError, match=words),
    ):
        coordinator.study("k3f9")
    assert (len(asked), len(waits)) == (attempts, attempts - 1)


@pytest.mark.parametrize("first", ["it answered", "it broke off"])
def test_a_server_that_was_there_may_be_restarting(waits, first):
    """Met once, it is waited for while its port is closed."""
    asked = []

    def answer(request):
        asked.append(request)
        if len(asked) > 1:
            raise httpx.ConnectError("refused") from ConnectionRefusedError()
        if first == "it broke off":
            raise httpx.ReadError("gone")
        return httpx.Response(200, json={"fine": True})

    connection = Connection(
        Address.read("https://study.example"), SITE, patience=waits[1], transport=httpx.MockTransport(answer)
    )
    if first == "it answered":
        connection.ask("GET", "/x")
        waits[0].clear()
    with pytest.raises(CoordinatorError, match=r"cannot be reached \(ConnectError\)"):
        connection.ask("GET", "/x")
    assert len(waits[0]) == 6


def test_the_token_is_sent_as_a_header_and_shown_nowhere(server, connect):
    server.script = [OK]
    connection = connect()
    connection.ask("GET", "/x")
    assert server.seen[0]["headers"]["Authorization"] == f"Bearer {SITE}"
    assert SITE not in server.seen[0]["path"]
    assert SITE not in repr(Coordinator(server.url, SITE))


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(server, connect, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    server.script = [OK]
    assert connect().ask("GET", "/x") == {"fine": True}


# -- addresses and tokens ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://study.example", "https://study.example"),
        ("https://study.example:8443/sfumato/", "https://study.example:8443/sfumato"),
        ("http://localhost:8000/", "http://localhost:8000"),
        ("http://127.0.0.1", "http://127.0.0.1"),
        ("http://[::1]:80", "http://[::1]:80"),
        ("https://Study.example:08443", "https://study.example:8443"),
        ("https://[FE80::1%25Eth0]:", "https://[fe80::1%25Eth0]"),
    ],
)
def test_good_addresses(url, base):
    assert Address.read(url).base == base


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://study.example", "not encrypted"),
        ("http://127.0.0.1.evil.example", "not encrypted"),
        ("http://10.0.0.7", "not encrypted"),
        ("study.example", "begin with https"),
        ("ftp://study.example", "begin with https"),
        ("https://", "begin with https"),
        ("https://me:secret@study.example", "alone"),
        ("https://study.example/?token=sfu_site_x", "alone"),
        ("https://study.example:port", "understood"),
    ],
)
def test_bad_addresses(url, words):
    with pytest.raises(UsageError, match=words) as caught:
        Address.read(url)
    assert "secret" not in str(caught.value)
    assert "sfu_site_x" not in str(caught.value)


def test_plain_http_is_a_choice():
    assert Address.read("http://10.0.0.7:80", insecure_http=True).base == "http://10.0.0.7:80"


def test_tokens_from_file_and_environment(tmp_path, monkeypatch):
    file = tmp_path / "site.token"
    file.write_text(SITE + "\n")
    file.chmod(0o600)
    assert read_token(file) == SITE
    file.chmod(0o644)
    with pytest.warns(PrivacyLeakWarning, match="chmod 600"):
        read_token(file)
    monkeypatch.setenv("SFUMATO_TOKEN", SITE)
    assert read_token() == SITE
    monkeypatch.delenv("SFUMATO_TOKEN")
    with pytest.raises(UsageError, match="--token-file"):
        read_token()
    with pytest.raises(UsageError, match="no token file"):
        read_token(tmp_path / "absent")


@pytest.mark.parametrize(
    "token", ["", "hunter2", "sfu_site_", "sfu_site_" + "a" * 43 + "\r\nX: y", "sfu_site_é" + "a" * 43]
)
def test_what_is_no_token_is_not_sent_nor_quoted(token):
    with pytest.raises(UsageError) as caught:
        check_token(token)
    assert not token or token not in str(caught.value)


def test_a_server_of_0_2_is_asked_for_nothing_that_it_does_not_know():
    asked = []

    def answer(request):
        asked.append(json.loads(request.content))
        return httpx.Response(202, json={"id": "m1"})

    with Coordinator("https://study.example", SITE, transport=httpx.MockTransport(answer)) as coordinator:
        assert coordinator.train("k3f9", "knn") == "m1"
        assert coordinator.train("k3f9", "svm kernel=sigmoid", "agreeing") == "m1"
    plain, chosen = asked
    assert plain == {"classifier": "knn", "sites": "all"}
    assert chosen == {"classifier": "svm", "sites": "agreeing", "parameters": {"kernel": "sigmoid"}}
