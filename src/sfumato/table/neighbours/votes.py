"""A circle whose rows vote, what a query hears from them, and how measured pairs are counted."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.core.array_types import Codes, Flags, Floats
from sfumato.table.neighbours.arrays import Arrays
from sfumato.table.neighbours.nearest import chosen, in_blocks
from sfumato.table.neighbours.tiles import (
    NEAR,
    Frame,
    Placed,
    QueryBlock,
    RowChunk,
    as_query,
    error_bound,
    pair_squares,
    slices,
    walk,
)


class Votes(NamedTuple):
    """What every query heard: votes by class, and how many rows of each class lie exactly on it."""

    votes: Floats
    exact: Codes


class Circle(NamedTuple):
    """Rows with d^2 <= `squared_radius` vote 1 / d^2, or with a `least` above 0, 1 / max(d^2 - less, least)."""

    squared_radius: float
    less: float = 0.0
    least: float = 0.0

    def add_measured(self, heard: Votes, query_at: Codes, code: Codes, squares: Floats) -> None:
        """Votes of pairs whose squared distances were measured; those at distance zero are counted apart."""
        # A subnormal square would weigh infinitely much: it counts as equal.
        equal = squares < (np.finfo(np.float64).tiny if self.least == 0 else 0.0)
        inside = (squares <= self.squared_radius) & ~equal
        if self.least > 0:
            squares = np.maximum(squares - self.less, self.least)
        add_weights(heard.votes, query_at[inside], code[inside], 1.0 / squares[inside])
        np.add.at(heard.exact, (query_at[equal], code[equal]), 1)


def add_weights(votes: Floats, query_at: Codes, code: Codes, weight: Floats) -> None:
    """Add every weight to its query's votes for its class, in place."""
    slot = query_at * votes.shape[1] + code
    votes += np.bincount(slot, weights=weight, minlength=votes.size).reshape(votes.shape)


# Votes within a radius by a card or another array library, in double precision.
#
# Products decide as on the processor: what lies within its proven error bound of the radius, or so near that a product
# is not accurate, is measured here by differences. The others are weighed on the device, and the sums by class are one
# more product. So who is in a circle, and who lies exactly on a query, is never a matter of the device; votes agree
# with the processor's to nine digits, which is how well they agree with themselves in other blocks.

ROW_TILE = 1 << 16
"""Rows whose products with a block of queries are made at once."""
MOST_PAIRS = 1 << 30
"""PyTorch finds places in matrices of no more than twice as many."""
BYTES_OF_A_PAIR = 48
"""A product, its weight, and what is compared on the way."""


def votes_on_device(a: Floats, b: Floats, codes: Codes, circle: Circle, frame: Frame, heard: Votes) -> None:
    """Add what all queries `a` hear from the rows `b` to `heard`, on the device that is in use."""
    device = chosen()
    assert device is not None
    arrays, memory = device
    scale = frame.scale_for(a)
    placed = frame.operand(b, scale)
    rows, squares = arrays.put(placed), placed[:, -2]
    classes = arrays.put(np.eye(heard.votes.shape[1])[codes])
    tiles = [(tile, float(squares[tile].max())) for tile in slices(len(b), ROW_TILE)]

    def work(at: slice, _: int) -> None:
        operand = frame.operand(a[at], scale)
        queries, query_square = arrays.put(as_query(operand)), float(operand[:, -2].max())
        mine = Votes(np.zeros(heard.votes[at].shape), np.zeros(heard.exact[at].shape, dtype=np.int64))
        for tile, row_square in tiles:
            bound = error_bound(b.shape[1], query_square, row_square, np.float64)
            weight, query_at, row_at = _weighed(arrays, queries @ rows[tile].T, circle, scale, bound)
            mine.votes[:] += arrays.get(weight @ classes[tile])
            row_at += tile.start
            circle.add_measured(mine, query_at, codes[row_at], pair_squares(a[at], b, query_at, row_at))
        heard.votes[at] += mine.votes  # a block that did not fit has added nothing
        heard.exact[at] += mine.exact

    in_blocks(arrays, len(a), BYTES_OF_A_PAIR * min(len(b), ROW_TILE), min(memory, BYTES_OF_A_PAIR * MOST_PAIRS), work)


def _weighed(arrays: Arrays, product: Any, circle: Circle, scale: float, bound: float) -> tuple[Any, Codes, Codes]:
    """Weights of the pairs that are surely inside (0 for others), and the pairs that must be measured."""
    xp, limit = arrays.namespace, circle.squared_radius * scale**2
    unsure = (product <= NEAR * bound) | ((product >= limit - bound) & (product <= limit + bound))
    counted = (product <= limit) & ~unsure
    if circle.least > 0:
        lowest = circle.least * scale**2
        product = product - circle.less * scale**2
        product = xp.where(product > lowest, product, lowest)
    with np.errstate(divide="ignore"):
        weight = xp.where(counted, scale**2 / product, 0.0)
    query_at, row_at = (arrays.get(part).astype(np.int64) for part in arrays.pairs(unsure))
    return weight, query_at, row_at


FEW = 0.005
"""Share of a tile up to which a query's rows are measured one by one (about 100 times the cost of a product)."""
CROWDED = 0.5
"""Share of queries that hear more than that, from which the next tile is not screened first."""
PICKED = 0.05
"""Share of a tile up to which products are picked out one by one instead of weighing the whole tile."""


SAMPLED = 2_000
"""Rows that the middles of classes are taken from."""


def radius_votes(
    queries: npt.ArrayLike,
    rows: npt.ArrayLike,
    codes: npt.ArrayLike,
    n_classes: int,
    circle: Circle | float,
    *,
    placed: Placed | None = None,
    workers: int | None = None,
) -> Votes:
    """Sum of 1 / d^2 over the rows within a circle, by class (`codes` in 0 .. n_classes - 1).

    `circle`: its squared radius, or a `Circle` that has other weights. Rows at distance zero have no finite weight:
    they are counted apart, in `exact`, and do not vote, unless the circle has a `least`. `placed`: the rows, laid out
    before (`by_class`).
    Membership in the circle is decided as by direct computation: products within their proven error bound of the
    radius are measured again by differences, and so are those too small to be accurate (`tiles.NEAR`). Rows are
    taken class by class, so that whole tiles lie outside the circle and are passed over after one product in
    single precision.

    >>> radius_votes([[0.0]], [[1.0], [2.0], [3.0]], [0, 1, 1], 2, 4.0).votes.tolist()
    [[1.0, 0.25]]
    """
    a = np.ascontiguousarray(queries, dtype=np.float64)
    b = np.ascontiguousarray(rows, dtype=np.float64)
    classes = np.asarray(codes, dtype=np.int64)
    if classes.shape != (len(b),):
        raise ValueError(f"The 'codes' parameter must hold one class per row ({len(b)}). Got shape {classes.shape}.")
    if len(b) and not 0 <= int(classes.min()) <= int(classes.max()) < n_classes:
        raise ValueError(f"The 'codes' parameter must lie between 0 and {n_classes - 1}.")
    heard = Votes(np.zeros((len(a), n_classes)), np.zeros((len(a), n_classes), dtype=np.int64))
    circle = circle if isinstance(circle, Circle) else Circle(float(circle))
    if circle.squared_radius < 0 or not len(a):
        return heard
    placed = placed or by_class(b, classes)
    if chosen() is not None and workers is None and len(b):
        votes_on_device(a, b, classes, circle, placed.frame, heard)
        return heard
    order = placed.order
    assert order is not None
    likely = _likely_classes(a, b, classes, n_classes) if len(b) else np.arange(len(a))
    count = _Count(a[likely], b, order, classes[order], circle, heard)
    walk(count.queries, placed, count.visit, workers=workers)
    back = np.argsort(likely)
    return Votes(heard.votes[back], heard.exact[back])


def by_class(rows: Floats, codes: Codes, *, keep: bool = False) -> Placed:
    """Rows laid out class by class, as `radius_votes` takes them."""
    return Placed(rows, order=np.argsort(codes, kind="stable"), keep=keep)


def _likely_classes(queries: Floats, rows: Floats, codes: Codes, n_classes: int) -> Codes:
    """The queries in the order of the classes that they lie nearest to: a block then hears much of a tile, or nothing.
    The middle of a class is that of a few of its rows: this is an order only, and no vote depends on it."""
    some = slice(None, None, -(-len(rows) // SAMPLED))
    totals, counts = np.zeros((n_classes, rows.shape[1])), np.bincount(codes[some], minlength=n_classes)
    np.add.at(totals, codes[some], rows[some])
    middles = totals[counts > 0] / counts[counts > 0, None]
    with np.errstate(over="ignore", invalid="ignore"):
        nearness = np.sum(middles**2, axis=1) - 2 * queries @ middles.T
    return np.argsort(nearness.argmin(axis=1), kind="stable")


class _Count:
    """Adds the votes of one chunk of rows to those that a block of queries has heard."""

    def __init__(self, queries: Floats, rows: Floats, order: Codes, codes: Codes, circle: Circle, heard: Votes) -> None:
        self.queries, self.rows, self.order, self.codes = queries, rows, order, codes
        self.circle, self.heard = circle, heard

    def visit(self, block: QueryBlock, chunk: RowChunk, scale: float) -> None:
        limit = self.circle.squared_radius * scale**2
        everyone = np.arange(len(block.double))
        crowded = False
        for tile in chunk.tiles():
            busy = everyone if crowded else self._screen(block, chunk, tile, limit)
            if len(busy):
                hearing = self._weigh(block, chunk, tile, busy, limit, scale)
                crowded = hearing > CROWDED * len(everyone)

    def _screen(self, block: QueryBlock, chunk: RowChunk, tile: slice, limit: float) -> Codes:
        """Pass over what surely lies outside, measure what little may lie inside, return queries that hear many."""
        product, bound = block.squares(chunk, tile, single=True)
        # Single precision only screens, so its ceiling is stepped up against rounding.
        ceiling = float(np.nextafter(np.float32(min(limit + bound, 1e30)), np.float32(np.inf)))
        inside = block.at_most(product, ceiling, "inside")
        found = int(np.count_nonzero(inside))
        if found <= FEW * inside.shape[1]:  # too little for any query to hear many
            if found:
                query_at, row_at = np.divmod(np.flatnonzero(inside), inside.shape[1])
                self._measure(block, query_at, row_at + chunk.start + tile.start)
            return np.empty(0, dtype=np.int64)
        heard = _per_query(inside)
        busy = heard > FEW * inside.shape[1]
        some = np.flatnonzero((heard > 0) & ~busy)
        picked, row_at = np.divmod(np.flatnonzero(inside[some]), inside.shape[1])
        self._measure(block, some[picked], row_at + chunk.start + tile.start)
        return np.flatnonzero(busy)

    def _weigh(self, block: QueryBlock, chunk: RowChunk, tile: slice, who: Codes, limit: float, scale: float) -> int:
        """Votes of one tile for some queries, in double precision; returns how many queries hear many rows."""
        product, bound = block.squares(chunk, tile, single=False, who=who)
        first = chunk.start + tile.start
        surely = block.at_most(product, limit - bound, "surely")
        inside = block.at_most(product, limit + bound, "inside")
        near = block.at_most(product, NEAR * bound, "near")
        found = int(np.count_nonzero(inside))
        if found != np.count_nonzero(surely) or np.count_nonzero(near):
            np.logical_and(surely, ~near, out=surely)
            query_at, row_at = np.divmod(np.flatnonzero(inside & ~surely), inside.shape[1])
            self._measure(block, who[query_at], row_at + first)
            product[query_at, row_at] = np.inf  # they have voted
        if self.circle.least > 0:
            np.maximum(product - self.circle.less * scale**2, self.circle.least * scale**2, out=product)
        votes = self.heard.votes[block.where]
        if found <= PICKED * inside.size:
            query_at, row_at = np.divmod(np.flatnonzero(surely), surely.shape[1])
            add_weights(votes, who[query_at], self.codes[row_at + first], scale**2 / product[query_at, row_at])
        else:
            np.divide(scale**2, product, out=product)
            np.multiply(product, surely, out=product)
            length = product.shape[1]
            here = self.codes[first : first + length]  # rows come class by class
            for start, stop in pairwise([0, *(np.flatnonzero(np.diff(here)) + 1).tolist(), length]):
                votes[who, int(here[start])] += product[:, start:stop] @ np.ones(stop - start)
        return int(np.count_nonzero(_per_query(inside) > FEW * inside.shape[1]))

    def _measure(self, block: QueryBlock, query_at: Codes, position: Codes) -> None:
        """Votes of pairs measured by differences; those at distance zero are counted apart."""
        squares = pair_squares(self.queries[block.where], self.rows, query_at, self.order[position])
        mine = Votes(self.heard.votes[block.where], self.heard.exact[block.where])
        self.circle.add_measured(mine, query_at, self.codes[position], squares)


def _per_query(inside: Flags) -> Codes:
    """Count of true entries in every line (by bits: eight times less to add up)."""
    counts: Codes = np.bitwise_count(np.packbits(inside, axis=1)).sum(axis=1, dtype=np.int64)
    return counts
