"""How fast a hidden map falls: recovery against the number of known rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sfumato.array_types import Codes
from sfumato.attacks.base import Knowledge
from sfumato.attacks.known_rows import KnownRows
from sfumato.metrics.privacy import breaches
from sfumato.metrics.scored import Truth


def recovery_curve(
    known: Knowledge, truth: Truth, counts: Sequence[int] | None = None, kept: Codes | None = None
) -> dict[int, float]:
    """Share of values that `KnownRows` tells with so many known rows, by number of rows; lower is safer.

    Counts are 1, d/2 and d + 1 by default, as far as there are known rows. Always the same people are scored: `kept`
    (release rows), by default everybody but the known ones.
    """
    if known.known_rows is None:
        return {}
    most, d = len(known.known_rows.index), known.encoding.width
    if counts is None:
        counts = (1, max(d // 2, 1), d + 1)
    if kept is None:
        kept = np.setdiff1d(np.arange(len(known.release)), known.known_rows.index)
    apart = replace(truth, rows=truth.rows[kept])
    curve = {}
    for count in sorted({count for count in counts if 1 <= count <= most}):
        guess = KnownRows(rows=count).run(known).X[kept]  # type: ignore[attr-defined]
        curve[count] = float(breaches(apart.rows, guess, apart.encoding, apart.tolerance).mean())
    return curve
