"""A small survey server for the browser's tests: it speaks docs/survey-protocol.md, and misbehaves on request."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

import sfumato
from sfumato.channels.guidance.guidance import Guidance, SurveyCounts
from sfumato.study.protocol.agreed import LogEntry, canonical_json, read_number, write_number
from sfumato.study.protocol.survey_file import SurveyStudy
from sfumato.study.protocol.survey_guidance import guidance_for
from sfumato.study.server.store.survey_store import TicketKey

PAGE = Path(sfumato.__file__).parent / "study" / "server" / "web" / "survey"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; "
    "connect-src 'self' http://127.0.0.1:*; frame-ancestors 'none'"
)


def both(en: str, de: str) -> dict[str, str]:
    return {"en": en, "de": de}


def question(name: str, kind: str, text: dict[str, str], choices: list[tuple[str, dict[str, str]]]) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "text": text,
        "choices": [{"value": value, "text": words} for value, words in choices],
    }


NO_YES = [("no", both("No", "Nein")), ("yes", both("Yes", "Ja"))]

SURVEY: dict[str, Any] = {
    "kind": "survey",
    "name": "Sleep and shift work",
    "by": "Institute of Occupational Health",
    "about": both(
        "We want to learn which habits go with sleeping well, so that rosters can be planned better.",
        "Wir wollen lernen, welche Gewohnheiten mit gutem Schlaf einhergehen, um Dienste besser zu planen.",
    ),
    "consent": both(
        "Taking part is voluntary. Results are published as a model and in figures.",
        "Die Teilnahme ist freiwillig. Ergebnisse werden als Modell und in Zahlen veröffentlicht.",
    ),
    "languages": ["en", "de"],
    "questions": [
        question("night", "yesno", both("Do you work at night?", "Arbeiten Sie nachts?"), NO_YES),
        {
            **question(
                "hours",
                "number",
                both("How many hours did you sleep last night?", "Wie viele Stunden haben Sie geschlafen?"),
                [
                    ("below 5", both("below 5", "unter 5")),
                    ("5 to 7", both("5 to 7", "5 bis 7")),
                    ("7 or more", both("7 or more", "7 oder mehr")),
                ],
            ),
            "edges": [5.0, 7.0],
        },
        question(
            "help",
            "choice",
            both("What do you take to fall asleep?", "Was nehmen Sie zum Einschlafen?"),
            [
                ("nothing", both("Nothing", "Nichts")),
                ("tea", both("Tea", "Tee")),
                ("pills", both("Pills", "Tabletten")),
                ("alcohol", both("Alcohol", "Alkohol")),
            ],
        ),
        question("children", "yesno", both("Do small children wake you?", "Wecken Sie kleine Kinder?"), NO_YES),
        question("partner", "yesno", both("Do you share a bedroom?", "Teilen Sie das Schlafzimmer?"), NO_YES),
    ],
    "label": question(
        "rested",
        "choice",
        both("Do you feel rested this week?", "Fühlen Sie sich diese Woche ausgeruht?"),
        [("no", both("Not rested", "Nicht ausgeruht")), ("yes", both("Rested", "Ausgeruht"))],
    ),
    "mu": 0.15,
    "batch": 100,
    "floor": 0.1,
    "link": "square",
    "order": "magnitude",
    "witnesses": [],
}


class SurveyDouble:
    """A pretended server. `k` is the level asked for (None: any); `spoil` changes what is answered to a path."""

    def __init__(self, k: int | None = 2, survey: dict[str, Any] | None = None, page: Path = PAGE) -> None:
        self.pages = page
        asked, self.key = dict(survey or SURVEY), None
        if asked.get("invitations"):
            self.key = TicketKey.new()
            asked["ticket_key"] = self.key.public
        self.codes: dict[str, str] = {}
        self.study = SurveyStudy.from_dict(asked)
        self.survey, self.hash = self.study.to_dict(), self.study.hash
        self.space = self.study.space
        self.state, self.down = "open", False
        self.log: list[LogEntry] = []
        self.guidance: dict[int, Guidance] = {}
        self.inputs: dict[int, str] = {}
        self.answers: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        self.spoil: dict[str, Any] = {}
        self.lose_receipts = self.lose_signatures = 0
        self.witness: dict[str, Any] | None = None
        self.issue(k)

    def issue(self, k: int | None, *, seed: int = 0, guidance: Callable[[Guidance], Guidance] | None = None) -> None:
        """A new version of the guidance, from rows that lead to level k; `guidance` may put another in its place."""
        for attempt in range(seed, seed + 1000):
            rng = np.random.default_rng([len(self.log), attempt])
            codes = np.column_stack([rng.integers(0, size, 100 * len(self.log) + 300) for size in self.space.sizes])
            noise = rng.choice([0.0, 0.2, 0.5])
            label = np.where(rng.random(len(codes)) < noise, rng.integers(0, 2, len(codes)), codes[:, 0])
            counts = SurveyCounts.of(self.space.onehot(codes), label)
            honest = guidance_for(self.study, counts)
            if k in (None, honest.k):
                return self.publish(guidance(honest) if guidance else honest, counts)
        raise AssertionError(f"no rows lead to level {k}")

    def issue_reading(self, bit: int) -> None:
        """Made-up counts whose leading direction is one bit alone: consistent, published, and made to read it."""
        rows = np.random.default_rng(0).random((20_000, self.space.width)) < self.study.floor
        rows[:10_000, bit] = True
        counts = SurveyCounts.of(rows, np.repeat([0, 1], 10_000))
        self.publish(guidance_for(self.study, counts), counts)

    def publish(self, guidance: Guidance, counts: SurveyCounts) -> None:
        version = len(self.log) + 1
        text = counts.to_json()
        self.guidance[version], self.inputs[version] = guidance, text
        self.log.append(
            LogEntry.chained(
                self.log[-1].hash if self.log else self.hash,
                version=version,
                k=guidance.k,
                sha256=guidance.sha256,
                inputs_sha256=hashlib.sha256(text.encode()).hexdigest(),
                answers=100 * (version - 1),
            )
        )

    def answer(self, method: str, path: str, query: str, body: bytes) -> tuple[int, Any]:
        self.requests.append((method, path + (f"?{query}" if query else ""), body))
        head = self.log[-1]
        if path == "" and method == "GET":
            found = {"id": "s1", "hash": self.hash, "state": self.state, "closes": None, "survey": self.survey}
            return 200, {**found, "file": canonical_json(self.survey)}
        if path == "/inquiry":
            return 200, {"version": head.version, "k": head.k, "head": head.hash}
        if path == "/ready":
            version = json.loads(body)["version"]
            chosen = self.guidance[version]
            sent = {"width": len(chosen.V), "v": chosen.text, "sha256": chosen.sha256, "head": head.hash}
            return 200, {"version": version, "k": chosen.k, **sent}
        if path == "/log":
            after = int(query.removeprefix("after=") or 0)
            return 200, {"entries": [entry.to_dict() for entry in self.log[after:]]}
        if path.startswith("/log/"):
            return 200, self.inputs[int(path.split("/")[2])]
        if path == "/tickets":
            return self.exchange(**json.loads(body))
        if path == "/answers":
            return self.receive(json.loads(body))
        if path == "/witness":
            return (200, self.witness) if self.witness else (404, {"error": "none", "message": "No witness."})
        return 404, {"error": "unknown", "message": "There is nothing here."}

    def exchange(self, code: str, blinded: str) -> tuple[int, Any]:
        """Codes that begin with "good" are good, once."""
        if not code.startswith("good") or self.codes.setdefault(code, blinded) != blinded:
            return 403, {"error": "bad-code", "message": "The code is unknown, or was used already."}
        if self.lose_signatures > 0:
            self.lose_signatures -= 1
            return 503, {"error": "away", "message": "Come back later."}
        return 200, {"signature": write_number(self.key.sign(read_number(blinded)))}

    def receive(self, answer: dict[str, Any]) -> tuple[int, Any]:
        if self.key and not self.key.is_good(self.hash, answer["id"], answer["ticket"]):
            return 403, {"error": "bad-ticket", "message": "The ticket is not good."}
        known = answer["id"] in self.answers
        if known and self.answers[answer["id"]] != answer:
            return 409, {"error": "other", "message": "Another answer has this id."}
        self.answers[answer["id"]] = answer
        if self.lose_receipts > 0:
            self.lose_receipts -= 1
            return 503, {"error": "away", "message": "Come back later."}
        return (200 if known else 201), {"id": answer["id"]}

    def __enter__(self) -> SurveyDouble:
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                if path.startswith("/survey/"):
                    file = double.pages / (path.removeprefix("/survey/") or "index.html")
                    found = file.is_file()
                    return self.reply(
                        200 if found else 404, file.read_bytes() if found else b"", TYPES.get(file.suffix, "text/plain")
                    )
                return self.api("GET", path, query, b"")

            def do_OPTIONS(self) -> None:
                self.reply(204, b"", "text/plain")

            def do_POST(self) -> None:
                self.api("POST", self.path, "", self.rfile.read(int(self.headers["content-length"])))

            def api(self, method: str, path: str, query: str, body: bytes) -> None:
                double.headers.append(dict(self.headers))
                if double.down:
                    return self.reply(503, b"{}", "application/json")
                below = path.removeprefix("/api/v1/surveys/s1")
                status, found = double.answer(method, below, query, body)
                if below in double.spoil:
                    found = double.spoil[below](found)
                text = found if isinstance(found, str) else json.dumps(found)
                return self.reply(status, text.encode(), "application/json")

            def reply(self, status: int, body: bytes, kind: str) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.send_header("content-security-policy", POLICY)
                if not self.path.startswith("/survey/"):  # the page may be published elsewhere
                    self.send_header("access-control-allow-origin", "*")
                    self.send_header("access-control-allow-headers", "content-type")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        self.origin = f"http://127.0.0.1:{self.server.server_port}"
        self.page = f"{self.origin}/survey/#survey=s1&hash={self.hash.removeprefix('sha256:')}"
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def flip(text: str) -> str:
    """Guidance with one number changed by a hair."""
    raw = bytearray(base64.b64decode(text))
    raw[0] ^= 1
    return base64.b64encode(bytes(raw)).decode()
