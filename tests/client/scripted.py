"""What the client's tests say and hear: tokens, a study, and a server that answers as a test tells it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SITE = "sfu_site_" + "s" * 43
OWNER = "sfu_owner_" + "o" * 43
BREAK = "break the connection"


@dataclass
class Scripted:
    """Answers in the order of the script, then the last one for ever; notes what came."""

    script: list[Any] = field(default_factory=list)
    seen: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def next(self) -> Any:
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]


@contextmanager
def serving() -> Iterator[Scripted]:
    """A scripted server: each entry is (status, body, headers), a function of the request, or BREAK."""
    scripted = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            request = {"method": self.command, "path": self.path, "headers": dict(self.headers), "body": body}
            scripted.seen.append(request)
            entry = scripted.next()
            if callable(entry):
                entry = entry(request)
            if entry == BREAK:
                self.close_connection = True
                self.connection.close()
                return
            status, content, *more = entry
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **(more[0] if more else {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_DELETE = answer  # noqa: N815

        def log_message(self, *_):
            """Silent."""

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.handle_error = lambda *_: None
    scripted.url = f"http://127.0.0.1:{running.server_port}"
    thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield scripted
    running.shutdown()
    running.server_close()
    thread.join()


SCHEMA = {
    "version": 1,
    "columns": [
        {"name": "age", "kind": "integer", "low": 0, "high": 120, "source": "public", "reason": "people"},
        {"name": "height", "kind": "numeric", "low": 100, "high": 250, "source": "public", "reason": "people"},
        {
            "name": "ill",
            "kind": "categorical",
            "role": "label",
            "categories": ["no", "yes"],
            "source": "public",
            "reason": "the question",
        },
    ],
}
DEFINITION = {
    "kind": "pool",
    "name": "Four hospitals",
    "schema": SCHEMA,
    "mechanism": {"name": "additive-noise", "parameters": {}},
    "guarantee": {"epsilon_record": 6.0},
}
