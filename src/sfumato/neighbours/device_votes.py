"""Votes within a radius by a card or another array library, in double precision.

Products decide as on the processor: what lies within its proven error bound of the radius, or so near that a product is
not accurate, is measured here by differences. The others are weighed on the device, and the sums by class are one more
product. So who is in a circle, and who lies exactly on a query, is never a matter of the device; votes agree with the
processor's to nine digits, which is how well they agree with themselves in other blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.array_types import Codes, Floats
from sfumato.neighbours.arrays import Arrays
from sfumato.neighbours.circle import Circle, Votes
from sfumato.neighbours.device import in_blocks
from sfumato.neighbours.frame import Frame, as_query, error_bound, pair_squares
from sfumato.neighbours.tiles import NEAR
from sfumato.neighbours.workers import slices

ROW_TILE = 1 << 16
"""Rows whose products with a block of queries are made at once."""
MOST_PAIRS = 1 << 30
"""PyTorch finds places in matrices of no more than twice as many."""
BYTES_OF_A_PAIR = 48
"""A product, its weight, and what is compared on the way."""


def votes_on_device(
    device: tuple[Arrays, int], a: Floats, b: Floats, codes: Codes, circle: Circle, frame: Frame, heard: Votes
) -> None:
    """Add what all queries `a` hear from the rows `b` to `heard`."""
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
