"""A desk of its own for a test, spoken to as a browser does: forms are found on its pages, and sent."""

from __future__ import annotations

import contextlib
import html.parser
import http.client
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sfumato.api.desk.serve import open_desk

PLANTED = "plantedcell"
PATIENCE = 120.0


class Forms(html.parser.HTMLParser):
    """The forms of a page: where they go, and what their fields hold."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.forms: list[dict[str, Any]] = []
        self._select = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag == "form":
            self.forms.append({"action": found["action"], "fields": {}})
        elif tag == "input" and self.forms and found.get("name"):
            if found.get("type") not in ("checkbox", "file") and (found.get("type") != "radio" or "checked" in found):
                self.forms[-1]["fields"][found["name"]] = found.get("value") or ""
        elif tag == "select":
            self._select = found.get("name") or ""
        elif tag == "option" and self._select and ("selected" in found or self._select not in self.forms[-1]["fields"]):
            self.forms[-1]["fields"][self._select] = found.get("value") or ""


@dataclass
class Visitor:
    """A browser without a script."""

    address: str
    cookie: str = ""
    root: str = "/"
    headers_seen: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return urllib.parse.urlsplit(self.address).netloc

    @property
    def token(self) -> str:
        return self.address.partition("#")[2]

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str | None
    ) -> tuple[int, http.client.HTTPMessage, str]:
        """One request; a header that is None is left out."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        sent: dict[str, str | None] = {"Host": self.host, "Cookie": self.cookie or None}
        if method == "POST":
            sent |= {"Origin": f"http://{self.host}", "Content-Type": "application/x-www-form-urlencoded"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            sent["Content-Length"] = str(len(body))
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        text = answer.read().decode("utf-8", "replace")
        connection.close()
        self.headers_seen.append(f"{path} {answer.headers}")
        return answer.status, answer.headers, text

    def enter(self) -> str:
        """Trade the token; the first screen's name."""
        body = urllib.parse.urlencode({"token": self.token}).encode()
        status, headers, _ = self.ask("POST", "/", body)
        assert status == 303
        self.cookie = headers["Set-Cookie"].partition(";")[0]
        self.root, _, screen = headers["Location"].rpartition("/")
        self.root += "/"
        return screen

    def page(self, screen: str) -> str:
        """A screen, once no job runs any more."""
        end = time.monotonic() + PATIENCE
        while True:
            status, headers, text = self.ask("GET", self.root + screen)
            if status == 303:
                screen = headers["Location"].removeprefix(self.root)
            elif "data-job" not in text:
                assert status == 200, text
                return text
            assert time.monotonic() < end, "a job does not end"
            time.sleep(0.05)

    def form(self, screen: str, action: str) -> dict[str, str]:
        """The fields of a form on a screen, as they stand there."""
        found = Forms(self.page(screen)).forms
        return next(one["fields"] for one in found if one["action"] == self.root + action)

    def send(self, screen: str, action: str, /, **changes: str) -> str:
        """Send a form with some fields changed; the screen that comes next."""
        fields = {**self.form(screen, action), **{name.replace("_", "-"): value for name, value in changes.items()}}
        return self.post(action, urllib.parse.urlencode(fields).encode())

    def post(self, action: str, body: bytes, **headers: str | None) -> str:
        status, found, text = self.ask("POST", self.root + action, body, **headers)
        assert status == 303, text
        return found["Location"].removeprefix(self.root)


@pytest.fixture
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary files and the home of a test are its own."""
    for name in ("tmp", "home"):
        (tmp_path / name).mkdir(mode=0o700)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def patients(tmp_path: Path, own_places: None) -> Path:  # noqa: ARG001
    """A small table whose words and numbers are easy to find again."""
    lines = (f"{20 + 7 * i % 60},{PLANTED if i % 9 == 0 else 'b'},{'yn'[i % 2]}" for i in range(240))
    file = tmp_path / "patients.csv"
    file.write_text("agecolumn,ward,ill\n" + "\n".join(lines) + "\n")
    return file


@pytest.fixture
def opened(own_places: None) -> Iterator[Callable[..., Visitor]]:  # noqa: ARG001
    """Opens a desk in a thread; all of them are ended."""
    visitors: list[tuple[Visitor, threading.Thread]] = []

    def begin(table: Path | None = None, **more: Any) -> Visitor:
        said: list[str] = []
        heard = threading.Event()

        def say(line: str) -> None:
            said.append(line)
            heard.set()

        asked = {"browser": False, "say": say, **more}
        thread = threading.Thread(target=open_desk, args=(table,), kwargs=asked, daemon=True)
        thread.start()
        assert heard.wait(30)
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#\S{20,}", said[0])
        visitors.append((Visitor(said[0]), thread))
        return visitors[-1][0]

    yield begin
    for visitor, thread in visitors:
        if thread.is_alive() and visitor.cookie:
            with contextlib.suppress(OSError):  # the test has ended it, and its thread is about to end
                number = Forms(visitor.ask("GET", visitor.root + "start")[2]).forms[0]["fields"]["number"]
                visitor.ask("POST", visitor.root + "end", urllib.parse.urlencode({"number": number}).encode())
            thread.join(30)
            assert not thread.is_alive()
