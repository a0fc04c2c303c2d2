"""Streaming releases and their peers, each in a fresh process: what the two streaming benchmarks share.

A process runs once on a short table first, so that memory is touched and code is loaded, and is timed on the long one.
Candidates take turns over several rounds. Time on the clock and of the processors is told, the smallest of all rounds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from side_by_side import Rounds, in_child, peak_megabytes
from stream_phases import PHASES, phases_told

from sfumato.guarantee.person_hash import Fingerprint
from sfumato.release import engine as release
from sfumato.release import sanitize as job
from sfumato.release.write_release import InFolder

LEFT_OUT = ("nothing", "ledger", "ledger and shuffle")


@contextmanager
def left_out(what: str, threads: int | None = None) -> Iterator[None]:
    """Run the engine without parts of it, as no user can: rows keep their order, nothing is fingerprinted."""
    with ExitStack() as patched:

        def patch(place: Any, name: str, instead: Any) -> None:
            patched.enter_context(mock.patch.object(place, name, instead))

        if threads is not None:
            patch(os, "cpu_count", lambda: threads)
        if "ledger" in what:
            patch(job._Run, "_roll", lambda *_: None)
            patch(Fingerprint, "sums", lambda *_: np.zeros(2, dtype=np.uint64))
        if "shuffle" in what:
            patch(InFolder, "shuffle", lambda *_: None)
            patch(release, "release_blocks", _in_order)
        yield


def _in_order(work: release.Work, _: Any) -> Iterator[Any]:
    return work.source.each(release.perturber(work.layout.mechanism, work.streams, work.response))


def measured(run: Callable[[], Any], before: Callable[[], Any]) -> dict[str, Any]:
    """In a child: `before` to warm up, then `run`: seconds, megabytes, gigabytes from the disk and phases."""
    before()
    with phases_told() as told:
        cpu, wall, read = time.process_time(), time.perf_counter(), from_disk()
        run()
        found = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "read": from_disk() - read}
    return {**found, "peak": peak_megabytes(), "phases": {name: told.seconds[name] for name in PHASES}}


def from_disk() -> float:
    """Gigabytes that this process has read and that were not in the system's cache; 0 where that is not told."""
    told = Path("/proc/self/io")
    lines = told.read_text().splitlines() if told.exists() else []
    return sum(int(line.split()[1]) for line in lines if line.startswith("read_bytes")) / 1e9


def in_rounds(
    script: str, candidates: Mapping[str, tuple[str, ...]], repeats: int
) -> tuple[dict[str, Rounds], dict[str, dict[str, Any]]]:
    """Children of `script` with the arguments of every candidate, in turns; and what each told in its best round."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in candidates}
    for _ in range(repeats):
        for name, arguments in candidates.items():
            found[name].append(in_child(script, *arguments))
    rounds = {
        name: Rounds(tuple(one["wall"] for one in told), tuple(one["cpu"] for one in told))
        for name, told in found.items()
    }
    return rounds, {name: min(told, key=lambda one: float(one["cpu"])) for name, told in found.items()}


def told_phases(phases: Mapping[str, float]) -> str:
    """Phases in one line, the longest first."""
    return ", ".join(f"{name} {value:.2f}" for name, value in sorted(phases.items(), key=lambda one: -one[1]) if value)


def forget_ledger(work: Path) -> None:
    """Rows would be compared with those of whatever ran before: what a run takes must not depend on that."""
    import shutil

    for path in work.glob("*ledger.json*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
