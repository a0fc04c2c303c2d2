"""The desk as a program: a server on this computer alone, a browser that is shown the way, and an end."""

from __future__ import annotations

import contextlib
import html
import io
import os
import shutil
import signal
import tempfile
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any
from urllib.parse import parse_qs, urlsplit

from sfumato.api.desk.desk import Desk
from sfumato.api.desk.door import Door, FormError, RefusedError, parts
from sfumato.api.desk.forms import FORMS
from sfumato.api.desk.heard import sentence_of
from sfumato.api.desk.job import Site
from sfumato.api.desk.pages import Answer, page, static_file
from sfumato.api.desk.words import language_of
from sfumato.core.errors import SfumatoError, UsageError
from sfumato.core.files import write_whole
from sfumato.core.web import HEADERS
from sfumato.core.wording import said

IDLE_SECONDS = 600.0
"""The desk ends so long after the last page asked for anything; never while a job runs."""
SLOWEST_SECONDS = 60  # a connection that is silent for so long is closed
MOST_FORM_BYTES = 8 << 20
MOST_FIELDS = 20_000
WATCHING = "X-Watching"
"""A header by which the script says that it only looks whether a job has ended."""
HERE = "127.0.0.1"
UNEXPECTED = "Something went wrong that should not have ({kind})."


def open_desk(
    table: Path | None = None,
    *,
    port: int = 0,
    browser: bool = True,
    say: Callable[[str], None] = print,
    site: Site | None = None,
) -> None:
    """Serve the desk until it is ended: by Ctrl-C, SIGTERM, its own button, or ten minutes after the last page.
    `site`: of a consortium, whose release is made for a study and pushed to it."""
    if table is not None and not table.exists():
        raise UsageError(f"There is no table {table}.")
    if site is not None:
        site.check()
    try:
        server = _Server((HERE, port), _Handler)
    except OverflowError:
        raise UsageError(f"--port must be 0 to 65535. Got {port} instead.") from None
    except OSError as error:
        told = f"Port {port} cannot be used: {error.strerror}. Leave --port out to take a free one."
        raise UsageError(told) from None
    server.door = Door(server.server_address[1])
    with (
        Desk.begun(table, server.door, FORMS, site) as desk,
        _ended_by_signals(server),
        _shown(server.door.address) if browser else contextlib.nullcontext(),
    ):
        server.desk = desk
        say(server.door.address)
        if browser:
            say("The desk is open in your browser. It ends with Ctrl-C, or ten minutes after its last page.")

        def end_when_idle() -> None:
            while time.monotonic() - desk.last_asked < IDLE_SECONDS or desk.busy:
                if desk.ended.wait(1.0):
                    break
            server.shutdown()

        threading.Thread(target=end_when_idle, daemon=True).start()
        with server:
            server.serve_forever(poll_interval=0.2)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = os.name != "nt"  # where it would let another program share the port
    door: Door
    desk: Desk

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is the browser's business; nothing of a request is ever logged."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sfumato", ""
    timeout = SLOWEST_SECONDS

    def log_message(self, *_: object) -> None:
        """Nothing is logged: an address may be guessed from times, and names of columns have no place in a log."""

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)
        if hasattr(self.server, "desk") and self.server.desk.over:
            self.server.desk.ended.set()

    def _answer(self, way: Callable[[str], Answer]) -> None:
        try:
            self.server.door.check_host(self.headers)
            found = way(urlsplit(self.path).path)
        except RefusedError as refused:
            found = self._refusal(str(refused), refused.status)
        except (SfumatoError, ValueError) as error:
            found = self._refusal(sentence_of(error if isinstance(error, SfumatoError) else FormError()), 400)
        except Exception as error:  # its words may quote a cell: only its kind is told
            found = self._refusal(said(UNEXPECTED, kind=type(error).__name__), 500)
        self._send(found)

    def _refusal(self, sentence: str, status: int) -> Answer:
        """Why a request goes no further; what is left of its body is not read."""
        self.close_connection = True
        chosen = self.server.desk.language if hasattr(self.server, "desk") else None
        language = chosen or language_of(self._languages)
        return page("refusal", language, {"sentence": sentence}, status)

    @property
    def _languages(self) -> str:
        return str(self.headers.get("Accept-Language", "")) if hasattr(self, "headers") else ""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """What is no request of a browser."""
        self._send(self._refusal("This is no request that the desk answers.", code))

    def _get(self, path: str) -> Answer:
        door, desk = self.server.door, self.server.desk
        if path == "/":
            return page("entry", language_of(self._languages), {})
        if (kept := static_file(path)) is not None:
            return kept
        door.check_site(self.headers)
        door.check_cookie(self.headers)
        watching = WATCHING in self.headers
        return desk.show(_below(path, door), self._languages, watching=watching)

    def _post(self, path: str) -> Answer:
        door, desk = self.server.door, self.server.desk
        door.check_form(self.headers)
        if path == "/":
            sent = self._form()
            cookie = door.trade(sent.get("token", ""))
            return Answer(b"", 303, {"Location": door.root + desk.first_screen, "Set-Cookie": cookie})
        door.check_cookie(self.headers)
        screen = _below(path, door)
        kind, length = self.headers.get("Content-Type", ""), self._length()
        if kind.lower().startswith("multipart/form-data"):
            found = parts(self.rfile, length, kind)
            first = next(found, None)  # its number: nothing is stored for a form of others
            if first is None or first.name != "number" or not door.check_number(first.text(100)):
                told = "This form does not come from a page of the desk, or is old. Open the page again."
                raise RefusedError(403, told)
            return desk.take_files(screen, found)
        sent = self._form()
        if "number" not in sent:
            raise RefusedError(403, "This form does not come from a page of the desk.")
        return desk.take(screen, sent)

    def _length(self) -> int:
        said = self.headers.get("Content-Length", "")
        if not said.isdecimal() or self.headers.get("Transfer-Encoding"):
            raise RefusedError(411, "The browser did not say how long the form is.")
        return int(said)

    def _form(self) -> dict[str, str]:
        length = self._length()
        if length > MOST_FORM_BYTES:
            raise RefusedError(413, "The form is too long.")
        body = self.rfile.read(length).decode("ascii")
        found = parse_qs(body, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="replace")
        return {name: values[-1] for name, values in found.items()}

    def _send(self, answer: Answer) -> None:
        with contextlib.suppress(OSError), _readable(answer.body) as body:  # the browser went away
            self.send_response(answer.status)
            size = {"Content-Length": str(body.seek(0, os.SEEK_END))}
            for name, value in {
                **HEADERS,
                "Content-Type": "text/html; charset=utf-8",
                **answer.headers,
                **size,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            body.seek(0)
            shutil.copyfileobj(body, self.wfile, 1 << 20)


def _readable(body: bytes | Path) -> IO[bytes]:
    return body.open("rb") if isinstance(body, Path) else io.BytesIO(body)


def _below(path: str, door: Door) -> str:
    if not path.startswith(door.root):
        raise RefusedError(404, "There is no such page.")
    return path.removeprefix(door.root)


@contextlib.contextmanager
def _ended_by_signals(server: _Server) -> Iterator[None]:
    """SIGTERM, Ctrl-C and a closed console window end the loop; everything that was begun is then tidied away."""

    def end(*_: object) -> None:
        threading.Thread(target=server.shutdown, daemon=True).start()

    names = ("SIGINT", "SIGTERM", "SIGBREAK")  # the last on Windows, where a console window is closed
    heard = threading.current_thread() is threading.main_thread()  # other threads may not say what becomes of signals
    kinds = [getattr(signal, name) for name in names if heard and hasattr(signal, name)]
    before = {kind: signal.signal(kind, end) for kind in kinds}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


@contextlib.contextmanager
def _shown(address: str) -> Iterator[None]:
    """Open the browser on a private file that leads on: lists of processes show what a browser is started with."""
    folder = os.environ.get("XDG_RUNTIME_DIR") or None
    with tempfile.TemporaryDirectory(prefix="sfumato-open-", dir=folder) as private:  # 0700
        shown = Path(private) / "open.html"
        way = html.escape(address, quote=True)
        head = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={way}">'
        write_whole(shown, f'{head}<a href="{way}">Sfumato</a>\n', private=True)
        webbrowser.open(shown.as_uri())
        yield
