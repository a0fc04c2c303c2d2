"""Fit a mechanism on a source by adding up statistics over its blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from sfumato.guarantee import Key
from sfumato.guarantee.ledger import Fingerprint
from sfumato.jobs.engines.passes import each_block
from sfumato.jobs.progress import Progress
from sfumato.jobs.source import Source, SourceBlock
from sfumato.mechanisms import Mechanism, ModelDrawing
from sfumato.mechanisms.columnwise import check_choices
from sfumato.noise import Streams
from sfumato.statistics import Counts, Statistics

Summed = TypeVar("Summed", Statistics, Counts)


def fit_on_source(
    mechanism: Mechanism,
    source: Source,
    key: Key | None,
    fingerprint: Fingerprint,
    progress: Progress,
    block_counts: list[dict[int, int]] | None = None,
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

    def observe(block: SourceBlock) -> Statistics:
        if mechanism.needs_statistics:
            return mechanism.statistics(block.X, block.y)
        return Statistics.empty(source.encoding.width)

    def count(statistics: Statistics) -> None:
        if block_counts is not None:
            block_counts.append({code: moments.n for code, moments in statistics.items()})

    rows, statistics = _add_up("Reading", source, observe, progress, fingerprint, count)
    mechanism.fit_statistics(mechanism.blurred(statistics, streams or Streams()), source.encoding, key)
    if mechanism.needs_second_pass:
        _, scores = _add_up("Measuring", source, lambda b: mechanism.second_statistics(b.X, b.y), progress, None)
        mechanism.fit_second(scores)
    return rows


def _add_up(
    step: str,
    source: Source,
    observe: Callable[[SourceBlock], Summed],
    progress: Progress,
    fingerprint: Fingerprint | None,
    seen: Callable[[Summed], None] = lambda _: None,
) -> tuple[int, Summed]:
    def work(block: SourceBlock) -> tuple[int, Summed, NDArray[np.uint64] | None]:
        return len(block.X), observe(block), None if fingerprint is None else fingerprint.sums(block.X)

    rows, total = 0, None
    for count, statistics, sums in each_block(source, work):
        total = statistics if total is None else total + statistics
        rows += count
        seen(statistics)
        if fingerprint is not None and sums is not None:
            fingerprint.merge(sums, count)
        progress(step, rows, source.rows)
    if total is None:
        total = observe(source.no_rows())
    return rows, total
