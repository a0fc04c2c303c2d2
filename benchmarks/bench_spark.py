"""Spark on this machine beside the streaming engine: the same release, and how its time grows with the rows.

Spark's start is left out: small releases warm it up. From the slopes of processor seconds follows what a billion rows
cost on 100 cores, if all of them work as these do and data lie near them. Joining the parts into one file is the
driver's own work, which no other core shares: its slope is told apart.

Run: .venv/spark/bin/python benchmarks/bench_spark.py [--rows 1000000 3000000] (`make test-all` makes that environment)
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
import warnings
from pathlib import Path

import numpy as np
from side_by_side import WORK, big_table, public_schema

from sfumato.core.errors import UsageError
from sfumato.release import sanitize as job
from sfumato.release.spark.engine import check_installed, running_session


def processors() -> float:
    """Processor seconds of this process and of all that it started: Java, and Spark's own Python processes."""
    parents: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(words[1]), []).append(int(folder.name))
        spent[int(folder.name)] = sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
    waiting, total = [os.getpid()], 0.0
    while waiting:
        process = waiting.pop()
        total += spent.get(process, 0.0)
        waiting += parents.get(process, [])
    return total


def timed(table: Path, columns: int, engine: str) -> tuple[float, float, float]:
    """Seconds on the clock, of processors, and of this process alone: with Spark, the driver's."""
    options = job.Options(
        parameters={"noise": "float"},
        schema=public_schema(columns),
        engine=engine,
        force=True,
        unprotected=True,
        ledger=WORK / "ledger.json",
    )
    start, before, alone = time.perf_counter(), processors(), time.process_time()
    job.sanitize(table, WORK / f"release-{engine}", options)
    found = time.perf_counter() - start, processors() - before, time.process_time() - alone
    shutil.rmtree(WORK / f"release-{engine}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--cores", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    try:
        check_installed()
    except UsageError as error:
        print(f"left out: {error}")
        return
    with running_session(f"local[{given.cores}]"):
        for _ in range(2):  # the first ones compile
            timed(big_table(50_000, given.columns), given.columns, "spark")
        found = []
        for rows in given.rows:
            table = big_table(rows, given.columns)
            spark, stream = timed(table, given.columns, "spark"), timed(table, given.columns, "stream")
            found.append(spark[1:])
            clock, spent = spark[0] / stream[0], spark[1] / stream[1]
            print(f"  {rows:>12,} rows: spark {spark[0]:6.1f} s, stream {stream[0]:6.1f} s, {clock:5.2f} x", flush=True)
            print(
                f"  {'processors':>17}: spark {spark[1]:6.1f} s, stream {stream[1]:6.1f} s, {spent:5.2f} x", flush=True
            )
            print(f"  {'driver':>17}: {spark[2]:.1f} s of that", flush=True)
            table.unlink()
    if len(found) > 1:
        slopes, starts = np.polyfit(given.rows, np.array(found), 1)
        whole, driver = 1e6 * slopes
        print(f"  {whole:.2f} processor s for a million rows, after {starts[0]:.1f} s; the driver's: {driver:.2f} s")
        shared = 1e3 * (whole - driver) / 100 / 60
        print(
            f"  a billion rows on 100 cores: {shared:.1f} minutes of each, then {1e3 * driver / 60:.1f} of the driver"
        )


if __name__ == "__main__":
    main()
