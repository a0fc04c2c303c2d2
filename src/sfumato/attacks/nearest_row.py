"""Linkage: which release row is this person's, and whose is this row? And what do the nearest rows tell of a person?"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from sfumato.attacks import likelihood
from sfumato.attacks.base import LINKABILITY, Abstain, Attack, Knowledge, Links, Picks, Secrets, Sources, promised
from sfumato.attacks.column_beliefs import released_classes
from sfumato.attacks.row_ratios import MOST_COMPARED, Ratios, has_law, visit_ratios
from sfumato.attacks.support import nearest_reported
from sfumato.core.accepted import Either, Listed, Nothing, Whole
from sfumato.core.array_types import Codes, Matrix
from sfumato.mechanisms.parameters import parameter
from sfumato.table import Group
from sfumato.table.neighbours.arrays import Arrays
from sfumato.table.neighbours.nearest import nearest_without
from sfumato.table.neighbours.tiles import slices
from sfumato.table.statistics import NO_CLASS

EXACT_WIDTH = 1e-4
"""What stands for the noise of an exact column, in encoded units: the right one is on the list, and fits."""


class _Latest:
    """The scores that were computed last, for as long as all that they rest on is there: two adversaries ask for the
    same ones. It keeps no row alive."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.of: list[Callable[[], object]] = []
        self.scores = np.empty((0, 0))

    def scored(self, known: Knowledge) -> Matrix:
        """Line-ups x people; reads `noise`, `labels`, `transform` and `guided`."""
        matrix = None if known.transform is None else known.transform.matrix
        rest = [known.release, promised(known.lineups).X, known.noise, known.labels, matrix, known.guided]
        with self.lock:
            if len(self.of) != len(rest) or any(one() is not now for one, now in zip(self.of, rest, strict=True)):
                self.scores = _computed(known)
                self.of = [(lambda: None) if one is None else weakref.ref(one) for one in rest]
            return self.scores


_LATEST = _Latest()


def _computed(known: Knowledge) -> Matrix:
    rows, X = promised(known.lineups)
    count, people, d = X.shape
    everybody = likelihood.Suspects.of(known, X.reshape(-1, d))
    found = np.empty((count, people))
    codes = np.full(count, NO_CLASS) if known.labels is None else known.labels[rows]
    for code in np.unique(codes).tolist():
        mine, noise = np.flatnonzero(codes == code), promised(known.noise).of_class(code)
        for block in slices(len(mine), 4):  # each row's with everybody's in a few line-ups, of which its own are kept
            few = mine[block]
            size = len(few) * people
            some = likelihood.Suspects(*(part.reshape(count, people, -1)[few].reshape(size, -1) for part in everybody))
            log = likelihood.log_likelihood(known, known.release[rows[few]], some, noise, EXACT_WIDTH)
            own = np.arange(len(few))
            found[few] = log.reshape(len(few), len(few), people)[own, own]
    return found


class LineUp(Attack):
    """Picks people out of line-ups by the exact likelihood of all channels; a child says of how many."""

    risk = LINKABILITY
    reads_gaps = True
    knows = frozenset({"release", "noise", "lineups"})
    helps = frozenset({"transform", "labels", "guided"})
    people: ClassVar[int | None] = None
    """How many stand in a line-up; None for all there are."""

    def guess(self, known: Knowledge) -> Picks:
        found = _LATEST.scored(known)
        return Picks(found, promised(known.lineups).rows, self.people or found.shape[1])


class TopMatch(LineUp):
    """The adversary holds the records of up to 100 people of one class, knows that a released row is one of theirs, and
    picks the likeliest by the exact likelihood of all channels.

    Success is the share of rows whose person is picked; ties count as a draw among them.
    """

    name = "top-match"


class Pair(LineUp):
    """The adversary holds the records of two people of one class, knows that a released row is one of theirs, and says
    whose by the exact likelihood of all channels.

    Success is the share of such pairs that it tells apart, over all others in the line-up; a coin gets .5. This figure
    means the same for every mechanism, whatever its noise, and grows to 1 where two people cannot be confused.
    """

    name = "pair"
    people = 2


CLASSES = frozenset({"labels", "target_labels", "sample", "sample_labels"})
"""What tells of whom, and by which law, each class is."""


class NearestRow(Attack):
    """The adversary holds original records of people in the table and looks for the release row that is likeliest to be
    each person's.

    Where the noise has a law, that is the row z with the largest f(z | x) / f(z): how well the person explains it, by
    the law of the row's class, over how well anybody does. The others whose records he holds, and a `sample`, stand for
    anybody. Else it is the row that lies nearest to the record. He carries the record into the release's space when he
    knows the transform, and counts a difference in a column for less the more noise that column has. `columns` names
    the positions (in the schema's private columns) of what he holds of the record; None: all of it. With only some
    columns of a release that mixes them, he turns the transform back and compares in the source space. The same attack
    on people who were not in the table says how near a stranger comes.
    """

    name = "nearest-row"
    risk = LINKABILITY
    reads_gaps = True
    knows = frozenset({"release", "targets"})
    helps = frozenset({"transform", "noise", "noise_covariance", "column_moments", "guided"}) | CLASSES
    columns: Sequence[int] | None = parameter(
        Either((Listed(Whole(0, 100_000), least=1), Nothing())),
        "Positions of the columns that are known; null for all.",
        default=None,
    )

    def guess(self, known: Knowledge) -> Links | Abstain:
        targets = promised(known.targets)
        whole = self.columns is None and not np.isnan(targets).any()
        if whole and has_law(known, len(targets), MOST_COMPARED):
            return _likeliest_rows(known, targets)
        if known.guided is not None:
            return Abstain("needs the whole record, and a release that is not too large for likelihoods")
        if whole:
            weights = likelihood.noise_weights(known)
            queries, rows = likelihood.embed(known, targets), known.release
        else:
            held = held_slots(known, self.columns)
            if not len(held):
                return Abstain("needs at least one column of the target's record")
            weights = comparable_weights(known)[held]
            queries, rows = targets[:, held], comparable_rows(known)[:, held]
        distance, index = nearest_reported(queries * weights, rows * weights)
        return Links(index[:, 0].astype(np.int64), distance[:, 0])


def _likeliest_rows(known: Knowledge, targets: Matrix) -> Links:
    """Per target the row with the largest f(z | x) / f(z), and minus the log of its share of all rows' ratios. A person
    who can be behind no row at all is given the first one, in more doubt than all others."""
    best, total = np.full(len(targets), -np.inf), np.full(len(targets), -np.inf)
    index = np.zeros(len(targets), dtype=np.int64)

    def visit(ratios: Ratios) -> None:
        (top, value), people, told = ratios.best(), ratios.people, ratios.sums()
        better = likelihood.below(value) > best[people]
        best[people[better]], index[people[better]] = value[better], ratios.rows[top[better]]
        total[people] = np.logaddexp(total[people], told)

    visit_ratios(known, targets, known.target_labels, visit)
    possible = np.isfinite(best)
    doubt = np.where(possible, total, 0.0) - np.where(possible, best, 0.0)
    doubt[~possible] = doubt.max(initial=0.0) + 1.0
    return Links(index, np.maximum(doubt, 0.0), by_likelihood=True)


def held_slots(known: Knowledge, columns: Sequence[int] | None) -> Codes:
    """Positions of the encoded columns of the targets that the adversary holds: named, and not blank."""
    groups, blank = known.encoding.groups, np.asarray(np.isnan(promised(known.targets)).any(axis=0))
    wanted = range(len(groups)) if columns is None else columns
    slots = [slot for number in wanted for slot in range(groups[number].start, groups[number].stop)]
    return np.array([slot for slot in slots if not blank[slot]], dtype=np.int64)


def comparable_rows(known: Knowledge) -> Matrix:
    """The release in the source space: as it stands, or with its transform turned back."""
    if not known.columnwise:
        return likelihood.reversed_release(known)
    slopes, offset = np.diag(likelihood.own_columns(known).matrix), likelihood.own_columns(known).offset
    return np.asarray((known.release - offset) / np.where(np.abs(slopes) > 1e-9, slopes, np.inf))


def comparable_weights(known: Knowledge) -> Matrix:
    """Weights of the source columns: by their noise where the release has these columns, else all the same."""
    if not known.columnwise:
        return np.ones(known.encoding.width)
    return np.asarray(likelihood.noise_weights(known) * np.abs(np.diag(likelihood.own_columns(known).matrix)))


class AttributeInference(Attack):
    """The adversary knows all about a person but one secret, and reads it off the release rows most like the person.

    He compares the columns he knows (in the source space, with the transform turned back where there is one), and takes
    the secret of the `neighbours` nearest release rows, weighted by 1/distance^2: the weighted median of a number, the
    weighted vote for a category. A row that fits exactly therefore decides alone. The same attack on people who were
    not in the table says how much of it is only what anybody can infer about such a person.
    """

    name = "attribute-inference"
    reads_gaps = True
    knows = frozenset({"release", "targets", "secret"})
    helps = frozenset({"transform", "noise", "noise_covariance", "column_moments"})
    neighbours: int = parameter(Whole(1, 1_000), "Released rows that are asked.", default=5)

    def guess(self, known: Knowledge) -> Secrets | Abstain:
        secret, targets = promised(known.secret), promised(known.targets)
        held = held_slots(known, [number for number in range(len(known.encoding.groups)) if number != secret])
        if not len(held):
            return Abstain("needs at least one column besides the secret")
        group = known.encoding.groups[secret]
        R = comparable_rows(known)
        R = R[~np.isnan(R[:, group.start])]
        if not len(R):
            return Abstain("no row of the release reports the secret column")
        weights = comparable_weights(known)[held]
        k = min(self.neighbours, len(R))
        distance, index = nearest_reported(targets[:, held] * weights, R[:, held] * weights, k)
        return _told(distance, R[:, group.slice][index], group, secret)

    def at_once(self, everything: Knowledge) -> Sequence[Secrets] | None:
        """What `run` says of every column as the secret, by one search for all; None where it takes one for each."""
        known, groups = everything.limited(self.knows, self.helps), everything.encoding.groups
        if known.targets is None or len(groups) < 2 or not (known.columnwise or known.transform):
            return None
        R = comparable_rows(known)
        if not len(R) or np.isnan(R).any() or np.isnan(known.targets).any():
            return None
        weights, k = comparable_weights(known), min(self.neighbours, len(R))
        found = nearest_without(known.targets * weights, R * weights, [group.slice for group in groups], k)
        pairs = enumerate(zip(groups, found, strict=True))
        return [
            _told(distance, R[:, group.slice][index], group, secret) for secret, (group, (distance, index)) in pairs
        ]


def _told(distance: Matrix, seen: Matrix, group: Group, secret: int) -> Secrets:
    """The secret of every target, as its nearest rows (targets x neighbours x width) say."""
    votes, seen = 1.0 / (distance**2 + 1e-12), likelihood.into_domain(seen)
    mean = np.einsum("tk,tkw->tw", votes, seen) / votes.sum(axis=1, keepdims=True)
    if not group.is_onehot:
        mean[:, 0] = weighted_median(seen[:, :, 0], votes)
    return Secrets(mean, secret)


def weighted_median(values: Matrix, weights: Matrix) -> Matrix:
    """Per row the smallest value at which half of the row's weight is reached."""
    order = np.argsort(values, axis=1)
    heavy = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    middle = (heavy >= 0.5 * heavy[:, -1:]).argmax(axis=1)
    return np.asarray(np.take_along_axis(values, np.take_along_axis(order, middle[:, None], axis=1), axis=1)[:, 0])


MOST_PAIRS_WITH_GAPS = 20_000_000_000
"""Rows times people up to which distances are measured where cells are left out: minutes of a processor."""


class NearestSource(Attack):
    """The adversary holds a register of everybody in the table and asks whose row each released row was.

    Where the law of the channels is known, he takes the likeliest person of the released class by that class's own law.
    Else, and where no one is possible, he takes the person whose record lies nearest, counting a column for less the
    more noise it has. Where rows are drawn (kernel resampling) this is the source-hit rate: positions in the release
    say nothing, and the record still reveals the source. People who were never drawn are in the register too.
    """

    name = "nearest-source"
    risk = LINKABILITY
    reads_gaps = True
    knows = frozenset({"release", "register"})
    helps = frozenset({"transform", "noise", "noise_covariance", "labels", "register_labels", "guided"})

    def guess(self, known: Knowledge) -> Sources | Abstain:
        register = promised(known.register)
        lawful = has_law(known, len(register))
        if known.guided is not None and not lawful:
            return Abstain("the release has no distances, and is too large for likelihoods")
        gaps = bool(np.isnan(known.release).any())
        if gaps and not lawful and len(known.release) * len(register) > MOST_PAIRS_WITH_GAPS:
            return Abstain("rows leave cells out and are too many to compare with everybody: audit fewer (--max-rows)")
        index, doubt = np.empty(len(known.release), dtype=np.int64), np.empty(len(known.release))
        for code, rows, told in released_classes(known, known.register_labels, len(register)):
            people = np.flatnonzero(np.isfinite(told))
            people, told = (people, told[people]) if len(people) else (np.arange(len(told)), np.zeros(len(told)))
            if lawful:
                index[rows], doubt[rows] = _likeliest(known, code, rows, people, told)
            else:
                index[rows], doubt[rows] = _nearest(known, rows, people)
        return Sources(index, doubt)


def _nearest(known: Knowledge, rows: Codes, people: Codes) -> tuple[Codes, Matrix]:
    weights = likelihood.noise_weights(known)
    placed = likelihood.embed(known, promised(known.register)[people]) * weights
    distance, index = nearest_reported(known.release[rows] * weights, placed)
    return people[index[:, 0]], distance[:, 0]


def _likeliest(known: Knowledge, code: int, rows: Codes, people: Codes, told: Matrix) -> tuple[Codes, Matrix]:
    """Whom each row is taken for, the first of equals, and how doubtful: minus the log of the share."""
    place, doubt = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))

    def visit(block: slice, log: Any, arrays: Arrays) -> None:
        first, top = likelihood.first_of_largest(arrays, log, axis=1)
        share = arrays.namespace.log(arrays.namespace.exp(log - top[:, None]).sum(axis=1))
        place[block], doubt[block] = arrays.get(first), arrays.get(share)

    suspects = likelihood.Suspects.of(known, promised(known.register)[people])
    noise = promised(known.noise).of_class(code)
    with np.errstate(invalid="ignore"):
        likelihood.visit_likelihoods(known, rows, suspects, noise, told, visit)
    found, none_fit = people[place], ~np.isfinite(doubt)
    if none_fit.any():
        doubt[none_fit] = float(doubt[~none_fit].max(initial=0.0)) + 1.0
        if known.guided is None:
            found[none_fit], distance = _nearest(known, rows[none_fit], people)
            doubt[none_fit] += distance
    return found, doubt
