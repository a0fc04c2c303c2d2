"""Every streaming mechanism, Parquet to Parquet, beside reading its input and writing its release and nothing else.

Each runs in a fresh process that is warm, in turns with its peers (see `stream_runs`). "Read + write" is one thread
that reads the input once and writes the mechanism's own release as we write it; a release reads its input twice at
least (a fit, then noise). The engine is run without shuffle and ledger, with the shuffle, and whole. Memory is
measured at two sizes, optionally with a ledger that has a release of a tenth of the rows to compare with.

Run: python benchmarks/bench_stream_mechanisms.py [--rows 10000000] [--columns 20] [--only NAME] [--repeats 2]
     [--threads] [--known]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from side_by_side import WORK, big_table, in_child, public_schema, ratio
from stream_runs import LEFT_OUT, forget_ledger, in_rounds, left_out, measured, told_phases

from sfumato.release import sanitize as job
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
    "tree-resampling": ("tree-resampling", {"delta": 1e-9}),
}
RELEASE = WORK / "released"


def released(path: Path, columns: int, name: str, *, known: bool = False) -> Path:
    """One release; `known`: the ledger keeps what it has."""
    mechanism, parameters = MECHANISMS[name]
    if not known:
        forget_ledger(WORK)
    options = job.Options(
        mechanism=mechanism,
        parameters=parameters,
        schema=public_schema(columns),
        engine="stream",
        force=True,
        unprotected=True,
        ledger=WORK / "ledger.json",
    )
    return job.sanitize(path, RELEASE, options).folder


def read_and_write(path: Path) -> dict[str, float]:
    """Read the input, then write the rows of the release that lies there; reading those is not counted."""
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in _batches(path):
        pass
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    again = pq.ParquetFile(RELEASE / "release.parquet").schema_arrow
    with table_writer(WORK / "again.parquet", again) as write:
        for batch in _batches(RELEASE / "release.parquet"):
            cpu, wall = cpu - time.process_time(), wall - time.perf_counter()
            write(batch)
            cpu, wall = cpu + time.process_time(), wall + time.perf_counter()
    (WORK / "again.parquet").unlink()
    return {"cpu": cpu, "wall": wall}


def _batches(path: Path) -> Any:
    file = pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 16)
    return file.iter_batches(batch_size=1 << 17, use_threads=False)


def child(given: argparse.Namespace) -> dict[str, Any]:
    short, columns = big_table(given.rows // 10, given.columns), given.columns
    if given.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.cores])
    if given.without == "everything":
        read_and_write(short)
        return read_and_write(given.child)
    with left_out(given.without, given.count):
        return measured(
            lambda: released(given.child, columns, given.only, known=given.known),
            lambda: released(short, columns, given.only),
        )


def compare(given: argparse.Namespace, table: Path, name: str) -> None:
    """One mechanism: its variants and the bare passes in turns; then memory, and one thread against two."""
    same = ("--child", str(table), "--rows", str(given.rows), "--columns", str(given.columns), "--only", name)
    candidates = {what: (*same, "--without", what) for what in reversed(LEFT_OUT)}
    rounds, told = in_rounds(__file__, {**candidates, "bare": (*same, "--without", "everything")}, given.repeats)
    print(name)
    for what in reversed(LEFT_OUT):
        title = "the whole release" if what == "nothing" else f"without {what}"
        found, peak = rounds[what], told[what]["peak"]
        print(f"  {title:28s} {found.wall:7.1f} s on the clock {found.cpu:7.1f} s of processors  {peak:5.0f} MB")
        print(f"    {told_phases(told[what]['phases'])}", flush=True)
        ratio(f"  {title} / read + write", found, rounds["bare"], "at most 1.5" if "shuffle" in what else "")
    print(f"  {'read + write':28s} {rounds['bare'].wall:7.1f} s on the clock {rounds['bare'].cpu:7.1f} s of processors")
    small = ("--child", str(big_table(given.rows // 10, given.columns)), *same[2:])
    more = ("--known",) if given.known else ()
    peaks = [in_child(__file__, *arguments, *more)["peak"] for arguments in (small, same)]
    print(f"  peak memory at a tenth of the rows and at all         {peaks[0]:.0f} and {peaks[1]:.0f} MB", flush=True)
    for option, what in (("--count", "worker"), ("--cores", "core")) if given.threads else ():
        bare = candidates["ledger and shuffle"]
        walls: dict[int, list[float]] = {1: [], 2: []}
        for n in (1, 2) * given.repeats:
            walls[n].append(in_child(__file__, *bare, option, str(n))["wall"])
        found = f"{min(walls[1]) / min(walls[2]):5.2f} x"
        print(f"  one {what} / two {what}s, on the clock, without ledger and shuffle {found}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", help="one of the mechanisms")
    parser.add_argument(
        "--threads",
        action="store_true",
        help="also one worker against two, and one core against two: beside one worker a thread reads and writes",
    )
    parser.add_argument("--known", action="store_true", help="memory with a ledger that knows a tenth of as many rows")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--without", default="nothing", help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.child:
        print(json.dumps(child(given)))
        return
    small, large = (big_table(rows, given.columns) for rows in (given.rows // 10, given.rows))
    print(f"{given.rows:,} x {given.columns} float64, warm processes in turns, the best of {given.repeats} rounds")
    for name in [given.only] if given.only else MECHANISMS:
        compare(given, large, name)
    for table in (small, large):
        table.unlink()
    shutil.rmtree(RELEASE, ignore_errors=True)
    forget_ledger(WORK)


if __name__ == "__main__":
    main()
