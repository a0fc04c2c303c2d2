"""Every streaming mechanism, Parquet to Parquet, beside reading its input and writing its release and nothing else.

Each runs in a process of its own, so that its peak memory is its own. "Read + write" reads the input once and writes
the rows of the mechanism's own release as we write them; a release reads its input twice at least (a fit, then noise).
Exact noise is reported beside float noise where a mechanism has both. Memory is measured at two sizes.

Run: python benchmarks/bench_stream_mechanisms.py [--rows 10000000] [--columns 20] [--only NAME] [--threads]
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq
from side_by_side import WORK, big_table, in_child, peak_megabytes, public_schema

from sfumato.jobs import sanitize as job
from sfumato.jobs.engines import workers
from sfumato.table import table_writer

MECHANISMS: dict[str, tuple[str, dict[str, Any]]] = {
    "additive-noise, float": ("additive-noise", {"epsilon_record": 4.0, "noise": "float"}),
    "additive-noise, exact": ("additive-noise", {"epsilon_record": 4.0}),
    "principal-laplace, float": ("principal-laplace", {"noise": "float"}),
    "principal-laplace, exact": ("principal-laplace", {}),
    "multiplicative-noise": ("multiplicative-noise", {"low": 0.8, "high": 1.2, "zero": "additive"}),
    "noisy-operator": ("noisy-operator", {"low": -0.1, "high": 0.1}),
    "kernel-resampling": ("kernel-resampling", {}),
    "random-projection": ("random-projection", {}),
    "random-rotation": ("random-rotation", {}),
    "piecewise-noise, float": ("piecewise-noise", {"noise": "float"}),
    "square-wave, float": ("square-wave", {"noise": "float"}),
    "square-wave, exact": ("square-wave", {}),
    "staged-release, float": ("staged-release", {"noise": "float"}),
    "tree-resampling": ("tree-resampling", {}),
}


def measured(path: Path, columns: int, name: str, threads: int | None) -> dict[str, float]:
    """In a child: the release, then reading and writing alone."""
    mechanism, parameters = MECHANISMS[name]
    out = WORK / f"release-{name.replace(', ', '-')}"
    options = job.Options(
        mechanism=mechanism,
        parameters=parameters,
        schema=public_schema(columns),
        engine="stream",
        force=True,
        ledger=WORK / "ledger.json",
    )
    forget_ledger()
    counted = mock.patch.object(workers.os, "cpu_count", return_value=threads or workers.os.cpu_count())
    with counted:
        cpu, wall = time.process_time(), time.perf_counter()
        job.sanitize(path, out, options)
        ours = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "peak": peak_megabytes()}
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16).iter_batches(batch_size=1 << 16):
        pass
    read = time.process_time() - cpu
    release = pq.ParquetFile(out / "release.parquet", pre_buffer=False, buffer_size=1 << 16)
    write = 0.0
    with table_writer(WORK / "again.parquet", release.schema_arrow) as writer:
        for batch in release.iter_batches(batch_size=1 << 16):
            cpu = time.process_time()
            writer.write(batch)
            write += time.process_time() - cpu
    shutil.rmtree(out)
    (WORK / "again.parquet").unlink()
    return {**ours, "read": read, "write": write}


def forget_ledger() -> None:
    """Rows would be compared with those of whatever ran before: what a run takes must not depend on that."""
    for path in WORK.glob("*ledger.json*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--only", help="one of the mechanisms")
    parser.add_argument("--threads", action="store_true", help="also one thread against two")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.child:
        print(json.dumps(measured(given.child, given.columns, given.only, given.count)))
        return
    small, large = (big_table(rows, given.columns) for rows in (given.rows // 10, given.rows))
    print(f"{given.rows:,} x {given.columns} float64; processor seconds, and peak MB at a tenth of the rows and at all")

    def child(table: Path, name: str, *more: str) -> dict[str, float]:
        return in_child(__file__, "--child", str(table), "--columns", str(given.columns), "--only", name, *more)

    for name in [given.only] if given.only else MECHANISMS:
        short, found = child(small, name), child(large, name)
        bare = found["read"] + found["write"]
        print(
            f"  {name:26s} {found['cpu']:7.1f} s  read + write {bare:6.1f} s  {found['cpu'] / bare:5.2f} x   "
            f"{short['peak']:5.0f} and {found['peak']:5.0f} MB   {given.rows / found['wall'] / 1e6:5.2f} M rows/s",
            flush=True,
        )
        if given.threads:
            one, two = (child(large, name, "--count", str(count))["wall"] for count in (1, 2))
            print(f"  {'':26s} one thread / two threads, on the clock {one / two:5.2f} x", flush=True)
    for table in (small, large):
        table.unlink()


if __name__ == "__main__":
    main()
