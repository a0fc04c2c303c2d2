"""Two columns together: probabilities of pairs of cells, as a table and as a picture, and how they are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup

from sfumato.core.array_types import Codes, Floats
from sfumato.core.errors import CardError, TableError, UsageError
from sfumato.core.svg import tag
from sfumato.reconstruction.density import Density, Shares
from sfumato.reconstruction.evidence import FEWEST, Cells, cell_probabilities
from sfumato.reconstruction.expectation_maximization import least_loss, successive
from sfumato.reconstruction.picture import WIDE, bars_picture, heat_picture, plain, svg
from sfumato.reconstruction.reconstruct import Described, cells_of, z_range


@dataclass(frozen=True)
class Axis:
    """The cells of a number, or the categories of a word."""

    name: str
    cells: Cells = field(default_factory=lambda: Cells(np.zeros(0)))
    categories: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.categories) or self.cells.count

    def codes(self, values: Any) -> Any:
        """The cell of every original value, -1 for what lies outside."""
        if self.categories:
            place = {category: number for number, category in enumerate(self.categories)}
            return np.array([place.get(str(value), -1) for value in values], dtype=np.int64)
        numbers, edges = np.asarray(values, dtype=np.float64), self.cells.edges
        return np.where((numbers >= edges[0]) & (numbers <= edges[-1]), self.cells.holding(numbers), -1)


@dataclass(frozen=True, repr=False)
class JointDensity:
    """Probabilities `mass` of pairs: lines are the cells of the first column, columns those of the second, and so on.

    It has no band: how far a cell of it can be trusted is not told.
    """

    axes: tuple[Axis, ...]
    mass: Floats
    rows: int
    about: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        cells = " x ".join(str(axis.count) for axis in self.axes)
        return f"<JointDensity of {self.name}: {cells} cells from {self.rows:,} rows>"

    @property
    def name(self) -> str:
        return " and ".join(repr(axis.name) for axis in self.axes)

    @property
    def correlation(self) -> float | None:
        """Of two numbers; of categories there is none."""
        if len(self.axes) != 2 or any(axis.categories for axis in self.axes):
            return None
        shares = self.marginals()
        dx, dy = (axis.cells.middles - p @ axis.cells.middles for axis, p in zip(self.axes, shares, strict=True))
        spread = float(np.sqrt((shares[0] @ dx**2) * (shares[1] @ dy**2)))
        return float(dx @ self.mass @ dy) / spread if spread > 0 else None

    @property
    def mutual_information(self) -> float:
        """In bits: what the columns tell of each other; 0 where they are independent."""
        apart, shown = reduce(np.multiply.outer, self.marginals()), self.mass > 0
        return float(np.sum(self.mass[shown] * np.log2(self.mass[shown] / apart[shown])))

    def marginals(self) -> list[Floats]:
        """The shares of each column's cells."""
        places = range(len(self.axes))
        return [self.mass.sum(axis=tuple(other for other in places if other != place)) for place in places]

    def shares_of(self, *columns: Any) -> Floats:
        """Shares of original pairs in the same cells; pairs outside count nowhere."""
        codes = [axis.codes(values) for axis, values in zip(self.axes, columns, strict=True)]
        if len({len(one) for one in codes}) > 1 or not len(codes[0]):
            raise UsageError("There are no pairs to compare the density with: the columns must be equally long.")
        inside = np.all([one >= 0 for one in codes], axis=0)
        counts = np.zeros(self.mass.shape)
        np.add.at(counts, tuple(one[inside] for one in codes), 1.0)
        return np.asarray(counts / len(inside))

    def information_loss(self, *columns: Any) -> float:
        """Half the L1 distance to original pairs, from 0 to 1; lower is better [density-reconstruction, Eq. 20]."""
        shares = self.shares_of(*columns)
        return 0.5 * float(np.abs(shares - self.mass).sum()) + 0.5 * max(0.0, 1.0 - float(shares.sum()))

    def table(self) -> pa.Table:
        """One row for each pair of cells: their ends or categories, and the probability."""
        columns: dict[str, Any] = {}
        for axis, at in zip(self.axes, np.indices(self.mass.shape).reshape(len(self.axes), -1), strict=True):
            if axis.categories:
                columns[axis.name] = [axis.categories[code] for code in at]
            else:
                edges = axis.cells.edges
                columns |= {f"{axis.name}_low": edges[:-1][at], f"{axis.name}_high": edges[1:][at]}
        return pa.table({**columns, "probability": self.mass.ravel()})

    def summary(self) -> dict[str, Any]:
        """Plain figures, for JSON."""
        told: dict[str, Any] = {
            "columns": [axis.name for axis in self.axes],
            "rows": self.rows,
            "cells": [axis.count for axis in self.axes],
            "mutual_information": self.mutual_information,
        }
        if (found := self.correlation) is not None:
            told["correlation"] = found
        return {**told, **self.about}

    def plot(self) -> str:
        """The probabilities as an SVG picture: the darker a cell, the more people. Of more than two, each column."""
        if len(self.axes) == 2:
            names = [axis.categories or axis.cells.edges for axis in self.axes]
            return heat_picture(f"Density of {self.name}", [axis.name for axis in self.axes], names, self.mass)
        shapes = []
        for place, (axis, share) in enumerate(zip(self.axes, self.marginals(), strict=True)):
            words = axis.categories or [plain(middle) for middle in axis.cells.middles]
            bars = bars_picture(f"Shares of {axis.name!r}", words, share, None)
            shapes.append(tag("g", Markup(bars), transform=f"translate(0 {place * WIDE.height})"))
        return svg(WIDE.width, len(shapes) * WIDE.height, shapes)


# Two columns together: how pairs of values were spread behind the noise of both [density-reconstruction, 3.3].
#
# Columns of a release are perturbed independently, so a pair (x, y) becomes (z, w) with probability A(z | x) B(w | y),
# and the probabilities M of pairs lead to A M B'. The paper takes the columns as independent, M = p q'. That is where
# the iteration begins here: Bayes' rule over and over then moves it towards what the pairs tell,
#
#     M <- M * A' (C / (A M B')) B / N        C = counts of released pairs, N of them
#
# and it stops after the number of rounds that would have served best had a pilot been the truth, as for one column.

POINTS = 4
"""Cells of a released value for every cell of a true one."""
_TRIALS, _LONGEST = 4, 600


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
        cells = axis.cells
        if one.noise is None:
            return cls(one, cells.edges, np.pad(np.eye(cells.count), ((1, 1), (0, 0))))
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
    return Axis(one.name, cells_of(one, low, high, bins))


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


def product_of(axes: Sequence[Axis], marginals: Sequence[Density | Shares]) -> Floats:
    """As published: the columns taken as independent."""
    found = []
    for axis, marginal in zip(axes, marginals, strict=True):
        if isinstance(marginal, Shares):
            found.append(marginal.mass)
        else:
            share = np.diff(marginal.cdf(np.concatenate([[-np.inf], axis.cells.edges[1:-1], [np.inf]])))
            found.append(share / share.sum())
        if len(found[-1]) != axis.count:
            raise UsageError(f"The marginal of {axis.name!r} does not have the joint density's categories.")
    return np.asarray(reduce(np.multiply.outer, found))


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
    samples = ([part.resampled(rng, pilot) for part in parts] for _ in range(_TRIALS))
    return least_loss((path(sample, start) for sample in samples), pilot, more=5)
