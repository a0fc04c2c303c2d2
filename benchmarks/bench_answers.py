"""Durable answers of a survey, beside a bare durable route of the same framework, on SQLite and on PostgreSQL.

The bare route reads the body, puts it into the same group commit, writes it to a table of one column by the driver
itself, and answers. Servers and load generator share the machine. Both are killed at the end, and every acknowledged
answer must be in the database, once.

Run: python benchmarks/bench_answers.py [--seconds 5] [--rounds 3] [--attributes 20]
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path

from http_load import Load, load_of, request

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "server"))
CHOICES = 4


def survey(attributes: int) -> dict[str, object]:
    questions = [{"name": f"q{n}", "choices": [str(c) for c in range(CHOICES)]} for n in range(attributes)]
    return {"kind": "survey", "name": "load", "by": "a benchmark", "questions": questions, "label": {
        "name": "y", "classes": ["0", "1"]}, "batch": 1000}  # fmt: skip


class Server:
    """A server in a process of its own: ours, or the bare route."""

    def __init__(self, kind: str, folder: Path, database: str | None, attributes: int):
        self.folder, self.database = folder, database
        command = [sys.executable, str(Path(__file__)), "--serve", kind, str(folder), database or "", str(attributes)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline().split()
        if len(line) != 2:
            sys.exit(f"the {kind} server does not start")
        self.address, self.study = line

    def processor(self) -> float:
        """Processor seconds that it has used: they suffer less from other work on the machine than the clock does."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def serve(kind: str, folder: Path, database: str, attributes: int) -> None:
    """Runs in the child: prints its address and the study, and serves until killed."""
    import uvicorn

    from sfumato.study.server.settings import Rate, Settings
    from sfumato.study.server.store import Store

    settings = Settings(data=folder, database=database or None, worker=False, respondent_rate=Rate(1e8, 1e8))
    if kind == "ours":
        from sfumato.study.protocol.study_file import study_from_dict
        from sfumato.study.server.app import serve as run

        store = Store.open(settings)
        study, _ = store.studies.create(study_from_dict(survey(attributes)))
        store.close()
        run(settings, "127.0.0.1", 0, lambda address: print(address, study, flush=True))
        return
    app = bare_app(settings)
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False)
    server = uvicorn.Server(config)
    original = server.startup

    async def startup(sockets: object = None) -> None:
        await original(sockets)  # type: ignore[arg-type]
        print(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", "-", flush=True)

    server.startup = startup  # type: ignore[assignment,method-assign]
    server.run()


def bare_app(settings: object) -> object:
    """Starlette, one route, group commit, one INSERT by the driver."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from sfumato.study.server.store import Store
    from sfumato.study.server.survey.desk import GroupCommit

    database = Store.open(settings).database  # type: ignore[arg-type]
    place = "%s" if database.engine.dialect.name == "postgresql" else "?"
    with database.writing() as connection:
        kind = "BYTEA" if place == "%s" else "BLOB"
        connection.exec_driver_sql(f"CREATE TABLE IF NOT EXISTS bare (body {kind})")

    def write(bodies: list[bytes]) -> list[None]:
        with database.writing() as connection:
            connection.exec_driver_sql(f"INSERT INTO bare VALUES ({place})", [(body,) for body in bodies])
        return [None] * len(bodies)

    commit: GroupCommit[bytes, None] = GroupCommit(write)  # type: ignore[arg-type]

    async def keep(asked: Request) -> Response:
        await commit.put(await asked.body())
        return Response(b'{"kept":true}', 201, media_type="application/json")

    return Starlette(routes=[Route("/answers", keep, methods=["POST"])])


def answers(url: str, attributes: int) -> Iterator[bytes]:
    """Different answers without end; about a third of the bits are set."""
    width = attributes * CHOICES
    pool = [sorted(secrets.SystemRandom().sample(range(width), width // 3)) for _ in range(200)]
    rest = [json.dumps({"version": 1, "label": n % 2, "bits": bits})[1:].encode() for n, bits in enumerate(pool)]
    number = 0
    while True:
        name = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=")
        yield request("POST", url, b'{"id": "%s", ' % name + rest[number % len(rest)])
        number += 1


def measure(name: str, database: str | None, seconds: float, rounds: int, attributes: int) -> None:
    print(f"{name}: {attributes} questions of {CHOICES} choices, {rounds} rounds of {seconds:g} s in turns")
    with tempfile.TemporaryDirectory() as folder:
        bare = Server("bare", Path(folder) / "bare", database, attributes)
        ours = Server("ours", Path(folder) / "ours", database, attributes)
        survey_url = f"{ours.address}/api/v1/surveys/{ours.study}"
        inquiry = request("GET", f"{survey_url}/inquiry")
        ready = request("POST", f"{survey_url}/ready", b'{"version":1}')
        candidates: dict[str, tuple[Server, Callable[[], Iterator[bytes]], float]] = {
            "bare durable route": (bare, lambda: answers(f"{bare.address}/answers", attributes), 1.0),
            "answers": (ours, lambda: answers(f"{survey_url}/answers", attributes), 1.0),
            "inquiry, from memory": (ours, lambda: repeat(inquiry), 0.5),
            "guidance, from memory": (ours, lambda: repeat(ready), 0.5),
        }
        cost: dict[str, float] = {}
        best: dict[str, Load] = {}
        acknowledged = 0
        try:
            for _ in range(rounds):
                for kind, (server, requests, share) in candidates.items():
                    before = server.processor()
                    load = load_of(server.address, requests, seconds=seconds * share)
                    spent = (server.processor() - before) / max(1, len(load.times))  # none, on a busy machine
                    cost[kind] = min(cost.get(kind, spent), spent)
                    if set(load.statuses) - {200, 201}:
                        sys.exit(f"{kind}: refused, {load.statuses}")
                    if kind == "answers":
                        acknowledged += len(load.times)
                    if kind not in best or load.rate > best[kind].rate:
                        best[kind] = load
        finally:
            ours.kill()
            bare.kill()
        for kind, load in best.items():
            print(f"{load.line(kind)}   {1e6 * cost[kind]:.0f} us of processor")
        rate = best["answers"].rate
        print(f"  answers / bare route: {rate / best['bare durable route'].rate:.2f} (asked: 0.8)")
        print(f"  the same by processor time: {cost['bare durable route'] / cost['answers']:.2f}")
        for kind in ("inquiry, from memory", "guidance, from memory"):
            print(f"  {kind} / answers: {best[kind].rate / rate:.2f} (asked: 2)")
        kept = count(Path(folder) / "ours", database, ours.study)
        print(f"  acknowledged {acknowledged:,}, kept after the kill {kept:,}")
        # Answers whose acknowledgement was on its way may be there too, at most one for each connection and round.
        if not acknowledged <= kept <= acknowledged + 64 * rounds:
            sys.exit("answers were lost or counted twice")


def count(folder: Path, database: str | None, study: str) -> int:
    from sfumato.study.server.settings import Settings
    from sfumato.study.server.store import Store

    store = Store.open(Settings(data=folder, database=database))
    try:
        return store.surveys.count(study)
    finally:
        store.close()


def main() -> None:
    if sys.argv[1:2] == ["--serve"]:
        kind, folder, database, attributes = sys.argv[2:6]
        serve(kind, Path(folder), database, int(attributes))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--attributes", type=int, default=20)
    chosen = parser.parse_args()
    measure("SQLite", None, chosen.seconds, chosen.rounds, chosen.attributes)
    import postgres

    bin = postgres.binaries()
    if bin is None:
        print("PostgreSQL is not installed, so it was not measured.")
        return
    cluster = postgres.Cluster(bin)
    try:
        measure("PostgreSQL", cluster.new_database(), chosen.seconds, chosen.rounds, chosen.attributes)
    finally:
        cluster.remove()


if __name__ == "__main__":
    began = time.perf_counter()
    main()
    if sys.argv[1:2] != ["--serve"]:
        print(f"{time.perf_counter() - began:.0f} s")
