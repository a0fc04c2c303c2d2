"""What the first guidance is computed from: counts of start-up rows. Rows are counted when a file is read, and dropped.

A survey file is public, so no row may stand in what is published. Counts are what guidance needs and all that remains.
Of few rows counts say nearly everything; see `fewest_rows` and docs/survey.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.channels.guidance import AnswerSpace, SurveyCounts
from sfumato.core.errors import SchemaError, TableError

RANDOM = "random"
FEW_ROWS = 20
"""Rows of a class below which its counts may as well be the rows: answers that one person alone gave show."""


def read_start_up(found: Any, sizes: Sequence[int], classes: int) -> str:
    """ "random", or the counts (as text) of the rows or of the counts that a file gives."""
    if found == RANDOM:
        return RANDOM
    if isinstance(found, Mapping):
        return _checked(found, sizes, classes).to_json()
    if not isinstance(found, Sequence) or isinstance(found, str) or not found:
        raise SchemaError(
            "`start_up` must be the word random, or a list of rows of choice numbers with the class last."
        )
    wanted = [*sizes, classes]
    for number, row in enumerate(found, start=1):
        fits = isinstance(row, Sequence) and not isinstance(row, str) and len(row) == len(wanted)
        if not fits or not all(type(c) is int and 0 <= c < size for c, size in zip(row, wanted, strict=True)):
            raise SchemaError(
                f"Row {number} of `start_up` does not fit the questions: it needs {len(wanted)} choice numbers, "
                "counted from 0, the class last."
            )
    rows = np.array(found, dtype=np.int64)
    return SurveyCounts.of(AnswerSpace(tuple(sizes)).onehot(rows[:, :-1]), rows[:, -1]).to_json()


def _checked(found: Mapping[str, Any], sizes: Sequence[int], classes: int) -> SurveyCounts:
    """Counts that rows of these questions can have: every row chooses once in every question."""
    wrong = SchemaError("The counts in `start_up` are not those of rows that answer these questions.")
    try:
        counts = SurveyCounts.from_json(json.dumps(found))
    except (TableError, TypeError, ValueError, RecursionError, OverflowError):
        raise wrong from None
    if set(found) != {"width", "classes"} or counts.width != sum(sizes) or not counts.n:
        raise wrong
    starts = np.cumsum([0, *sizes])
    for label in counts:
        chosen = np.add.reduceat(counts.ones(label), starts[:-1])
        if not 0 <= label < classes or (chosen != counts.rows[label]).any():
            raise wrong
    return counts


def fewest_rows(start_up: str) -> int | None:
    """The number of start-up rows of the smallest class; None where they are random."""
    return None if start_up == RANDOM else min(SurveyCounts.from_json(start_up).rows.values())
