"""Other accounts of the computer reach the port, and pages of the web can make a browser ask: none of them gets in."""

import stat
import urllib.parse

import pytest
from desk_visits import PLANTED

from sfumato.api.desk import serve


def refused(answer):
    status, headers, page = answer
    return 400 <= status < 500 and not headers["Set-Cookie"] and "agecolumn" not in page and PLANTED not in page


def test_a_token_is_traded_once_and_only_from_our_own_page(opened, patients):
    visitor = opened(patients)
    body = urllib.parse.urlencode({"token": visitor.token}).encode()
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": None},
        {"Origin": f"https://{visitor.host}"},
        {"Sec_Fetch_Site": "cross-site"},
    ):
        assert refused(visitor.ask("POST", "/", body, **headers)), headers
    assert refused(visitor.ask("POST", "/", b"token=guess"))
    assert visitor.enter() == "columns"
    assert refused(visitor.ask("POST", "/", body))


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:80", ""]
)
def test_only_our_own_host_is_served(opened, patients, host):
    visitor = opened(patients)
    visitor.enter()
    assert refused(visitor.ask("GET", "/", Host=host))
    assert refused(visitor.ask("GET", visitor.root + "columns", Host=host))


def test_a_page_needs_the_cookie_and_its_own_path(opened, patients):
    visitor = opened(patients)
    visitor.enter()
    assert "agecolumn" in visitor.page("columns")
    name, _, value = visitor.cookie.partition("=")
    for cookie in (None, f"{name}={value[:-1]}x", f"other={value}", f"{name}=", "a;b=c;;"):
        assert refused(visitor.ask("GET", visitor.root + "columns", Cookie=cookie)), cookie
    assert refused(visitor.ask("GET", "/" + "0" * 32 + "/columns"))
    assert refused(visitor.ask("GET", visitor.root + "columns", Sec_Fetch_Site="cross-site"))
    assert refused(visitor.ask("GET", visitor.root + "../" + "columns"))


def test_a_form_needs_our_origin_and_its_number(opened, patients):
    visitor = opened(patients)
    visitor.enter()
    fields = urllib.parse.urlencode(visitor.form("strength", "strength")).encode()
    to = visitor.root + "strength"
    for headers in ({"Origin": "http://evil.example"}, {"Origin": None}, {"Cookie": None}, {"Origin": "null"}):
        assert refused(visitor.ask("POST", to, fields, **headers)), headers
    assert refused(visitor.ask("POST", to, b""))
    assert refused(visitor.ask("POST", visitor.root + "nothing", fields))
    assert refused(visitor.ask("POST", to, fields, Transfer_Encoding="chunked"))
    assert visitor.ask("POST", to, fields)[0] == 303


def test_every_answer_forbids_what_pages_do_not_need(opened, patients):
    visitor = opened(patients)
    visitor.enter()
    for path in ("/", "/desk.css", visitor.root + "columns", visitor.root + "nowhere", "/nowhere"):
        _, headers, _ = visitor.ask("GET", path)
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Access-Control-Allow-Origin"] is None
    status, headers, _ = visitor.ask("DELETE", visitor.root + "columns")
    assert status >= 400
    assert headers["Cache-Control"] == "no-store"


def test_a_dropped_table_is_private_and_gone_at_the_end(opened, patients, tmp_path):
    visitor = opened()
    assert visitor.enter() == "start"
    number = visitor.form("start", "drop")["number"]
    content = patients.read_text()
    body = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in (("number", number), ('table"; filename="../patients.csv', content))
    )
    kind = "multipart/form-data; boundary=x"
    assert visitor.post("drop", f"{body}--x--\r\n".encode(), Content_Type=kind) == "columns"
    assert "agecolumn" in visitor.page("columns")
    kept = [file for file in (tmp_path / "tmp").rglob("*") if file.is_file()]
    assert len(kept) >= 2
    for file in kept:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    visitor.ask("POST", visitor.root + "end", f"number={visitor.form('start', 'end')['number']}".encode())
    for _ in range(200):
        if not list((tmp_path / "tmp").iterdir()):
            break
        import time

        time.sleep(0.05)
    assert not list((tmp_path / "tmp").iterdir())
    assert not [seen for seen in visitor.headers_seen if "patients" in seen or "agecolumn" in seen]


def test_a_desk_ends_once_its_last_page_is_sent(opened, monkeypatch):
    visitor, ended, send = opened(), [], serve._Handler._send
    visitor.enter()
    number = visitor.form("start", "end")["number"]
    monkeypatch.setattr(
        serve._Handler,
        "_send",
        lambda self, answer: ended.append(self.server.desk.ended.is_set()) or send(self, answer),
    )
    status, _, _ = visitor.ask("POST", visitor.root + "end", f"number={number}".encode())
    assert (status, ended) == (200, [False])


def test_a_file_without_the_forms_number_is_not_even_stored(opened, patients, tmp_path):
    visitor = opened(patients)
    visitor.enter()
    visitor.page("columns")
    before = sorted((tmp_path / "tmp").rglob("*"))
    body = b'--x\r\nContent-Disposition: form-data; name="table"; filename="a.csv"\r\n\r\na,b\r\n--x--\r\n'
    answer = visitor.ask("POST", visitor.root + "drop", body, Content_Type="multipart/form-data; boundary=x")
    assert refused(answer)
    assert sorted((tmp_path / "tmp").rglob("*")) == before
