"""One pass over a source: read here, encode and work in the threads; or wherever the source has its rows."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextvars import copy_context
from dataclasses import dataclass, field
from operator import add
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from sfumato.core.progress import Progress
from sfumato.guarantee.person_hash import Fingerprint
from sfumato.ledger.roll import Told
from sfumato.mechanisms.phases import Phase
from sfumato.release.source import Piece, Source, SourceBlock

# Work through a few threads: in order with bounded memory, or all that there is.


In = TypeVar("In")
Out = TypeVar("Out")


def in_order(items: Iterable[In], work: Callable[[In], Out], threads: int | None = None) -> Iterator[Out]:
    """Yield what `work` makes of every item, in the order of the items.

    Several threads with one BLAS thread each beat one thread with many: blocks are small, and NumPy, Arrow and hashlib
    let go of the interpreter while they compute. The calling thread reads ahead by one item more than there are
    threads, so that no work waits for it. What the caller chose for its context (a device) holds in the threads too.
    """
    threads = threads or min(4, os.cpu_count() or 1)
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Out]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(copy_context().run, work, item))
                del item  # what was read is let go of as soon as it is worked through
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def all_of(items: Iterable[In], work: Callable[[In], Out], threads: int, told: Callable[[int], None]) -> list[Out]:
    """What `work` makes of every item, in their order. None waits for a slow one. `told`: how many are done."""
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        waiting = [pool.submit(copy_context().run, work, item) for item in items]
        try:
            told(0)
            for number, _ in enumerate(as_completed(waiting), start=1):
                told(number)
            return [future.result() for future in waiting]
        finally:
            for future in waiting:
                future.cancel()


@runtime_checkable
class AddsUp(Protocol):
    """A source that goes through its rows itself, in other processes or on other machines."""

    def add_up(self, work: Callable[[SourceBlock], Out], add: Callable[[Out, Out], Out]) -> Out | None:
        """The sum of what `work` makes of every block."""


def each_block(source: Source, work: Callable[[SourceBlock], Out], after: int = 0) -> Iterator[Out]:
    """Yield what `work` makes of every encoded block of the source, in order; the first `after` are passed by."""

    def encode_and_work(piece: Piece | SourceBlock) -> tuple[SourceBlock, Out]:
        block = source.encode(piece)
        made = work(block)
        return (block if source.keep_in_memory else block.without_rows()), made

    clipped = source.clipped  # a pass that leaves blocks out cannot count anew
    pieces = (piece for piece in source.pieces() if piece.number >= after)
    for block, made in in_order(pieces, encode_and_work):
        source.note(block)
        yield made
    source.finish_pass()
    if after:
        source.clipped = clipped


def fold_blocks(
    source: Source,
    work: Callable[[SourceBlock], Out],
    add: Callable[[Out, Out], Out],
    seen: Callable[[Out], None] = lambda _: None,
) -> Out | None:
    """The sum of what `work` makes of every encoded block; None where there are no rows.

    `seen` is told of every summand, in order. A source whose rows lie elsewhere (`AddsUp`) sends `work` there and
    tells of the sum only; so does a pass that a killed run had finished (`source.kept`).
    """
    if isinstance(source, AddsUp):
        found = source.add_up(work, add)
        if found is not None:
            seen(found)
        return found
    if source.kept is not None and (saved := source.kept.saved_sum()) is not None:
        found, source.clipped, source.most_rows_of_a_person = saved
        seen(found)
        return found  # type: ignore[no-any-return]
    total: Out | None = None
    for made in each_block(source, work):
        total = made if total is None else add(total, made)
        seen(made)
    if source.kept is not None and total is not None:
        source.kept.save_sum((total, source.clipped, source.most_rows_of_a_person))
    return total


# Play the phases of a mechanism on a source: one pass each, whose sum finishes it.


def play(
    phases: Iterable[Phase],
    source: Source,
    fingerprint: Fingerprint,
    progress: Progress,
    before_noise: Callable[[], None] = lambda: None,
) -> int:
    """Play all phases; returns the number of rows.

    The first pass is always made: it reads and checks every value before any noise is drawn, and counts and
    fingerprints the rows for the ledger. Where the end of a phase draws the noise that the release rests on,
    `before_noise` is called first, once.
    """
    rows: int | None = None
    paid = False
    for phase in phases:
        found = _add_up(phase, source, progress, fingerprint if rows is None else None)
        rows = found.rows if rows is None else rows
        if phase.is_paid_before and not paid:
            before_noise()
            paid = True
        phase.finish(found.statistics)
    return rows or 0


@dataclass
class _Sum:
    """What one block adds, or several."""

    rows: int
    statistics: Any
    sums: NDArray[np.uint64] | None = None
    told: Told | None = None
    """Whose rows were worked through, until the roll has it."""
    ends: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __add__(self, other: _Sum) -> _Sum:
        sums = self.sums if self.sums is None or other.sums is None else self.sums + other.sums
        for name, (low, high) in other.ends.items():
            known = self.ends.get(name, (low, high))
            self.ends[name] = min(low, known[0]), max(high, known[1])
        return _Sum(self.rows + other.rows, self.statistics + other.statistics, sums, ends=self.ends)


def _add_up(phase: Phase, source: Source, progress: Progress, fingerprint: Fingerprint | None) -> _Sum:
    rows = 0

    def work(block: SourceBlock) -> _Sum:
        sums = None if fingerprint is None else fingerprint.sums(block.X)
        return _Sum(len(block.X), phase.observe(block), sums, block.told, dict(block.ends))

    def seen(part: _Sum) -> None:
        nonlocal rows
        rows += part.rows
        if part.told is not None and source.roll is not None:
            source.roll.add(part.told)
        part.told = None
        progress(phase.step, rows, source.rows)

    total: _Sum | None = fold_blocks(source, work, add, seen)
    if source.roll is not None and total is not None and len(source.roll) != total.rows:
        _tell(source)  # a killed run had made this pass, and kept the sums only
    source.roll = None  # told once
    if total is None:
        return _Sum(0, phase.observe(source.no_rows()))
    source.ends = source.ends or total.ends
    if fingerprint is not None and total.sums is not None:
        fingerprint.merge(total.sums, total.rows)
    return total


def _tell(source: Source) -> None:
    roll = source.roll
    assert roll is not None
    for told in each_block(source, lambda block: block.told):
        if told is not None:
            roll.add(told)
