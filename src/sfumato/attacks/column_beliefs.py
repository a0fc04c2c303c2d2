"""Whom an adversary can think of behind a released row, and what is then believed of every column.

Exact for smoothed people, where a release keeps the source's columns.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import ndtr, ndtri

from sfumato.attacks.base import Knowledge, KnownNoise, promised
from sfumato.attacks.support import HERE, Support, best_window, half_step, half_width
from sfumato.channels import Channel, Exact, Line, NotApplicableError, draw
from sfumato.channels.maps import carried_groups
from sfumato.core.array_types import Codes, Flags, Matrix
from sfumato.table import Encoding, Group
from sfumato.table.neighbours.arrays import Arrays
from sfumato.table.statistics import NO_CLASS

# Bayes' rule over people whose values are smoothed, quickly: everything is a sum over places in a column.
#
# A person's weight is the product over columns of c_k(place of the person in column k), with c_k = f_k S_k' what the
# channel says of the column's values, smoothed. So the log-weights of all people are one sparse product. And since all
# people at one place of column k share c_k, what is believed of column k given a row is
# f_k(x) sum_b S_k(b, x) (weight of the people at b) / c_k(b): one more sparse product gives the weights at all places.
CELLS = 4_000_000
"""Cells of a block: release rows times people."""


@dataclass(frozen=True)
class Placed:
    """People as places in the supports of all columns, side by side: a matrix of ones, people x places.

    Sparse and in single precision on the processor; on a device (`arrays`) dense and in double precision.
    """

    ones: Any
    back: Any
    ends: list[int]
    log_prior: Any
    arrays: Arrays = HERE

    @classmethod
    def of(cls, places: Sequence[Codes], sizes: Sequence[int], log_prior: Matrix) -> Placed:
        people, columns = len(places[0]), len(places)
        ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        index = (np.column_stack(places) + ends[:-1]).ravel()
        shape = (people, int(ends[-1]))
        ones = sparse.csr_matrix((np.ones(len(index), np.float32), index, np.arange(people + 1) * columns), shape=shape)
        return cls(ones, ones.T.tocsr(), ends.tolist(), (log_prior - log_prior.max()).astype(np.float32))

    def on(self, device: Arrays) -> Placed:
        """The same there."""
        ones = device.put(np.asarray(self.ones.toarray(), dtype=np.float64))
        return Placed(ones, ones.T, self.ends, device.put(self.log_prior.astype(np.float64)), device)

    @property
    def people(self) -> int:
        return int(self.ones.shape[0])

    def weights(self, smoothed: Sequence[Any], without: Codes | None = None) -> Any:
        """Posterior weights (people x rows); `smoothed` are the c_k, `without` whom to leave out for each row."""
        xp = self.arrays.namespace
        with np.errstate(divide="ignore"):
            told = xp.log(self.arrays.joined(list(smoothed)).T)
        log = self.ones @ (np.ascontiguousarray(told) if self.arrays is HERE else told)
        log += self.log_prior[:, None]
        if without is not None:
            log[without, np.arange(len(without))] = -np.inf
        log -= xp.amax(log, axis=0)
        xp.exp(log, out=log)
        log /= log.sum(axis=0)
        return log

    def at_places(self, weights: Any) -> list[Any]:
        """Per column the weight of the people at each of its places (rows x places)."""
        found = self.back @ weights
        return [found[start:stop].T for start, stop in pairwise(self.ends)]

    def believed(self, told: Sequence[Any], smoothing: Sequence[Any], without: Codes | None = None) -> list[Any]:
        """What is believed of every column (rows x places), rows summing to 1: see above; `told` are the f_k."""
        smoothed, found = self.smoothed(told, smoothing), []
        weights = self.at_places(self.weights(smoothed, without))
        for one, smooth, S, here in zip(told, smoothed, smoothing, weights, strict=True):
            belief = one * ((here / smooth) @ S)
            total = belief.sum(axis=1)[:, None]
            found.append(belief / self.arrays.namespace.where(total > 0, total, 1.0))
        return found

    def smoothed(self, told: Sequence[Any], smoothing: Sequence[Any]) -> list[Any]:
        """The c_k."""
        there = [S.T.astype(np.float32) if self.arrays is HERE else S.T for S in smoothing]
        return [one @ S for one, S in zip(told, there, strict=True)]


FEWEST = 10
"""With fewer people of a class in the sample, everybody stands for them."""


class Likely(NamedTuple):
    """Release rows of one released class, and the people who may be behind them with the log of their prior weight."""

    code: int
    rows: Codes
    X: Matrix
    log_prior: Matrix


def likely_people(known: Knowledge, most: int) -> Iterator[Likely]:
    """Class by class as released, no more than `most` people each; reads `labels`, `sample` and `sample_labels`.

    An exact label leaves people of its class; one told by randomized response weighs everybody by its likelihood.
    """
    sample = promised(known.sample)
    for code, rows, told in released_classes(known, known.sample_labels, len(sample)):
        possible = np.flatnonzero(np.isfinite(told))
        if len(possible) < FEWEST:
            possible, told = np.arange(len(told)), np.zeros(len(told))
        if len(possible) > most:
            possible = possible[np.linspace(0, len(possible) - 1, most).round().astype(int)]
        yield Likely(code, rows, np.asarray(sample[possible], dtype=np.float64), told[possible])


def released_classes(known: Knowledge, labels: Codes | None, people: int) -> Iterator[tuple[int, Codes, Matrix]]:
    """Each released class, its rows, and the log of how much the label speaks for each person; 0 without `labels`."""
    if known.labels is None:
        yield NO_CLASS, np.arange(len(known.release)), np.zeros(people)
        return
    for code in np.unique(known.labels).tolist():
        told = np.zeros(people)
        if labels is not None:
            told = label_likelihood(labels == code, known.label_keep, max(len(known.encoding.classes), 2))
        yield code, np.flatnonzero(known.labels == code), told


def made_up(
    X: Matrix, groups: Sequence[Group], share: float, wanted: int, rng: np.random.Generator
) -> tuple[Matrix, Codes]:
    """About `wanted` people drawn from the people X, smoothed, and after whom each was made.

    Each keeps the categories and gaps of one of them. Its numbers, as normal scores in their columns, are those that
    are usual beside the categories, plus sqrt(1 - share^2) of what was this person's own, plus `share` of normal noise
    with the covariance of what is people's own. So at every share columns are spread as they are among the people, and
    stay correlated; at 1 they depend on each other as normal scores do.
    """
    numbers = [group for group in groups if not group.is_onehot]
    copies = -(-wanted // len(X)) if numbers else 1
    after = np.repeat(np.arange(len(X)), copies)
    found = np.array(X[after])
    if not numbers or len(X) < 2:
        return found, after
    starts = [group.start for group in numbers]
    gaps = np.column_stack([X[:, group.stop - 1] > (0.5 if group.has_indicator else np.inf) for group in numbers])
    columns = [np.sort(X[~gap, start]) for gap, start in zip(gaps.T, starts, strict=True)]
    scores = np.column_stack([_scores(X[:, start], column) for start, column in zip(starts, columns, strict=True)])
    beside = np.column_stack([np.ones(len(X)), np.delete(X, starts, axis=1)])
    usual = beside @ np.linalg.solve(beside.T @ beside + np.eye(beside.shape[1]), beside.T @ scores)
    own = np.where(gaps, 0.0, scores - usual)
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(own, rowvar=False)))
    noise = (rng.standard_normal((len(after), len(starts))) * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    moved = usual[after] + math.sqrt(1.0 - share**2) * own[after] + share * noise
    for number, (group, column) in enumerate(zip(numbers, columns, strict=True)):
        there = ~gaps[after, number]
        found[there, group.start] = _values(moved[there, number], column, group)
    return found, after


def _scores(x: Matrix, column: Matrix) -> Matrix:
    """Normal scores of values, by their ranks in a sorted column; equal values share a rank."""
    if not len(column):
        return np.zeros(len(x))
    rank = (np.searchsorted(column, x, "left") + np.searchsorted(column, x, "right")) / 2.0
    return np.asarray(ndtri(np.clip(rank, 0.5, len(column) - 0.5) / len(column)))


def _values(scores: Matrix, column: Matrix, group: Group) -> Matrix:
    """The inverse, on the column's own steps where it has steps."""
    found = np.interp(ndtr(scores) * len(column) - 0.5, np.arange(len(column)), column)
    step = 2.0 * half_step(group)
    return np.asarray(np.rint(found / step) * step if step else found)


def label_likelihood(same: Matrix, keep: float, classes: int) -> Matrix:
    """log P(released label | class of each person), by whether they are the same."""
    other = math.log((1.0 - keep) / (classes - 1)) if keep < 1.0 else -math.inf
    return np.where(same, math.log(keep), other)


NEARLY = 2e-5
"""How far a probability may be off in single precision, after sums over columns and people."""
LEAST = 1e-6
"""No belief is held to be smaller, so that one person of whom it is does not decide."""


class Beliefs(ABC):
    """What is believed of rows of one released class, by people `X` who stand for the population."""

    noise: KnownNoise
    X: Matrix
    groups: Sequence[Group]
    supports: list[Support]
    placed: Placed
    smoothing: list[Matrix]
    seen: list[tuple[slice, Channel, Line | None]]
    """Which columns of the release tell of each support, and their channel."""
    device: Arrays | None = None
    """Where beliefs are computed, if not by the processor."""

    @abstractmethod
    def smooth(self, share: float) -> None:
        """Let people stand for others like them: a share of the spread of all."""

    def told(self, Z: Matrix) -> list[Any]:
        """What the channels say of every column's values, given these rows."""
        parts = zip(self.supports, self.seen, strict=True)
        found = [one.likelihood(channel, Z[:, place], line, self.device) for one, (place, channel, line) in parts]
        return found if self.device else [one.astype(np.float32) for one in found]

    def simulated(self, own: Codes, rng: np.random.Generator) -> Matrix:
        """These people of the list, released as the channels would."""
        return draw(self.noise.channels, np.array(self.X[own]), rng)

    def _beliefs(self, Z: Matrix, without: Codes | None = None) -> list[Any]:
        """Per column rows x values; `without`: of each row the person who is left out."""
        return self.placed.believed(self.told(Z), self.smoothing, without)

    def _places(self, X: Matrix) -> list[Codes]:
        return [one.places(X[:, group.slice]) for one, group in zip(self.supports, self.groups, strict=True)]

    def fit(self, Z: Matrix, own: Codes) -> float:
        """How much is believed of the truth behind simulated rows, in logarithms, by a list without these people."""
        pairs = zip(self._beliefs(Z, own), self._places(self.X[own]), strict=True)
        return float(np.log(np.maximum([belief[np.arange(len(Z)), at] for belief, at in pairs], LEAST)).sum())

    def guess(self, Z: Matrix, tolerance: float, out: Matrix, mean: Matrix, sure: Matrix) -> Flags:
        """Fill `out` with the best guesses, `mean` with posterior means, `sure` with how sure each guess is.

        Returns which rows are settled: on the processor all of them.
        """
        settled, arrays = np.ones(len(Z), dtype=bool), self.device or HERE
        parts = zip(self._beliefs(Z), self.supports, self.groups, strict=True)
        for number, (belief, support, group) in enumerate(parts):
            where = group.slice
            found, chance, clear = best_guess(belief, support, group, tolerance, self.device)
            out[:, where], sure[:, number] = arrays.get(found), arrays.get(chance)
            mean[:, where] = arrays.get(belief @ arrays.put(support.values))
            if self.copied(number):
                out[:, where], mean[:, where] = Z[:, where], Z[:, where]
            elif clear is not None:
                settled &= arrays.get(clear)
        return settled

    def copied(self, number: int) -> bool:  # noqa: ARG002 (a subclass looks at it)
        """Whether a column was released as it is, so that there is nothing to guess."""
        return False


class ColumnBeliefs(Beliefs):
    """People of one class, smoothed by `smooth` of each column's spread among them, behind known channels."""

    def __init__(self, noise: KnownNoise, encoding: Encoding, people: Likely, cells: int) -> None:
        self.noise, self.X = noise, people.X
        self.groups, self.seen = encoding.groups, []
        for (channel, groups), line in zip(carried_groups(noise.channels, encoding), noise.lines, strict=True):
            if len(groups) == 1:
                self.seen.append((groups[0].slice, channel, line))
            elif channel.is_exact:
                self.seen += [(group.slice, Exact(group.width), None) for group in groups]
            else:
                raise NotApplicableError("some columns of the release were blurred together, not one by one")
        self.supports = [Support.of_group(group, cells) for group in self.groups]
        self.spreads = [float(people.X[:, group.start].std()) for group in self.groups]
        self.placed = Placed.of(self._places(people.X), [len(one.values) for one in self.supports], people.log_prior)

    def smooth(self, share: float) -> None:
        pairs = zip(self.supports, self.spreads, strict=True)
        self.smoothing = [support.smoothing(share * spread, 0.5 * share) for support, spread in pairs]

    def copied(self, number: int) -> bool:
        return self.seen[number][1].is_exact

    def on(self, device: Arrays) -> ColumnBeliefs:
        """The same on a card or another array library, in double precision.

        The processor works in single precision, so that windows which hold nearly the same may change places. A row
        with such a close call in any column is not settled: the caller asks the processor about it.
        """
        there = copy.copy(self)
        there.device, there.placed = device, self.placed.on(device)
        there.smoothing = [device.put(S) for S in self.smoothing]
        return there


def best_guess(
    belief: Any, support: Support, group: Group, tolerance: float, device: Arrays | None = None
) -> tuple[Any, Any, Any]:
    """Per row of `belief` the encoded value that is right with the highest probability, and that probability.

    On a device also where it is no close call.
    """
    arrays, n, nearly = device or HERE, support.numbers, NEARLY if device else 0.0
    xp, clear = arrays.namespace, None
    if not n:
        most = xp.amax(belief, axis=1)
        if device:
            clear = (belief >= (most * (1.0 - NEARLY))[:, None]).sum(axis=1) == 1
        return arrays.put(support.values)[xp.argmax(belief, axis=1)], most, clear
    half = half_width(group, tolerance)
    middle, mass, clear = best_window(support.line, belief[:, :n], half, support.extent, arrays, nearly)
    if not group.has_indicator:
        return middle[:, None], mass, clear
    chance = belief[:, n]
    missing = chance > mass
    if device:
        clear = clear & (abs(chance - mass) > NEARLY * mass)
    pair = arrays.joined([xp.where(missing, 0.5, middle)[:, None], (missing * 1.0)[:, None]])
    return pair, xp.where(missing, chance, mass), clear


TINY = 1e-300


class JointBeliefs(ColumnBeliefs):
    """Rows are those of the first release with those of the second beside them: [Z1 | Z2].

    `translate` says how people's rows look to the second release, which may have other columns and bounds: an encoded
    row of the first becomes one of the second, where columns that the first lacks are anything. Without `first_tells`
    only the second release is listened to: what it says alone, about the same columns and with the same prior.
    """

    def __init__(
        self,
        noises: tuple[KnownNoise, KnownNoise],
        encodings: tuple[Encoding, Encoding],
        people: Likely,
        cells: int,
        translate: Callable[[Matrix], Matrix],
        first_tells: bool = True,
    ) -> None:
        first, second = encodings
        super().__init__(noises[0], first, people, cells)
        self.width, self.first_tells = first.width, first_tells
        self.other = ColumnBeliefs(noises[1], second, people._replace(X=translate(people.X)), cells)
        theirs = {group.column.name: number for number, group in enumerate(second.groups)}
        middle = np.concatenate([group.vertices.mean(axis=0) for group in first.groups])
        self.same: dict[int, tuple[int, Codes]] = {}
        for number, (group, support) in enumerate(zip(first.groups, self.supports, strict=True)):
            if (place := theirs.get(group.column.name)) is not None:
                rows = np.tile(middle, (len(support.values), 1))
                rows[:, group.slice] = support.values
                seen = translate(rows)[:, second.groups[place].slice]
                self.same[number] = place, self.other.supports[place].places(seen)

    def told(self, Z: Matrix) -> list[Any]:
        """What both channels say of every column's values."""
        found, others = super().told(Z[:, : self.width]), self.other.told(Z[:, self.width :])
        if not self.first_tells:
            found = [np.ones_like(one) for one in found]
        for number, (place, values) in self.same.items():
            found[number] = found[number] * others[place][:, values]
        return found

    def simulated(self, own: Codes, rng: np.random.Generator) -> Matrix:
        """These people of the list, released twice."""
        return np.hstack([super().simulated(own, rng), self.other.simulated(own, rng)])

    def copied(self, number: int) -> bool:
        """Only where the first release is listened to, whose column it is."""
        return self.first_tells and super().copied(number)

    def same_person(self, first: Matrix, second: Matrix) -> Matrix:
        """log of how much likelier each row of the first release (n) and each of the second (m) are of one person than
        of two: n x m. Columns are taken as independent, each with its spread among the people on the list."""
        mine, theirs = super().told(first), self.other.told(second)
        found = np.zeros((len(first), len(second)))
        for number, (place, values) in self.same.items():
            group, support = self.groups[number], self.supports[number]
            spread = np.bincount(support.places(self.X[:, group.slice]), minlength=len(support.values)) + 1.0
            spread /= spread.sum()
            one, two = mine[number].astype(np.float64), theirs[place][:, values].astype(np.float64)
            apart = np.outer(one @ spread, two @ spread)
            found += np.log(np.maximum((one * spread) @ two.T, TINY)) - np.log(np.maximum(apart, TINY))
        return found
