"""Spark on this machine beside the streaming engine: the same release, and how its time grows with the rows.

Spark's start is left out: a first small release warms it up. From the slope follows what a billion rows would cost on
100 cores, if all of them work as these do, data lie near them, and joining the parts takes what it takes here.

Run: .venv/spark/bin/python benchmarks/bench_spark.py [--rows 1000000 3000000] (`make test-all` makes that environment)
"""

from __future__ import annotations

import argparse
import shutil
import time
import warnings
from pathlib import Path

import numpy as np
from side_by_side import WORK, big_table, public_schema

from sfumato.jobs import sanitize as job
from sfumato.jobs.spark.session import running_session


def timed(table: Path, columns: int, engine: str) -> float:
    options = job.Options(
        parameters={"noise": "float"},
        schema=public_schema(columns),
        engine=engine,
        force=True,
        ledger=WORK / "ledger.json",
    )
    start = time.perf_counter()
    job.sanitize(table, WORK / f"release-{engine}", options)
    seconds = time.perf_counter() - start
    shutil.rmtree(WORK / f"release-{engine}")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--cores", type=int, default=2)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with running_session(f"local[{given.cores}]"):
        timed(big_table(50_000, given.columns), given.columns, "spark")
        found = []
        for rows in given.rows:
            table = big_table(rows, given.columns)
            spark, stream = timed(table, given.columns, "spark"), timed(table, given.columns, "stream")
            again = timed(table, given.columns, "spark"), timed(table, given.columns, "stream")
            spark, stream = min(spark, again[0]), min(stream, again[1])
            found.append(spark)
            print(
                f"  {rows:>12,} rows  spark {spark:7.1f} s  stream {stream:7.1f} s  {spark / stream:5.2f} x", flush=True
            )
            table.unlink()
    if len(found) > 1:
        slope, start = np.polyfit(given.rows, found, 1)
        hours = 1e9 * slope * given.cores / 100 / 3600
        print(f"  {slope * 1e6:.2f} s for every million rows after {start:.1f} s; 1e9 rows on 100 cores: {hours:.2f} h")


if __name__ == "__main__":
    main()
