"""What the benchmarks share: candidates timed in turns in one run, a child's peak memory, and the big table.

The machine may be busy with other things, so candidates take turns, and three ratios are printed: of the fastest
rounds, the median of ratios within a round (both on the clock), and of processor seconds, which suffer least from
other load but do not show how well threads share the work.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.table import Column, Schema

WORK = Path(os.environ.get("SFUMATO_BENCH_WORK") or Path(__file__).resolve().parent / "work")
LIMIT = 6.0
ROW_GROUP = 1 << 17


@dataclass(frozen=True)
class Rounds:
    """Seconds of one candidate, round by round: on the clock, and of all processors that its threads kept busy."""

    walls: tuple[float, ...]
    cpus: tuple[float, ...]

    @property
    def wall(self) -> float:
        return min(self.walls)

    @property
    def cpu(self) -> float:
        return min(self.cpus)


def in_turns(candidates: Mapping[str, Callable[[], Any]], repeats: int) -> tuple[dict[str, Rounds], dict[str, Any]]:
    """Run the candidates in turns; returns their rounds, and what each returned last."""
    walls: dict[str, list[float]] = {name: [] for name in candidates}
    cpus: dict[str, list[float]] = {name: [] for name in candidates}
    answers: dict[str, Any] = {}
    for _ in range(repeats):
        for name, run in candidates.items():
            answers.pop(name, None)  # the last answer must not hold memory while the next one is made
            cpu, wall = time.process_time(), time.perf_counter()
            answers[name] = run()
            walls[name].append(time.perf_counter() - wall)
            cpus[name].append(time.process_time() - cpu)
    rounds = {name: Rounds(tuple(walls[name]), tuple(cpus[name])) for name in candidates}
    for name, found in rounds.items():
        print(f"  {name:46s} {found.wall:8.3f} s on the clock {found.cpu:8.3f} s of processors", flush=True)
    return rounds, answers


def ratio(title: str, above: Rounds, below: Rounds, target: str = "") -> None:
    """Print above / below: of the fastest rounds, the median over rounds, and in processor seconds."""
    clock, processors = above.wall / below.wall, above.cpu / below.cpu
    median = statistics.median(a / b for a, b in zip(above.walls, below.walls, strict=False))
    wanted = f"  target {target}" if target else ""
    print(f"  {title:46s} {clock:8.2f} x, median {median:6.2f} x, processors {processors:6.2f} x{wanted}", flush=True)


def in_child(script: str, *arguments: str) -> dict[str, Any]:
    """Run a benchmark script with arguments in a process of its own; its last line is JSON."""
    done = subprocess.run([sys.executable, script, *arguments], check=True, capture_output=True, text=True)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def peak_megabytes() -> float:
    """The largest resident memory of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def big_table(rows: int, columns: int) -> Path:
    """A Parquet file of correlated float64 columns within [-6, 6], written block by block, once."""
    path = WORK / f"table-{rows}x{columns}.parquet"
    if path.exists():
        return path
    WORK.mkdir(exist_ok=True)
    aside = path.with_suffix(".part")
    rng = np.random.default_rng(11)
    factors = min(10, columns)
    loadings = rng.normal(size=(columns, factors)) / np.sqrt(factors)
    schema = pa.schema([(f"x{j:03d}", pa.float64()) for j in range(columns)])
    with pq.ParquetWriter(aside, schema, compression="none", use_dictionary=False) as writer:
        for start in range(0, rows, ROW_GROUP):
            n = min(ROW_GROUP, rows - start)
            block = loadings @ rng.standard_normal((factors, n))
            block += 0.3 * rng.standard_normal((columns, n))
            np.clip(block, -LIMIT, LIMIT, out=block)
            writer.write_table(pa.table(list(block), schema=schema))
    aside.replace(path)
    return path


def public_schema(columns: int) -> Schema:
    """Bounds that anybody knows."""
    return Schema(
        tuple(
            Column(f"x{j:03d}", "numeric", low=-LIMIT, high=LIMIT, source="public", reason="range of the instrument")
            for j in range(columns)
        )
    )
