"""What a scored guess is, what it is scored against, and the guess of somebody who never saw the release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from sfumato.attacks.base import Knowledge
from sfumato.attacks.known_rows import KnownRows
from sfumato.attacks.like_people import FEWEST, label_likelihood
from sfumato.attacks.metrics.privacy import Interval, breaches, proportion_interval, same_rows
from sfumato.attacks.window import TOLERANCE, half_width
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.table import Encoding, Group
from sfumato.table.neighbours.nearest import nearest

# What released rows tell of the rows they were drawn from.


class Hits(NamedTuple):
    """Source-hit rate and its interval."""

    rate: float
    interval: Interval


def source_hit_rate(released: Matrix, originals: Matrix, source: Codes) -> Hits:
    """Share of released rows whose nearest original row is the one they were drawn from; lower is safer.

    Distances are Euclidean over all columns as they are given; an identical twin of the source counts as the source.
    """
    _, index = nearest(np.ascontiguousarray(released), np.ascontiguousarray(originals), k=1)
    right = same_rows(originals[index[:, 0]], originals[source])
    return Hits(float(right.mean()), proportion_interval(float(right.sum()), len(right)))


class HardInterval(NamedTuple):
    """Where a source row lies for certain (people x columns), and how many released rows say so."""

    low: Matrix
    high: Matrix
    draws: Codes

    @property
    def widths(self) -> Matrix:
        """Width of every interval; NaN for people who were never drawn."""
        return self.high - self.low


def hard_interval(released: Matrix, source: Codes, people: int, widths: Matrix) -> HardInterval:
    """The box in which each person's row lies *with certainty*, by a kernel of half-widths h; wider is safer.

    One draw z leaves [z - h, z + h]; draws that are known to come from the same person leave the intersection,
    [max z - h, min z + h], which shrinks with their number. `widths` is h per column, or per released row and column.
    People of whom no row was drawn have NaN: nothing is known for certain of them.
    """
    low, high = np.full((people, released.shape[1]), -np.inf), np.full((people, released.shape[1]), np.inf)
    np.maximum.at(low, source, released - widths)
    np.minimum.at(high, source, released + widths)
    draws = np.bincount(source, minlength=people)
    low[draws == 0], high[draws == 0] = np.nan, np.nan
    return HardInterval(low, high, draws.astype(np.int64))


@dataclass(frozen=True)
class Truth:
    """What the owner knows and the adversary does not. All rows are encoded source rows.

    rows: the person behind each release row (n x d), in the order of the release; no number (NaN) where the row is
    nobody's, and guesses about such rows are not scored. control: people of the same
    population who are not in the table. targets, control_targets: whole records of the people that the attack was
    aimed at. members: of each candidate whether it is in the table. register: everybody in the table.
    lineup: of every line-up the place of the person behind the row. labels, target_labels, register_labels,
    control_labels, candidate_labels: classes of these people, where the release has a label; a label is true with
    probability `label_keep`. tolerance: see `privacy.learned`. share: which part of the records counts as "the worst".
    """

    encoding: Encoding
    rows: Matrix
    control: Matrix | None = None
    targets: Matrix | None = None
    control_targets: Matrix | None = None
    members: Flags | None = None
    register: Matrix | None = None
    lineup: Codes | None = None
    labels: Codes | None = None
    target_labels: Codes | None = None
    register_labels: Codes | None = None
    control_labels: Codes | None = None
    candidate_labels: Codes | None = None
    label_keep: float = 1.0
    tolerance: float = TOLERANCE
    share: float = 0.01

    @property
    def population(self) -> Matrix:
        """Rows from which the baseline learns what is usual: people outside the table where there are any."""
        return self.rows[self._somebodys] if self.control is None or not len(self.control) else self.control

    @property
    def population_labels(self) -> Codes | None:
        """Their classes."""
        if self.control is None or not len(self.control):
            # Where rows are made up, released classes are not those of the people, nor as many.
            return None if self.labels is None or len(self.labels) != len(self.rows) else self.labels[self._somebodys]
        return self.control_labels

    @property
    def _somebodys(self) -> Flags:
        return np.asarray(~np.isnan(self.rows).any(axis=1))


@dataclass(frozen=True)
class ScoredGuess:
    """Success of one attack, in [0, 1]; higher is worse for privacy in `score`, `worst` and each column's `score`.

    baseline: the same score for somebody who never saw the release. control: the same score on people who were not in
    the table (None where it has no meaning). interval: 95%, of `score`. worst: see the scorer. riskiest: positions of
    the records (release rows, or targets) of whom the release adds most, worst first: private. upper_bound: the best
    of several guesses was taken, for which the adversary would need the truth. chosen: by which of several means, and
    on whom that was decided, in words.
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
    chosen: str = ""


def unseen_guess(truth: Truth, labels: Codes | None, rows: int) -> Matrix:
    """The baseline's guess (rows x d): the usual one among people of the class that the label tells.

    Everything but the release is known, and the label stands beside it. Without labels all rows have the same guess.
    """
    if labels is None or truth.population_labels is None:
        usual = usual_guess(truth.population, truth.encoding, truth.tolerance)
        return np.broadcast_to(usual, (rows, len(usual)))
    found = np.empty((rows, truth.encoding.width))
    for code in np.unique(labels).tolist():
        weights = likely_members(truth, code)
        people = truth.population[weights > 0]
        found[labels == code] = usual_guess(people, truth.encoding, truth.tolerance, weights[weights > 0])
    return found


def likely_members(truth: Truth, code: int) -> Matrix:
    """How likely each person of the population is to have this label beside them; all the same where hardly any is."""
    assert truth.population_labels is not None
    classes = max(len(truth.encoding.classes), int(truth.population_labels.max(initial=0)) + 1, 2)
    weights = np.exp(label_likelihood(truth.population_labels == code, truth.label_keep, classes))
    return np.ones(len(weights)) if np.count_nonzero(weights) < FEWEST else weights


def usual_guess(
    population: Matrix, encoding: Encoding, tolerance: float = TOLERANCE, weights: Matrix | None = None
) -> Matrix:
    """The one encoded row that is right about most people: the baseline's guess for everybody.

    A number: the middle of the window of half width `tolerance` that holds most people, which is never worse than the
    mean or the median. A category: the most frequent. A column that may be missing: "missing" where more are.
    """
    row = np.empty(encoding.width)
    counted = np.ones(len(population)) if weights is None else weights
    for group in encoding.groups:
        row[group.slice] = _usual(population[:, group.slice], group, half_width(group, tolerance), counted)
    return row


def _usual(slots: Matrix, group: Group, half: float, weights: Matrix) -> Matrix:
    if group.is_onehot:
        counts = np.bincount(slots.argmax(axis=1), weights=weights, minlength=slots.shape[1])
        return np.asarray(np.eye(slots.shape[1])[counts.argmax()])
    there = slots[:, 1] < 0.5 if group.has_indicator else np.ones(len(slots), dtype=bool)
    order = np.argsort(slots[there, 0], kind="stable")
    values = slots[there, 0][order]
    if not len(values):
        return np.array([0.5, 1.0]) if group.has_indicator else np.array([0.5])
    up_to = np.concatenate([[0.0], np.cumsum(weights[there][order])])
    last = np.searchsorted(values, values + 2 * half, "right")
    inside = up_to[last] - up_to[:-1]
    first = int(inside.argmax())
    best = np.array([(values[first] + values[last[first] - 1]) / 2])
    if not group.has_indicator:
        return best
    missing = float(weights[~there].sum())
    return np.array([0.5, 1.0]) if missing > inside[first] else np.append(best, 0.0)


# How fast a hidden map falls: recovery against the number of known rows.


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
