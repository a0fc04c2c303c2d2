"""Whom an adversary can think of behind a released row: people of the released class, and made-up people like them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import ndtr, ndtri

from sfumato.attacks.base import Knowledge, there
from sfumato.attacks.support import HERE, half_step
from sfumato.core.array_types import Codes, Matrix
from sfumato.table import Group
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
        xp, found = self.arrays.namespace, []
        smoothed = self.smoothed(told, smoothing)
        weights = self.at_places(self.weights(smoothed, without))
        for one, smooth, S, here in zip(told, smoothed, smoothing, weights, strict=True):
            belief = one * ((here / smooth) @ S)
            total = belief.sum(axis=1)[:, None]
            found.append(belief / xp.where(total > 0, total, 1.0))
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
    sample = there(known.sample)
    for code, rows, told in released_classes(known, known.sample_labels, len(sample)):
        possible = np.flatnonzero(np.isfinite(told))
        if len(possible) < FEWEST:
            possible, told = np.arange(len(told)), np.zeros(len(told))
        if len(possible) > most:
            possible = possible[np.linspace(0, len(possible) - 1, most).round().astype(int)]
        yield Likely(code, rows, np.asarray(sample[possible], dtype=np.float64), told[possible])


def released_classes(known: Knowledge, labels: Codes | None, people: int) -> Iterator[tuple[int, Codes, Matrix]]:
    """Each released class, its rows, and by how much the label speaks for each of so many people, as a logarithm; 0 for
    all where their `labels` are not known."""
    if known.labels is None:
        yield NO_CLASS, np.arange(len(known.release)), np.zeros(people)
        return
    for code in np.unique(known.labels).tolist():
        told = np.zeros(people)
        if labels is not None:
            told = label_likelihood(labels == code, known.label_keep, max(len(known.encoding.classes), 2))
        yield code, np.flatnonzero(known.labels == code), told


class Alike(NamedTuple):
    """Made-up people `X`, and after whom each was made."""

    X: Matrix
    after: Codes


def made_up(X: Matrix, groups: Sequence[Group], share: float, wanted: int, rng: np.random.Generator) -> Alike:
    """About `wanted` people drawn from the people X, smoothed.

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
        return Alike(found, after)
    starts = [group.start for group in numbers]
    never = np.zeros(len(X), dtype=bool)
    gaps = np.column_stack([X[:, group.stop - 1] > 0.5 if group.has_indicator else never for group in numbers])
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
    return Alike(found, after)


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
