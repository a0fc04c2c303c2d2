"""Play the phases of a mechanism on a source: one pass each, whose sum finishes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.core.progress import Progress
from sfumato.guarantee.person_hash import Fingerprint
from sfumato.ledger.roll import Told
from sfumato.mechanisms.phases import Phase
from sfumato.release.engines.passes import each_block, fold_blocks
from sfumato.release.source import Source, SourceBlock


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
