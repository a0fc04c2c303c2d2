"""What the benchmarks share: candidates timed in turns in one run, a child's peak memory, and the big table.

The machine may be busy with other things, so candidates take turns and the fastest of their rounds counts, on the
clock and in processor seconds. Ratios within one run are what to trust.
"""

from __future__ import annotations

import json
import resource
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

WORK = Path(__file__).resolve().parent / "work"
LIMIT = 6.0
ROW_GROUP = 1 << 17


@dataclass(frozen=True)
class Best:
    """The fastest round of one candidate: seconds on the clock, and processor seconds of all its threads."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:8.3f} s  {self.cpu:8.3f} processor s"


def in_turns(candidates: Mapping[str, Callable[[], Any]], repeats: int) -> tuple[dict[str, Best], dict[str, Any]]:
    """Run the candidates in turns; returns the best of each, and what each returned last."""
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
    best = {name: Best(min(walls[name]), min(cpus[name])) for name in candidates}
    for name, timing in best.items():
        print(f"  {name:52s} {timing}", flush=True)
    return best, answers


def ratio(title: str, above: Best, below: Best, target: str = "") -> None:
    """Print above / below, on the clock and in processor time."""
    wanted = f"   (target: {target})" if target else ""
    print(
        f"  {title:52s} {above.wall / below.wall:8.2f} x{above.cpu / below.cpu:10.2f} x processor{wanted}", flush=True
    )


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
