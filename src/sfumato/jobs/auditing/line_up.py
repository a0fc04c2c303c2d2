"""Line-ups: for some released rows the person behind each, among others of the same class."""

from __future__ import annotations

import numpy as np

from sfumato.array_types import Codes
from sfumato.attacks import Lineups
from sfumato.jobs.auditing.evidence import Evidence, sampled

MOST_ROWS, MOST_PEOPLE = 300, 100
"""Line-ups, and people in each."""


def line_up(evidence: Evidence, rng: np.random.Generator) -> tuple[Lineups, Codes] | None:
    """Line-ups and in each the place of the right one; None where nobody can tell whose a row is.

    The others are strangers of the holdout, or of the table where there are too few: people whom the released label,
    which is public, does not tell apart from the right one.
    """
    if evidence.behind is None:
        return None
    somebodys = np.flatnonzero(~evidence.nobodys)
    rows = somebodys[sampled(len(somebodys), MOST_ROWS, rng)]
    pools = _pools(evidence, evidence.people.y is not None)
    size = min(MOST_PEOPLE, *(len(pool) + 1 for pool in pools.values()))
    if size < 2:
        return None
    X = np.empty((len(rows), size, evidence.encoding.width))
    places = rng.integers(size, size=len(rows))
    for number, row in enumerate(rows):
        own = evidence.behind[row]
        pool = pools[_class(evidence, own)]
        pool = pool[(pool != evidence.people.X[own]).any(axis=1)]  # a twin is no other
        if len(pool) < 1:
            return None
        others = np.setdiff1d(np.arange(size), places[number])
        X[number, others] = pool[rng.choice(len(pool), size=size - 1, replace=len(pool) < size - 1)]
        X[number, places[number]] = evidence.people.X[own]
    return Lineups(rows, X), places.astype(np.int64)


def _class(evidence: Evidence, person: int) -> int:
    return 0 if evidence.people.y is None else int(evidence.people.y[person])


def _pools(evidence: Evidence, labelled: bool) -> dict[int, np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    """Others by class."""
    people, holdout = evidence.people, evidence.holdout
    codes = np.unique(people.y).tolist() if labelled and people.y is not None else [0]
    found = {}
    for code in codes:
        outside = None
        if holdout is not None and (not labelled or holdout.y is not None):
            outside = holdout.X if not labelled else holdout.X[holdout.y == code]
        if outside is None or len(outside) < min(MOST_PEOPLE - 1, 20):
            outside = people.X if people.y is None or not labelled else people.X[people.y == code]
        found[code] = outside
    return found
