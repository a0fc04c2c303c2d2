"""Pushes to a real server on this machine: one of 1 GB, with the peak memory of both ends; and 50 sites at once.

The server is `sfumato serve` in a process of its own, the large push is `sfumato study push` in another. Memory is the
peak that the system noted (VmHWM) for the server, for the child that looks at the file, and for the client; it must not
grow with the file. For the 50 sites, 1,000 are enrolled, others ask small things meanwhile, and every push is also sent
a second time at the same moment: nothing may fail, be lost, or be counted twice.

Run: python benchmarks/bench_push.py [--megabytes 1024] [--sites 50] [--enrolled 1000] [--database URL]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from side_by_side import LIMIT, ROW_GROUP, WORK, public_schema

from sfumato.release.sanitize import Options, sanitize
from sfumato.study.client import Coordinator, Parcel
from sfumato.study.client.connection import Patience
from sfumato.study.protocol.study_file import study_from_dict
from sfumato.study.server.settings import Settings
from sfumato.study.server.store import Store
from sfumato.table import Column, Schema

COLUMNS = 20
SMALL_ROWS = 500
PUSH = "import sys; from sfumato.api.cli import main; main()"
LABEL = Column("ill", "categorical", role="label", categories=("no", "yes"), source="public", reason="the question")
SCHEMA = Schema((*public_schema(COLUMNS).columns, LABEL))


def study():
    return study_from_dict(
        {
            "kind": "pool",
            "name": "Benchmark",
            "schema": SCHEMA.to_dict(),
            "mechanism": {"name": "additive-noise"},
            "guarantee": "empirical-allowed",
        }
    )


def table(rows: int, seed: int = 0) -> Iterator[pa.Table]:
    rng = np.random.default_rng(seed)
    for start in range(0, rows, ROW_GROUP):
        n = min(ROW_GROUP, rows - start)
        columns = {f"x{j:03d}": rng.standard_normal(n).clip(-LIMIT, LIMIT) for j in range(COLUMNS)}
        yield pa.table({**columns, "ill": np.where(rng.random(n) < 0.5, "yes", "no")})


def large_release(megabytes: int) -> Path:
    """A release of about that size, made once by the streaming engine."""
    folder = WORK / f"push-{megabytes}MB"
    if not (folder / "release.parquet").exists():
        WORK.mkdir(exist_ok=True)
        source = WORK / "push-source.parquet"
        rows = megabytes * (1 << 20) // (8 * COLUMNS)
        blocks = table(rows)
        first = next(blocks)
        with pq.ParquetWriter(source, first.schema, compression="none", use_dictionary=False) as writer:
            writer.write_table(first)
            for block in blocks:
                writer.write_table(block)
        parameters = {"law": "laplace", "scale": 0.1, "noise": "float"}
        options = Options(
            mechanism="additive-noise",
            parameters=parameters,
            schema=SCHEMA,
            engine="stream",
            ledger=WORK / "ledger.json",
        )
        sanitize(source, folder, options)
        source.unlink()
    return folder


@contextmanager
def server(data: Path, database: str | None) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    words = ["serve", "--data", str(data), "--port", "0", "--quiet"]
    if database:
        words += ["--database", database]
    log = (data.parent / "server.log").open("wb")
    process = subprocess.Popen([sys.executable, "-c", PUSH, *words], stdout=log, stderr=log)
    try:
        while not (data / "address").exists():
            if process.poll() is not None:
                raise SystemExit(f"The server did not start:\n{(data.parent / 'server.log').read_text()}")
            time.sleep(0.05)
        yield (data / "address").read_text().strip(), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        log.close()


def peak(pid: int) -> float:
    """Peak resident memory in MB."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def children(pid: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            if re.search(rf"^PPid:\s+{pid}$", status.read_text(), re.MULTILINE):
                found.append(int(status.parent.name))
        except OSError:
            continue
    return found


def memory_of_a_push(megabytes: int, folder: Path, database: str | None) -> None:
    release = large_release(megabytes)
    data = folder / f"data-{megabytes}"
    identity, owner = _study(data, database)
    with server(data, database) as (url, process):
        with Coordinator(url, owner) as coordinator:
            token = coordinator.invite(identity, "North").token
        words = ["push", str(release), "--to", url, "--study", identity, "--yes", "--quiet"]
        environment = {**os.environ, "SFUMATO_TOKEN": token, "SFUMATO_LEDGER": str(folder / "ledger.json")}
        began = time.perf_counter()
        client = subprocess.Popen([sys.executable, "-c", PUSH, *words], env=environment)
        seen = 0.0
        while client.poll() is None:
            with suppress(OSError, TypeError):
                seen = max(seen, peak(client.pid))
            time.sleep(0.02)
        seconds = time.perf_counter() - began
        if client.returncode:
            raise SystemExit(f"The push failed:\n{(folder / 'server.log').read_text()[-2000:]}")
        size = (release / "release.parquet").stat().st_size
        looking = max((peak(pid) for pid in children(process.pid)), default=0.0)
        print(
            f"  {size / (1 << 20):7.1f} MB pushed in {seconds:6.1f} s (start of the client included): peak memory "
            f"client {seen:.0f} MB, server {peak(process.pid):.0f} MB, its child {looking:.0f} MB",
            flush=True,
        )


def _study(data: Path, database: str | None) -> tuple[str, str]:
    data.mkdir(mode=0o700)
    store = Store.open(Settings(data=data, database=database))
    try:
        return store.studies.create(study())
    finally:
        store.close()


def many_sites(sites: int, enrolled: int, folder: Path, database: str | None) -> None:
    data = folder / "data-many"
    identity, owner = _study(data, database)
    store = Store.open(Settings(data=data, database=database))
    began = time.perf_counter()
    tokens = [store.sites.invite(identity, f"Site {number}").token for number in range(enrolled)]
    store.close()
    print(f"  {enrolled} sites enrolled in {time.perf_counter() - began:.1f} s", flush=True)
    parcels = []
    for number in range(sites):
        options = Options(mechanism="additive-noise", schema=SCHEMA, ledger=folder / "ledger.json", unprotected=True)
        sanitize(next(table(SMALL_ROWS, seed=number)), folder / f"site-{number}", options)
        parcels.append(Parcel.open(folder / f"site-{number}"))
    with server(data, database) as (url, _):
        slept: list[float] = []
        patience = Patience(sleep=lambda seconds: (slept.append(seconds), time.sleep(seconds)))
        start, over = threading.Event(), threading.Event()
        waits: list[float] = []

        def push(number: int) -> tuple[str, float]:
            with Coordinator(url, tokens[number % sites], patience=patience) as coordinator:
                start.wait()
                began = time.perf_counter()
                receipt = coordinator.push(identity, parcels[number % sites])
                return receipt.sha256, time.perf_counter() - began

        def ask(number: int) -> None:
            with Coordinator(url, tokens[-1 - number % len(tokens)], patience=patience) as coordinator:
                start.wait()
                while not over.is_set():
                    began = time.perf_counter()
                    coordinator.study(identity)
                    waits.append(time.perf_counter() - began)
                    time.sleep(0.1)

        with ThreadPoolExecutor(2 * sites + 8) as pool:
            asking = [pool.submit(ask, number) for number in range(8)]
            pushing = [pool.submit(push, number) for number in range(2 * sites)]
            began = time.perf_counter()
            start.set()
            done = [future.result() for future in pushing]
            seconds = time.perf_counter() - began
            over.set()
            for future in asking:
                future.result()
        with Coordinator(url, owner) as coordinator:
            kept = [release.sha256 for release in coordinator.releases(identity)]
    files = list(data.rglob("*.parquet"))
    wanted = {parcel.sha256 for parcel in parcels}
    assert {sha256 for sha256, _ in done} == wanted
    assert sorted(kept) == sorted(wanted), "a push was lost or doubled"
    assert {file.stem for file in files} == wanted, "files and records differ"
    times = sorted(second for _, second in done)
    print(
        f"  {sites} sites, each pushing twice at once: {2 * sites} answers in {seconds:.1f} s, none failed, "
        f"{len(kept)} releases kept, none lost or doubled; {len(slept)} retries"
    )
    print(f"  a push: median {statistics.median(times):.2f} s, slowest {times[-1]:.2f} s")
    print(f"  {len(waits)} small requests meanwhile, as the clients saw them: {spread([1e3 * wait for wait in waits])}")
    lines = map(json.loads, (data.parent / "server.log").read_text().splitlines())
    small = [line["ms"] for line in lines if line.get("route", "").endswith("{study_id}") and line["method"] == "GET"]
    print(f"  the same as the server timed them: {spread(small[-len(waits) :])}", flush=True)


def spread(milliseconds: list[float]) -> str:
    found = sorted(milliseconds)
    p99 = found[int(0.99 * (len(found) - 1))]
    return f"median {statistics.median(found):.0f} ms, p99 {p99:.0f} ms, slowest {found[-1]:.0f} ms"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--sites", type=int, default=50)
    parser.add_argument("--enrolled", type=int, default=1000)
    parser.add_argument("--database", default=None)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="push-", dir=WORK.parent if not WORK.exists() else WORK))
    try:
        print("One push, small and large: memory must not grow with it")
        for megabytes in sorted({16, chosen.megabytes}):
            memory_of_a_push(megabytes, folder, chosen.database)
        print("Many sites at once")
        many_sites(chosen.sites, chosen.enrolled, folder, chosen.database)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
