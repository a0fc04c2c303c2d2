"""What a scored guess is, what it is scored against, and the guess of somebody who never saw the release."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.array_types import Flags, Matrix
from sfumato.metrics.privacy import TOLERANCE, Interval
from sfumato.table import Encoding, Group


@dataclass(frozen=True)
class Truth:
    """What the owner knows and the adversary does not. All rows are encoded source rows.

    rows: the person behind each release row (n x d), in the order of the release. control: people of the same
    population who are not in the table. targets, control_targets: whole records of the people that the attack was
    aimed at. members: of each candidate whether it is in the table. register: everybody in the table.
    tolerance: see `privacy.learned`. share: which part of the records counts as "the worst".
    """

    encoding: Encoding
    rows: Matrix
    control: Matrix | None = None
    targets: Matrix | None = None
    control_targets: Matrix | None = None
    members: Flags | None = None
    register: Matrix | None = None
    tolerance: float = TOLERANCE
    share: float = 0.01

    @property
    def population(self) -> Matrix:
        """Rows from which the baseline learns what is usual: people outside the table where there are any."""
        return self.rows if self.control is None or not len(self.control) else self.control


@dataclass(frozen=True)
class ScoredGuess:
    """Success of one attack, in [0, 1]; higher is worse for privacy in `score`, `worst` and each column's `score`.

    baseline: the same score for somebody who never saw the release. control: the same score on people who were not in
    the table (None where it has no meaning). interval: 95%, of `score`. worst: see the scorer. riskiest: positions of
    the records (release rows, or targets) at most risk, worst first: private. upper_bound: the best of several
    guesses was taken, for which the adversary would need the truth.
    """

    score: float
    baseline: float
    control: float | None
    interval: Interval
    worst: float
    riskiest: tuple[int, ...] = ()
    columns: tuple[dict[str, Any], ...] = ()
    details: dict[str, float] = field(default_factory=dict)
    upper_bound: bool = False


def usual_guess(population: Matrix, encoding: Encoding, tolerance: float = TOLERANCE) -> Matrix:
    """The one encoded row that is right about most people: the baseline's guess for everybody.

    A number: the middle of the window of half width `tolerance` that holds most people, which is never worse than the
    mean or the median. A category: the most frequent. A column that may be missing: "missing" where more are.
    """
    row = np.empty(encoding.width)
    for group in encoding.groups:
        row[group.start : group.stop] = _usual(population[:, group.start : group.stop], group, tolerance)
    return row


def _usual(slots: Matrix, group: Group, tolerance: float) -> Matrix:
    if group.is_onehot:
        counts = np.bincount(slots.argmax(axis=1), minlength=slots.shape[1])
        return np.asarray(np.eye(slots.shape[1])[counts.argmax()])
    there = slots[:, 1] < 0.5 if group.has_indicator else np.ones(len(slots), dtype=bool)
    values = np.sort(slots[there, 0])
    if not len(values):
        return np.array([0.5, 1.0]) if group.has_indicator else np.array([0.5])
    inside = np.searchsorted(values, values + 2 * tolerance, "right") - np.arange(len(values))
    first = int(inside.argmax())
    window = values[first : first + int(inside[first])]
    best = np.array([(window[0] + window[-1]) / 2])
    if not group.has_indicator:
        return best
    missing = len(slots) - len(values)
    return np.array([0.5, 1.0]) if missing > inside[first] else np.append(best, 0.0)
