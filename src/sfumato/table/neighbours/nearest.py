"""The nearest rows of every query, exactly, with ties settled by the lowest index."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.core.array_types import Codes, Flags, Floats
from sfumato.table.neighbours.arrays import GROUP, Arrays, arrays_for
from sfumato.table.neighbours.tiles import Frame, Placed, QueryBlock, Real, RowChunk, error_bound, pair_squares, walk

CROWDED = 0.01
"""Share of a tile that may survive the single-precision screen before the tile is screened again in double."""


def nearest(
    queries: npt.ArrayLike, rows: npt.ArrayLike, k: int = 1, *, placed: Placed | None = None, workers: int | None = None
) -> tuple[Floats, Codes]:
    """Euclidean distances to the k nearest rows and their indices, both (queries x k), nearest first.

    Products only *screen*: a row is passed over when its product exceeds the k-th best squared distance so far by
    more than twice the proven error bound (`tiles.error_bound`, single precision first). Whatever passes is
    measured by differences in double precision, so the answer is that of direct computation, whatever the blocks
    or threads. Of equally distant rows the one with the lowest index comes first.

    `placed`: the rows, laid out before; in another order only for queries that are other rows.

    >>> distances, indices = nearest([[0.0], [9.0]], [[1.0], [-1.0], [7.0]], k=2)
    >>> indices.tolist(), distances.tolist()
    ([[0, 1], [2, 0]], [[1.0, 1.0], [2.0, 8.0]])
    """
    a = np.ascontiguousarray(queries, dtype=np.float64)
    b = np.ascontiguousarray(rows, dtype=np.float64)
    if not 1 <= k <= len(b):
        raise ValueError(f"The 'k' parameter must be between 1 and {len(b)}, the rows. Got {k} instead.")
    placed, device = placed or Placed(b), chosen()
    if device is not None and workers is None and len(a):
        best, index, settled = nearest_on_device(device, a, b, k, frame=placed.frame)
        distances = np.sqrt(best)
        if not settled.all():
            with on_device(None):
                distances[~settled], index[~settled] = nearest(a[~settled], b, k, placed=placed)
        return distances, index
    found = _Found(a, b, k, order=placed.order)

    def visit(block: QueryBlock, chunk: RowChunk, scale: float) -> None:
        for tile in chunk.tiles():
            if not found.looked(block, chunk, tile, scale, partial(block.squares, chunk, tile)):
                return

    walk(a, placed, visit, workers=workers)
    return np.sqrt(found.best), found.index


def nearest_without(
    queries: npt.ArrayLike, rows: npt.ArrayLike, left_out: Sequence[slice], k: int = 1
) -> list[tuple[Floats, Codes]]:
    """As `nearest`, once for each of some groups of columns, which is left out; all columns are multiplied once."""
    a = np.ascontiguousarray(queries, dtype=np.float64)
    b = np.ascontiguousarray(rows, dtype=np.float64)
    frame, every = Frame.of(b), np.arange(b.shape[1])
    held = [np.delete(every, group) for group in left_out]
    if chosen() is not None:
        parts = [(b[:, some], Frame(frame.centre[some], frame.reach)) for some in held]
        return [
            nearest(a[:, some], rows, k, placed=Placed(rows, frame))
            for some, (rows, frame) in zip(held, parts, strict=True)
        ]
    found = [_Found(a, b, k, columns=some) for some in held]

    def visit(block: QueryBlock, chunk: RowChunk, scale: float) -> None:
        parts = [(block.of(group), chunk.of(group)) for group in left_out]
        for tile in chunk.tiles():
            whole = block.squares(chunk, tile, True, name="whole")

            def less(part: tuple[QueryBlock, RowChunk], single: bool, tile: slice = tile, whole: Any = whole) -> Any:
                """Of all columns less those of a part. Rounding that costs no more than one more column's error."""
                product, bound = whole if single else block.squares(chunk, tile, False, name="whole")
                taken, own = part[0].squares(part[1], tile, single)
                return np.subtract(product, taken, out=taken), bound * (1 + 1 / block.columns) + own

            for search, part in zip(found, parts, strict=True):
                search.looked(block, chunk, tile, scale, partial(less, part))

    walk(a, Placed(b, frame), visit)
    return [(np.sqrt(search.best), search.index) for search in found]


class _Found:
    """The k nearest rows of every query so far, by some of the columns (None: all)."""

    def __init__(self, a: Floats, b: Floats, k: int, columns: Codes | None = None, order: Codes | None = None) -> None:
        self.a, self.b, self.k, self.columns, self.order = a, b, k, columns, order
        self.best = np.full((len(a), k), np.inf)
        self.index = np.full((len(a), k), len(b), dtype=np.int64)

    def looked(
        self,
        block: QueryBlock,
        chunk: RowChunk,
        tile: slice,
        scale: float,
        squares: Callable[[bool], tuple[Real, float]],
    ) -> bool:
        """Look for nearer rows in a tile; False where every query has k rows at distance zero: earlier rows win ties.
        `squares`: of the queries to the tile's rows in single precision or in double, and their error bound."""
        best, first = self.best[block.where], chunk.start + tile.start
        limit = best[:, -1] * scale**2
        if self.order is None and not limit.any():
            return False
        query_at, row_at = self._screen(block, limit, squares)
        if len(query_at):
            row_at = row_at + first if self.order is None else self.order[row_at + first]
            measured = pair_squares(self.a[block.where], self.b, query_at, row_at, self.columns)
            # Put newly measured rows among the k best of their queries, in place.
            index = self.index[block.where]
            n, k = best.shape
            touched = np.zeros(n, dtype=bool)
            touched[query_at] = True
            known = np.flatnonzero(touched)
            who = np.concatenate([np.repeat(known, k), query_at])
            value = np.concatenate([best[known].ravel(), measured])
            row = np.concatenate([index[known].ravel(), row_at])
            order = np.lexsort((row, value, who))
            who, value, row = who[order], value[order], row[order]
            start = np.searchsorted(who, known)
            take = start[:, None] + np.arange(k)
            best[known], index[known] = value[take], row[take]
        return True

    def _screen(
        self, block: QueryBlock, limit: Floats, squares: Callable[[bool], tuple[Real, float]]
    ) -> tuple[Codes, Codes]:
        """Pairs (query, row within the tile) that may be among the k nearest."""
        hopeful = np.empty((0, 0), dtype=bool)
        for single in (True, False):
            product, bound = squares(single)
            # The tile's own k-th smallest product, less than `bound` from the truth, can only tighten the limit.
            tightened = limit
            if self.k == 1:
                tightened = np.minimum(limit, product.min(axis=1).astype(np.float64) + bound)
            elif self.k <= product.shape[1] and not np.isfinite(limit).all():  # only where nothing better is known yet
                kth = np.partition(product, self.k - 1, axis=1)[:, self.k - 1]
                tightened = np.minimum(limit, kth.astype(np.float64) + bound)
            ceiling = np.where((limit > 0) | (self.order is not None), tightened + bound, -np.inf)[:, None]
            # Rounding a ceiling down to single precision could lose a row: step up once.
            ceiling = np.nextafter(ceiling.astype(product.dtype), product.dtype.type(np.inf)) if single else ceiling
            hopeful = block.at_most(product, ceiling, "hopeful")
            if np.count_nonzero(hopeful) <= max(CROWDED * hopeful.size, 2 * self.k * len(limit)):
                break
        query_at, row_at = np.divmod(np.flatnonzero(hopeful), hopeful.shape[1])
        return query_at, row_at


# The nearest rows by a card or another array library: large products there, the last word here in double precision.
#
# The device multiplies in about single precision and keeps, of every group of rows, only the smallest product. A
# query's k nearest rows lie in at most k groups. So a few groups with the smallest products are looked at again, row by
# row, and what may be among the nearest is ordered by differences in double precision. The nearest, and whatever the
# device could not order beyond rounding, are measured here, as everywhere else. A query is *settled* when everything
# that was not measured lies, by more than the proven error of a product, beyond its k-th nearest row. The others (ties,
# crowds) are answered by the processor. So the answers are those of the processor, ties included.

SPARES = ((3, 6), (60, 120))
"""Groups, and rows of them, that are looked at beyond those asked for; and once more for queries that stay open."""
DEVICE_BYTES = 1 << 32
"""What one block of products may take; `--device-memory` sets another limit."""
LEAST_BLOCK, MOST_BLOCK = 64, 1 << 16


class DeviceMemoryWarning(UserWarning):
    """The card has less memory than was counted on; work goes on in smaller blocks."""


_chosen: ContextVar[tuple[Arrays, int] | None] = ContextVar("device", default=None)


@contextmanager
def on_device(device: str | Arrays | None, memory: int = DEVICE_BYTES) -> Iterator[None]:
    """Make large products on this device while the block of code runs; None stands for the processor."""
    arrays = arrays_for(device) if isinstance(device, str) else device
    token = _chosen.set(None if arrays is None else (arrays, memory))
    try:
        yield
    finally:
        _chosen.reset(token)


def chosen() -> tuple[Arrays, int] | None:
    """The device that is in use, and the memory that a block may take there."""
    return _chosen.get()


def in_blocks(arrays: Arrays, count: int, bytes_each: float, memory: int, work: Callable[[slice, int], None]) -> None:
    """Call `work(block, memory)` for 0 .. count in blocks that fit; a device that runs full gets smaller ones."""
    block, start = max(LEAST_BLOCK, min(MOST_BLOCK, int(memory / bytes_each))), 0
    while start < count:
        at = slice(start, min(start + block, count))
        try:
            work(at, memory)
        except (MemoryError, RuntimeError) as error:
            if not arrays.is_full(error) or block <= LEAST_BLOCK:
                raise
            block, memory = max(LEAST_BLOCK, min(block, at.stop - at.start) // 2), memory // 2
            warnings.warn(
                f"The device ran out of memory; going on with blocks of {block} rows.",
                DeviceMemoryWarning,
                stacklevel=3,
            )
            continue
        start = at.stop


def nearest_on_device(
    device: tuple[Arrays, int], a: Floats, b: Floats, k: int, frame: Frame | None = None
) -> tuple[Floats, Codes, Flags]:
    """Squared distances and indices as `nearest` has them, and which queries are settled; the rest is undefined."""
    arrays, memory = device
    work = _Work(arrays, a, b, k, frame or Frame.of(b))
    best, index = np.full((len(a), k), np.inf), np.full((len(a), k), len(b), dtype=np.int64)
    settled = np.zeros(len(a), dtype=bool)
    for spare in SPARES:
        work.look_at(*spare)
        left = np.flatnonzero(~settled)

        def answer(at: slice, memory: int, left: Codes = left) -> None:
            who = left[at]
            best[who], index[who], settled[who] = work.answers(who, memory)

        in_blocks(arrays, len(left), work.bytes_of_a_query, memory, answer)
    return best, index, settled


class _Work:
    """Rows that lie on a device, and queries that look for their nearest ones."""

    def __init__(self, arrays: Arrays, a: Floats, b: Floats, k: int, frame: Frame) -> None:
        self.arrays, self.a, self.b, self.k, self.scale = arrays, a, b, k, frame.scale_for(a)
        self.exact_rows, self.centre = arrays.put(b), arrays.put(frame.centre)
        self.groups = -(-len(b) // GROUP)
        far = self.groups * GROUP - len(b)
        self.rows, self.row_square = arrays.operand(self.exact_rows, self.centre, self.scale, far)

    def look_at(self, spare_groups: int, spare_rows: int) -> None:
        """So many groups of rows, and so many of these rows, beyond those that are asked for."""
        self.looked_at = min(self.k + spare_groups, self.groups)
        self.measured = min(self.k + spare_rows, self.looked_at * GROUP)
        self.bytes_of_a_query = 4 * max(self.groups, GROUP * max(64, self.looked_at * self.rows.shape[1]))

    def answers(self, own: Codes, memory: int) -> tuple[Floats, Codes, Flags]:
        """The k nearest rows of some queries, and which of these queries are settled."""
        arrays, mine = self.arrays, self.a[own]
        exact = arrays.put(mine)
        operand, query_square = arrays.operand(exact, self.centre, self.scale)
        places, reached = self._candidates(arrays.as_query(operand), memory)
        squares, order = arrays.smallest(arrays.squares(exact, self.exact_rows, places), places.shape[1])
        place = arrays.get(arrays.pick(places, order)).astype(np.int64)
        best, index = self._measured(mine, place[:, : self.k])
        # Queries whose first k + 1 rows the device cannot order: sums in double precision, in whatever order.
        first = arrays.get(squares)[:, : self.k + 1]
        with np.errstate(invalid="ignore"):  # infinite less infinite: no rows at all, and no call
            near = np.diff(first, axis=1) <= 4 * (self.b.shape[1] + 2) * 2.0**-53 * first[:, 1:]
        close = np.asarray(near.any(axis=1))
        if close.any():
            best[close], index[close] = self._measured(mine[close], place[close])
        bound = arrays.coarser * error_bound(self.b.shape[1], query_square, self.row_square, np.float32)
        # The product of a row that was not measured is at least `reached`, and errs by `bound` at most.
        return best, index, np.isfinite(best[:, -1]) & (best[:, -1] * self.scale**2 + 2 * bound < reached)

    def _candidates(self, queries: Any, memory: int) -> tuple[Any, npt.NDArray[np.float32]]:
        """Rows with the smallest products of every query, and a product that all other rows reach."""
        arrays, height = self.arrays, len(self.rows)
        step = max(GROUP, int(memory / (arrays.bytes_of_a_pair * len(queries))) // GROUP * GROUP)
        parts = [arrays.group_minima(queries, self.rows[start : start + step]) for start in range(0, height, step)]
        groups = self.looked_at
        beyond, which = arrays.smallest(arrays.joined(parts), min(groups + 1, height // GROUP))
        found = arrays.in_groups(queries, self.rows, which[:, :groups])
        product, place = arrays.smallest(found, self.measured)
        places = arrays.pick(which, place // GROUP) * GROUP + place % GROUP
        reached = arrays.get(product)[:, -1].astype(np.float32)
        if groups < height // GROUP:
            reached = np.minimum(reached, arrays.get(beyond)[:, -1])
        elif product.shape[1] == height:
            reached = np.full_like(reached, np.inf)  # there are no others
        return places, reached

    def _measured(self, queries: Floats, place: Codes) -> tuple[Floats, Codes]:
        """The k nearest of these rows by differences in double precision, of equals the lowest index first."""
        count = place.shape[1]
        query_at = np.repeat(np.arange(len(queries)), count)
        squares = pair_squares(queries, self.b, query_at, np.minimum(place, len(self.b) - 1).ravel())
        squares[(place >= len(self.b)).ravel()] = np.inf
        if count == self.k:  # in order already
            return squares.reshape(place.shape), place
        order = np.lexsort((place.ravel(), squares, query_at)).reshape(place.shape)[:, : self.k]
        return squares[order], place.ravel()[order]
