"""Where the processor time of a streaming release goes: the engine's own steps, timed in whatever thread takes them.

A step inside another one counts for itself alone. What belongs to no step (Python between them, the system's part of
starting and ending, Arrow's own threads) is the rest of the process's time.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import pyarrow.parquet as pq

from sfumato.channels import Recipe
from sfumato.guarantee.person_hash import Fingerprint
from sfumato.ledger import Ledger
from sfumato.ledger.roll import Roll
from sfumato.mechanisms import Mechanism, bandwidth
from sfumato.noise import Streams
from sfumato.release import shuffle, source
from sfumato.release.write_release import Layout
from sfumato.table.readers import ParquetTable

PHASES = ("read", "encode", "fit", "hash", "noise", "check", "decode", "shuffle", "write", "ledger", "rest")


class Phases:
    """Processor seconds of every phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._inside = threading.local()
        self._lock = threading.Lock()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        outer = getattr(self._inside, "nested", None)
        self._inside.nested = 0.0
        start = time.thread_time()
        try:
            yield
        finally:
            spent = time.thread_time() - start
            with self._lock:
                self.seconds[name] += spent - self._inside.nested
            self._inside.nested = None if outer is None else outer + spent

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **words: Any) -> Any:
            with self.step(name):
                return function(*given, **words)

        return call

    def iterated(self, name: str, function: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """Of a generator: every item is a step."""

        def call(*given: Any, **words: Any) -> Iterator[Any]:
            items = function(*given, **words)
            while True:
                with self.step(name):
                    item = next(items, None)
                if item is None:
                    return
                yield item

        return call


@contextmanager
def phases_told() -> Iterator[Phases]:
    """Time the engine's steps until the block of code ends."""
    told = Phases()
    steps = [
        (source.Source, "encode", "encode"),
        (source.Source, "told", "ledger"),
        (Roll, "add", "ledger"),
        (Ledger, "record", "ledger"),
        (Fingerprint, "sums", "hash"),
        (Streams, "content", "hash"),
        (Recipe, "check_gaps", "check"),
        (Layout, "table", "decode"),
        (shuffle.DiskShuffle, "deal", "shuffle"),
        (shuffle.DiskShuffle, "add", "shuffle"),
        (shuffle.DiskShuffle, "_shuffled", "shuffle"),
        (pq.ParquetWriter, "write_table", "write"),
        *((kind, "perturb", "noise") for kind in _kinds(Mechanism) if "perturb" in vars(kind)),
        *((kind, "draw", "noise") for kind in _kinds(Mechanism) if "draw" in vars(kind)),
        *((kind, "release_stage", "noise") for kind in _kinds(Mechanism) if "release_stage" in vars(kind)),
        *((kind, "statistics", "fit") for kind in _kinds(Mechanism) if "statistics" in vars(kind)),
        (bandwidth.RowSample, "among", "fit"),
    ]
    start = time.process_time()
    with ExitStack() as patched:
        for place, name, phase in steps:
            patched.enter_context(mock.patch.object(place, name, _rebound(place, name, told, phase)))
        read = told.iterated("read", ParquetTable._batches)
        patched.enter_context(mock.patch.object(ParquetTable, "_batches", read))
        yield told
    told.seconds["rest"] = time.process_time() - start - sum(told.seconds.values())


def _rebound(place: Any, name: str, told: Phases, phase: str) -> Any:
    return told.timed(phase, getattr(place, name))


def _kinds(kind: type) -> list[type]:
    return [kind, *(below for one in kind.__subclasses__() for below in _kinds(one))]
