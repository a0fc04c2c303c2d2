"""Two columns together: how pairs of values were spread behind the noise of both [density-reconstruction, 3.3].

Columns of a release are perturbed independently, so a pair (x, y) becomes (z, w) with probability A(z | x) B(w | y),
and the probabilities M of pairs lead to A M B'. The paper takes the columns as independent, M = p q'. That is where the
iteration begins here: Bayes' rule over and over then moves it towards what the pairs tell,

    M <- M * A' (C / (A M B')) B / N        C = counts of released pairs, N of them

and it stops after the number of rounds that would have served best had a pilot been the truth, as for one column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from sfumato.core.array_types import Codes, Floats
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.reconstruction.counting import cells_of, z_range
from sfumato.reconstruction.density import Density
from sfumato.reconstruction.described import Described
from sfumato.reconstruction.evidence import FEWEST
from sfumato.reconstruction.expectation_maximization import successive
from sfumato.reconstruction.joint_density import Axis, JointDensity
from sfumato.reconstruction.kernel import Cells, cell_probabilities
from sfumato.reconstruction.shares import Shares

POINTS = 4
"""Cells of a released value for every cell of a true one."""
_TRIALS, _PATIENCE, _LONGEST = 4, 3, 600


@dataclass(frozen=True)
class Side:
    """One column of one release: how its states are counted, and P(released state | true state)."""

    one: Described
    edges: Floats
    spread: Floats

    @classmethod
    def of(cls, one: Described, axis: Axis) -> Side:
        if one.missing_keep is not None or one.left_out:
            raise CardError(
                f"Column {one.name!r} may be missing or left out: a pair with it is not there for everybody."
            )
        if one.is_categorical:
            k = len(one.categories)
            other = (1.0 - one.keep) / max(1, k - 1)
            return cls(one, np.zeros(0), np.full((k, k), other) + (one.keep - other) * np.eye(k))
        cells = Cells(axis.edges, axis.atoms)
        if one.noise is None:
            return cls(one, axis.edges, np.vstack([np.zeros(cells.count), np.eye(cells.count), np.zeros(cells.count)]))
        edges = np.linspace(*z_range(one, one.low, one.high), POINTS * cells.count + 1)
        return cls(one, edges, cell_probabilities(one.noise, edges, cells))

    def codes(self, values: Any) -> Codes:
        """The state of every released value; refused where a cell is empty or no such category."""
        if self.one.is_categorical:
            place = {category: number for number, category in enumerate(self.one.categories)}
            found = [place.get("(missing)" if value is None else str(value), -1) for value in values]
            if min(found, default=0) < 0:
                raise TableError(f"Column {self.one.name!r} holds categories that the card does not name.")
            return np.array(found, dtype=np.int64)
        numbers = np.asarray(values, dtype=np.float64)
        if np.isnan(numbers).any():
            raise TableError(f"Column {self.one.name!r} of the release has empty cells: it was changed or damaged.")
        codes = np.searchsorted(self.edges, numbers, side="right")
        return np.asarray(np.where(numbers == self.edges[-1], len(self.edges) - 1, codes), dtype=np.int64)


@dataclass(frozen=True)
class Pairs:
    """The released pairs of one part, counted."""

    counts: Floats
    sides: tuple[Side, Side]

    @classmethod
    def of(cls, blocks: Iterable[tuple[Any, Any]], sides: tuple[Side, Side]) -> Pairs:
        """`blocks` are released values of the one and the other column, block by block."""
        shape = len(sides[0].spread), len(sides[1].spread)
        counts = np.zeros(shape[0] * shape[1])
        for one, other in blocks:
            place = sides[0].codes(one) * shape[1] + sides[1].codes(other)
            counts += np.bincount(place, minlength=len(counts))
        return cls(counts.reshape(shape), sides)

    def expected(self, mass: Floats) -> Floats:
        return self.sides[0].spread @ mass @ self.sides[1].spread.T

    def gain(self, mass: Floats) -> Floats:
        expected = self.expected(mass)
        ratio = np.divide(self.counts, expected, out=np.zeros_like(expected), where=expected > 0)
        return self.sides[0].spread.T @ ratio @ self.sides[1].spread

    def resampled(self, rng: np.random.Generator, mass: Floats) -> Pairs:
        chances = self.expected(mass).ravel()
        drawn = rng.multinomial(int(self.counts.sum()), chances / chances.sum())
        return Pairs(drawn.reshape(self.counts.shape).astype(np.float64), self.sides)


def axis_of(described: Sequence[Described], bins: int) -> Axis:
    """The cells or categories of one column, for all parts."""
    one = described[0]
    if one.is_categorical:
        return Axis(one.name, categories=one.categories)
    low, high = min(part.low for part in described), max(part.high for part in described)
    cells = cells_of(one, low, high, bins)
    return Axis(one.name, cells.edges, atoms=cells.atoms)


def reconstruct_pairs(
    parts: Sequence[Pairs], axes: tuple[Axis, Axis], marginals: tuple[Density | Shares, Density | Shares]
) -> JointDensity:
    """The joint density; it begins with the product of `marginals` on the same cells."""
    rows = int(sum(part.counts.sum() for part in parts))
    if rows < FEWEST:
        raise TableError(f"There are {rows} released pairs; at least {FEWEST} are needed.")
    start = product_of(axes, marginals)
    rounds = best_rounds(parts, start)
    mass = next(islice(path(parts, start), rounds, None))
    about = {"method": "expectation-maximization", "iterations": rounds, "start": "product of the marginals"}
    return JointDensity(axes, mass, rows, about)


def product_of(axes: tuple[Axis, Axis], marginals: tuple[Density | Shares, Density | Shares]) -> Floats:
    """As published: the columns taken as independent."""
    found = []
    for axis, marginal in zip(axes, marginals, strict=True):
        if isinstance(marginal, Shares):
            found.append(marginal.mass)
        else:
            share = np.diff(marginal.cdf(np.concatenate([[-np.inf], axis.edges[1:-1], [np.inf]])))
            found.append(share / share.sum())
        if len(found[-1]) != axis.count:
            raise UsageError(f"The marginal of {axis.name!r} does not have the joint density's categories.")
    return np.outer(found[0], found[1])


def path(parts: Sequence[Pairs], start: Floats) -> Iterator[Floats]:
    """The estimates, beginning with `start`, no cell of which is quite empty: what is 0 would stay so."""
    total = sum(part.counts.sum() for part in parts)
    mass = 0.99 * start + 0.01 / start.size
    yield mass
    for _ in range(_LONGEST):
        mass = mass * sum(part.gain(mass) for part in parts) / total
        shown = float(mass.sum())
        if not shown > 0:
            raise TableError("No values of the ranges can have led to the released pairs. Card and release disagree.")
        mass = mass / shown
        yield mass


def best_rounds(parts: Sequence[Pairs], start: Floats) -> int:
    """The number of rounds that serves best if a pilot, which stops by itself, is the truth; its draws have a seed."""
    rng = np.random.default_rng(0)
    total, pilot = int(sum(part.counts.sum() for part in parts)), start
    for number, mass in enumerate(path(parts, start)):
        if number and successive(mass, pilot, total):
            break
        pilot = mass
    losses = []
    for _ in range(_TRIALS):
        sample, found = [part.resampled(rng, pilot) for part in parts], list[float]()
        for mass in path(sample, start):
            found.append(0.5 * float(np.abs(mass - pilot).sum()))
            if len(found) > _PATIENCE * (1 + int(np.argmin(found))) + 5:
                break
        losses.append(np.array(found))
    common = min(map(len, losses))
    return int(np.argmin(np.mean([loss[:common] for loss in losses], axis=0)))
