"""The nearest rows of every query, exactly, with ties settled by the lowest index."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.core.array_types import Codes, Floats
from sfumato.table.neighbours.device import chosen, nearest_on_device, on_device
from sfumato.table.neighbours.frame import Frame, Real, pair_squares
from sfumato.table.neighbours.tiles import QueryBlock, RowChunk, walk

CROWDED = 0.01
"""Share of a tile that may survive the single-precision screen before the tile is screened again in double."""


def nearest(
    queries: npt.ArrayLike,
    rows: npt.ArrayLike,
    k: int = 1,
    exclude_self: bool = False,
    *,
    frame: Frame | None = None,
    workers: int | None = None,
) -> tuple[Floats, Codes]:
    """Euclidean distances to the k nearest rows and their indices, both (queries x k), nearest first.

    Products only *screen*: a row is passed over when its product exceeds the k-th best squared distance so far by
    more than twice the proven error bound (`frame.error_bound`, single precision first). Whatever passes is
    measured by differences in double precision, so the answer is that of direct computation, whatever the blocks
    or threads. Of equally distant rows the one with the lowest index comes first.

    With `exclude_self`, query i never finds row i (queries and rows are then the same table).

    >>> distances, indices = nearest([[0.0], [9.0]], [[1.0], [-1.0], [7.0]], k=2)
    >>> indices.tolist(), distances.tolist()
    ([[0, 1], [2, 0]], [[1.0, 1.0], [2.0, 8.0]])
    """
    a = np.ascontiguousarray(queries, dtype=np.float64)
    b = np.ascontiguousarray(rows, dtype=np.float64)
    if exclude_self and len(a) != len(b):
        raise ValueError(f"'exclude_self' needs one query per row. Got {len(a)} queries for {len(b)} rows.")
    if not 1 <= k <= len(b) - exclude_self:
        raise ValueError(f"The 'k' parameter must be between 1 and {len(b) - exclude_self}, the rows. Got {k} instead.")
    device = chosen()
    if device is not None and workers is None and len(a):
        best, index, settled = nearest_on_device(device, a, b, k, exclude_self=exclude_self, frame=frame)
        if not settled.all():
            best[~settled], index[~settled] = _by_processor(a, b, k, np.flatnonzero(~settled), exclude_self, frame)
        return np.sqrt(best), index
    best = np.full((len(a), k), np.inf)
    index = np.full((len(a), k), len(b), dtype=np.int64)

    def visit(block: QueryBlock, chunk: RowChunk, scale: float) -> None:
        mine = a[block.where]
        for tile in chunk.tiles():
            first = chunk.start + tile.start
            limit = best[block.where, -1] * scale**2
            if not limit.any():
                return  # every query has k rows at distance zero, and earlier rows win ties
            query_at, row_at = _screen(block, chunk, tile, limit, k, exclude_self)
            if len(query_at):
                row_at = row_at + first
                squares = pair_squares(mine, b, query_at, row_at)
                _merge(best[block.where], index[block.where], query_at, squares, row_at)

    walk(a, b, visit, frame=frame, workers=workers)
    return np.sqrt(best), index


def _by_processor(
    a: Floats, b: Floats, k: int, who: Codes, exclude_self: bool, frame: Frame | None
) -> tuple[Floats, Codes]:
    """The same for some queries; a query's own row is found among the first and taken out."""
    with on_device(None):
        distance, index = nearest(a[who], b, min(k + exclude_self, len(b)), frame=frame)
    if exclude_self:
        own = index == who[:, None]
        own[~own.any(axis=1), -1] = True  # k others lie exactly there as well, before it
        distance, index = (found[~own].reshape(len(who), k) for found in (distance, index))
    return distance**2, index


def _screen(
    block: QueryBlock, chunk: RowChunk, tile: slice, limit: Floats, k: int, exclude_self: bool
) -> tuple[Codes, Codes]:
    """Pairs (query, row within the tile) that may be among the k nearest."""
    hopeful = np.empty((0, 0), dtype=bool)
    for single in (True, False):
        product, bound = block.squares(chunk, tile, single)
        if exclude_self:
            _blind(product, block.where.start - chunk.start - tile.start)
        # The tile's own k-th smallest product, less than `bound` from the truth, can only tighten the limit.
        tightened = np.minimum(limit, _kth_smallest(product, k, limit) + bound)
        ceiling = np.where(limit > 0, tightened + bound, -np.inf)[:, None]
        # Rounding a ceiling down to single precision could lose a row: step up once.
        ceiling = np.nextafter(ceiling.astype(product.dtype), product.dtype.type(np.inf)) if single else ceiling
        hopeful = block.at_most(product, ceiling, "hopeful")
        if np.count_nonzero(hopeful) <= max(CROWDED * hopeful.size, 2 * k * len(limit)):
            break
    query_at, row_at = np.divmod(np.flatnonzero(hopeful), hopeful.shape[1])
    return query_at, row_at


def _kth_smallest(product: Real, k: int, limit: Floats) -> Floats:
    """k-th smallest product of every query in this tile; for k > 1 only where nothing better is known yet."""
    if k == 1:
        return np.asarray(product.min(axis=1), dtype=np.float64)
    if k > product.shape[1] or np.isfinite(limit).all():
        return np.full(len(product), np.inf)
    return np.asarray(np.partition(product, k - 1, axis=1)[:, k - 1], dtype=np.float64)


def _blind(product: Real, offset: int) -> None:
    """Take every query's own row out of the tile; query 0 of the block is row `offset` of the tile."""
    query_at = np.arange(len(product))
    row_at = query_at + offset
    here = (row_at >= 0) & (row_at < product.shape[1])
    product[query_at[here], row_at[here]] = np.inf


def _merge(best: Floats, index: Codes, query_at: Codes, squares: Floats, row_at: Codes) -> None:
    """Put newly measured rows among the k best of their queries, in place."""
    n, k = best.shape
    touched = np.zeros(n, dtype=bool)
    touched[query_at] = True
    known = np.flatnonzero(touched)
    who = np.concatenate([np.repeat(known, k), query_at])
    value = np.concatenate([best[known].ravel(), squares])
    row = np.concatenate([index[known].ravel(), row_at])
    order = np.lexsort((row, value, who))
    who, value, row = who[order], value[order], row[order]
    first = np.searchsorted(who, known)
    take = first[:, None] + np.arange(k)
    best[known], index[known] = value[take], row[take]
