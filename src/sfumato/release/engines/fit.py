"""Fit a mechanism on a source by adding up statistics over its blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from operator import add
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.core.progress import Progress
from sfumato.guarantee import Key
from sfumato.guarantee.person_hash import Fingerprint
from sfumato.ledger.roll import Told
from sfumato.mechanisms import Mechanism, ModelDrawing
from sfumato.mechanisms.columnwise import check_choices
from sfumato.noise import Streams
from sfumato.release.engines.passes import each_block, fold_blocks
from sfumato.release.source import Source, SourceBlock
from sfumato.table.statistics import Counts, Statistics

Summed = TypeVar("Summed", Statistics, Counts)
BlockCounts = dict[int, dict[int, int]]
"""Number of a block -> rows that it has of each class."""


def fit_on_source(
    mechanism: Mechanism,
    source: Source,
    key: Key | None,
    fingerprint: Fingerprint,
    progress: Progress,
    block_counts: BlockCounts | None = None,
    before_noise: Callable[[], None] = lambda: None,
    streams: Streams | None = None,
) -> int:
    """Make the passes that the mechanism needs; returns the number of rows.

    `block_counts` is filled with the rows that every block has of each class, for a mechanism that draws rows.

    The first pass is always made: it reads and checks every value before any noise is drawn, and counts and
    fingerprints the rows for the ledger. A mechanism that draws rows from a model draws its noise during the fit:
    `before_noise` is called when the fingerprint is known and nothing was drawn yet.
    """
    if isinstance(mechanism, ModelDrawing):
        rows, counts = _add_up("Reading", source, lambda b: mechanism.count(b.X, b.y), progress, fingerprint)
        before_noise()
        mechanism.measure(counts)
        while mechanism.needs_counts:
            _, counts = _add_up("Counting", source, lambda b: mechanism.count(b.X, b.y), progress, None)
            mechanism.measure(counts)
        return rows

    check_choices(mechanism.name, mechanism.column_choices, source.encoding)

    width, learns = source.encoding.width, mechanism.needs_statistics

    def observe(block: SourceBlock) -> Statistics:
        return mechanism.statistics(block.X, block.y) if learns else Statistics.empty(width)

    rows, statistics = _add_up("Reading", source, observe, progress, fingerprint, block_counts)
    mechanism.fit_statistics(mechanism.blurred(statistics, streams or Streams()), source.encoding, key)
    if mechanism.needs_second_pass:
        _, scores = _add_up("Measuring", source, lambda b: mechanism.second_statistics(b.X, b.y), progress, None)
        mechanism.fit_second(scores)
    return rows


@dataclass
class _Sum(Generic[Summed]):
    """What one block adds, or several."""

    rows: int
    statistics: Summed
    sums: NDArray[np.uint64] | None
    by_block: dict[int, dict[int, int]]
    told: Told | None = None
    """Whose rows were worked through, until the roll has it."""
    ends: dict[str, tuple[float, float]] = field(default_factory=dict)

    def __add__(self, other: _Sum[Summed]) -> _Sum[Summed]:
        sums = self.sums if self.sums is None or other.sums is None else self.sums + other.sums
        self.by_block.update(other.by_block)
        for name, (low, high) in other.ends.items():
            known = self.ends.get(name, (low, high))
            self.ends[name] = min(low, known[0]), max(high, known[1])
        statistics = self.statistics + other.statistics
        return _Sum(self.rows + other.rows, statistics, sums, self.by_block, ends=self.ends)


def _add_up(
    step: str,
    source: Source,
    observe: Callable[[SourceBlock], Summed],
    progress: Progress,
    fingerprint: Fingerprint | None,
    block_counts: BlockCounts | None = None,
) -> tuple[int, Summed]:
    counted, rows = block_counts is not None, 0

    def work(block: SourceBlock) -> _Sum[Summed]:
        statistics = observe(block)
        sums = None if fingerprint is None else fingerprint.sums(block.X)
        by_block: BlockCounts = {}
        if counted and isinstance(statistics, Statistics):
            by_block[block.number] = _by_class(statistics)
        return _Sum(len(block.X), statistics, sums, by_block, block.told, dict(block.ends))

    def seen(part: _Sum[Summed]) -> None:
        nonlocal rows
        rows += part.rows
        if part.told is not None and source.roll is not None:
            source.roll.add(part.told)
        part.told = None
        progress(step, rows, source.rows)

    total = fold_blocks(source, work, add, seen)
    if source.roll is not None and total is not None and len(source.roll) != total.rows:
        _tell(source)  # a killed run had made this pass, and kept the sums only
    source.roll = None  # told once
    if total is None:
        return 0, observe(source.no_rows())
    source.ends = source.ends or total.ends
    if fingerprint is not None and total.sums is not None:
        fingerprint.merge(total.sums, total.rows)
    if block_counts is not None:
        block_counts.update(total.by_block)
    return total.rows, total.statistics


def _tell(source: Source) -> None:
    roll = source.roll
    assert roll is not None
    for told in each_block(source, lambda block: block.told):
        if told is not None:
            roll.add(told)


def _by_class(statistics: Statistics) -> dict[int, int]:
    return {code: moments.n for code, moments in statistics.items()}
