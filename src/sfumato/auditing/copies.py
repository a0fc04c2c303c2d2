"""Rows of the release that are rows of the original, or lie too near to one, against people who are not in the table.

Exact copies are counted over all rows. Distances are those of a stated sample: distance to the closest record (DCR),
and its ratio to the distance of the second closest (NNDR). What is near by chance is told by the holdout: similar
people lie near each other too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.attacks.metrics import proportion_interval
from sfumato.auditing.case import Case, sampled
from sfumato.core.array_types import Codes, Floats, Matrix
from sfumato.table import Encoding
from sfumato.table.filling import MISSING_INSTEAD
from sfumato.table.neighbours import nearest
from sfumato.table.tables import PicksRows

Keys = npt.NDArray[np.uint64]
Counter = Callable[[Keys], Codes]
"""How many records of the original have each of these keys."""
MOST_ROWS = 4_000
"""Released rows whose distances are measured, and as many of the holdout."""
MOST_REFERENCE = 50_000
"""People of the original among whom the closest are looked for."""
NEAR = 0.05
"""A near copy lies nearer to a record than this share of the people who are not in the table do."""
HOLDOUT, OTHERS = "holdout", "others"
SECRET = "the release mixes columns by a secret key, so its rows cannot be compared with records"
NOT_REPORTED = "rows leave cells out on purpose, and a gap has no distance"


def copies(case: Case) -> dict[str, Any]:
    """Shares of exact and near copies with their intervals, or why there are none."""
    restored = case.restored(case.whole)
    if restored is None:
        return {"not_applicable": SECRET}
    if np.isnan(restored).any():
        return {"not_applicable": NOT_REPORTED}
    rng = np.random.default_rng((case.options.seed, 2))
    wanted = sampled(case.people.total, MOST_REFERENCE, rng)
    count, reference = _read_original(case, wanted)
    return {
        "exact": _exact(restored, count, case),
        "near": _near(restored, reference, case, rng),
    }


def _read_original(case: Case, wanted: npt.NDArray[np.int64]) -> tuple[Counter, Matrix]:
    """What counts the records of the original with given keys, and the records at the wanted places."""
    if isinstance(case.original, PicksRows):
        rows, _ = case.original.rows_at(wanted)
        return _among_those_of(case.original, case.encoding), case.encoding.encode(rows, unknown=MISSING_INSTEAD).X
    keys, found, first = [], [], 0
    for batch in case.original.blocks():
        X = case.encoding.encode(batch, unknown=MISSING_INSTEAD, first_row=first).X
        keys.append(row_keys(X))
        found.append(X[wanted[(wanted >= first) & (wanted < first + len(X))] - first])
        first += len(X)
    return _among(np.concatenate(keys)), np.vstack(found)


def _among(keys: Keys) -> Counter:
    """How many of these keys equal each that is asked for."""
    known, times = np.unique(keys, return_counts=True)

    def count(asked: Keys) -> Codes:
        place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
        return np.where(known[place] == asked, times[place], 0)

    return count


def _among_those_of(table: PicksRows, encoding: Encoding) -> Counter:
    """The same where the rows lie in several places: each counts its own, and counts add up."""

    def count(asked: Keys) -> Codes:
        different, place = np.unique(asked, return_inverse=True)

        def observe(batches: Iterator[pa.RecordBatch]) -> Codes:
            total = np.zeros(len(different), dtype=np.int64)
            for batch in batches:
                keys = row_keys(encoding.encode(batch, unknown=MISSING_INSTEAD).X)
                at = np.minimum(np.searchsorted(different, keys), len(different) - 1)
                total += np.bincount(at[different[at] == keys], minlength=len(different))
            return total

        return np.asarray(table.gather(observe, np.add, lambda found: found)[place])

    return count


def row_keys(X: Matrix) -> Keys:
    """A 64-bit number for each row, the same for rows that agree to 9 digits; others share one with chance 2^-64."""
    words = np.ascontiguousarray(np.round(X, 9) + 0.0).view(np.uint64)
    key = np.full(len(X), 0x9E3779B97F4A7C15, dtype=np.uint64)
    for column in words.T:
        key = (key ^ column) * np.uint64(0xBF58476D1CE4E5B9)
        key ^= key >> np.uint64(29)
        key *= np.uint64(0x94D049BB133111EB)
        key ^= key >> np.uint64(32)
    return key


def _exact(restored: Matrix, count: Counter, case: Case) -> dict[str, Any]:
    """Released rows that are identical to a record, and to one that nobody else has.

    What stands for a set of values may happen to be somebody's value: a row with such a cell is no copy.
    """
    released = row_keys(restored)
    times = count(released)
    if case.generalised is not None:
        times = np.where(case.generalised, 0, times)
    hits = int(np.count_nonzero(times))
    found: dict[str, Any] = {
        "rows": len(released),
        "share": hits / len(released),
        "interval": list(proportion_interval(hits, len(released))),
        "of_unique": float(np.mean(times == 1)),
        "control": None,
    }
    if case.holdout is not None and len(case.holdout.X):
        strangers = row_keys(case.holdout.X)
        found["control"] = float(np.mean(count(strangers) > 0))
    return found


def _near(restored: Matrix, reference: Matrix, case: Case, rng: np.random.Generator) -> dict[str, Any] | None:
    """Distances of released rows to records, beside those of people who are no records; None with too few people."""
    scale = distance_scale(case.encoding)
    rows = restored[sampled(len(restored), MOST_ROWS, rng)] * scale
    reference = reference * scale
    strangers = None if case.holdout is None else case.holdout.X * scale
    if len(reference) < 3 or (strangers is not None and len(strangers) < 2):
        return None
    if strangers is not None:
        asked = strangers[sampled(len(strangers), MOST_ROWS, rng)]
        control = nearest(asked, reference, k=2)[0]
    else:
        chosen = sampled(len(reference), MOST_ROWS, rng)
        control = _without_self(*nearest(reference[chosen], reference, k=3), chosen)
    found = nearest(rows, reference, k=2)[0]
    limit = float(np.quantile(control[:, 0], NEAR))
    closer = int((found[:, 0] < limit).sum())
    told: dict[str, Any] = {
        "rows": len(rows),
        "reference": len(reference),
        "against": OTHERS if strangers is None else HOLDOUT,
        "dcr": {"release": _quantiles(found[:, 0]), "control": _quantiles(control[:, 0])},
        "nndr": {"release": _quantiles(_ratio(found)), "control": _quantiles(_ratio(control))},
        "share": closer / len(rows),
        "interval": list(proportion_interval(closer, len(rows))),
        "expected": float((control[:, 0] < limit).mean()),
        "nearer": None,
        "nearer_interval": None,
        "nearer_at_most": None,
    }
    if strangers is not None:
        told |= _nearer(rows, reference, strangers, rng)
        compared = min(len(reference), len(strangers))
        told["nearer_at_most"] = (1 + compared / case.people.total) / 2
    return told


def _nearer(rows: Matrix, reference: Matrix, strangers: Matrix, rng: np.random.Generator) -> dict[str, Any]:
    """Rows that lie nearer to a record than to one of as many strangers, ties counting half: 0.5 if nothing leaks."""
    size = min(len(reference), len(strangers))
    own, other = (nearest(rows, part[sampled(len(part), size, rng)])[0][:, 0] for part in (reference, strangers))
    hits = float((own < other).sum() + (own == other).sum() / 2)
    return {"nearer": hits / len(rows), "nearer_interval": list(proportion_interval(hits, len(rows)))}


def distance_scale(encoding: Encoding) -> Floats:
    """Units in which a number across its whole range and another category both lie 1 apart (one-hot rows: root 2)."""
    scale = np.ones(encoding.width)
    for group in encoding.groups:
        if group.is_onehot:
            scale[group.slice] = np.sqrt(0.5)
    return scale


def _without_self(distance: Floats, index: npt.NDArray[np.int64], own: npt.NDArray[np.int64]) -> Floats:
    """Two of the three nearest, without the row itself; it is missing only behind three twins, all at distance 0."""
    mine = index == own[:, None]
    place = np.where(mine.any(axis=1), mine.argmax(axis=1), 2)
    return np.asarray(distance[np.arange(3) != place[:, None]].reshape(-1, 2))


def _ratio(distance: Floats) -> Floats:
    """Closest over second closest; 1 where two records are equally near, even at distance 0: neither is singled out."""
    return np.divide(distance[:, 0], distance[:, 1], out=np.ones(len(distance)), where=distance[:, 1] > 0)


def _quantiles(values: Floats) -> dict[str, float]:
    low, middle = np.quantile(values, [0.05, 0.5])
    return {"p05": float(low), "median": float(middle)}
