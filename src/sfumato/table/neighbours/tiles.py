"""Where rows lie: a common centre and scale, operands for matrix products, and the error that these make.

Squared Euclidean distances between many queries a and rows b come from one matrix product,

    ||a - b||^2 = [-2a, 1, ||a||^2] . [b, ||b||^2, 1],

which is fast but cancels when a and b are close together and far from the origin. Hence three rules: all
points are centred first, every product is used with a proven bound on its error (`error_bound`), and what lies
within that bound of a decision is computed again from differences (`pair_squares`).
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

from sfumato.core.array_types import Codes, Flags, Floats

Real = npt.NDArray[Any]
"""A matrix of single or double precision."""

PAIR_CHUNK = 1 << 15
"""Pairs whose differences are held at once: 13 MB at 50 columns."""


@dataclass(frozen=True)
class Frame:
    """The centre of some rows, and a bound on how far from it (in Euclidean norm) they lie."""

    centre: Floats
    reach: float

    @classmethod
    def of(cls, rows: Floats) -> Frame:
        """Frame of the given rows; refuses what is not finite."""
        if rows.ndim != 2 or not rows.shape[0] or not rows.shape[1]:
            raise ValueError(f"Rows must be a matrix with at least one row and one column. Got shape {rows.shape}.")
        centre = rows.mean(axis=0)  # it need not be exact, only near the middle
        return cls(centre, _reach(rows, centre, "Rows"))

    def scale_for(self, queries: Floats) -> float:
        """A power of two that brings rows and queries into the unit ball, so that no square over- or underflows."""
        reach = max(self.reach, _reach(queries, self.centre, "Queries"))
        return float(2.0 ** -np.clip(np.ceil(np.log2(reach)), -500, 500)) if reach > 0 else 1.0

    def operand(self, points: Floats, scale: float, out: Floats | None = None) -> Floats:
        """[b, ||b||^2, 1] for every point b = scale (x - centre); the scaling is exact (a power of two)."""
        n, d = points.shape
        made = np.empty((n, d + 2)) if out is None else out
        inside = made[:, :d]
        np.subtract(points, self.centre, out=inside)
        inside *= scale
        np.einsum("ij,ij->i", inside, inside, out=made[:, d])
        made[:, d + 1] = 1.0
        return made


def part_of(operand: Floats, columns: slice) -> Floats:
    """The operand of some columns, from that of all."""
    inside = operand[:, columns]
    return np.column_stack([inside, np.einsum("ij,ij->i", inside, inside), operand[:, -1]])


def as_query(operand: Floats) -> Floats:
    """[-2a, 1, ||a||^2] from [a, ||a||^2, 1]."""
    d = operand.shape[1] - 2
    made = np.empty_like(operand)
    np.multiply(operand[:, :d], -2.0, out=made[:, :d])
    made[:, d] = 1.0
    made[:, d + 1] = operand[:, d]
    return made


def error_bound(columns: int, query_square: float, row_square: float, dtype: npt.DTypeLike) -> float:
    r"""Largest error of a squared distance that was computed by a product of operands in the given precision.

    Let u be the unit roundoff (2^-24 single, 2^-53 double), d the number of columns and
    S = (max ||a|| + max ||b||)^2. To first order in u, and whatever the order of summation:

    - the product of d + 2 terms errs by at most (d + 2) u sum |a_i b_i| <= (d + 2) u S;
    - the stored norms err by at most (d + 2) u (||a||^2 + ||b||^2) <= (d + 2) u S;
    - centring, and rounding to single precision, move every coordinate by a factor within 1 +- 2u, and so
      the squared distance by at most 4 u S;
    - the difference formula it is compared with errs by at most (d + 2) u ||a - b||^2 <= (d + 2) u S.

    The sum is (3d + 10) u S; the bound returned, 4 (d + 8) u S, leaves a quarter for the terms in u^2 as long
    as d u < 1/100, and a last term for underflow.
    """
    unit, tiny = (2.0**-24, 2.0**-126) if dtype == np.float32 else (2.0**-53, 2.0**-1022)
    reach = (math.sqrt(query_square) + math.sqrt(row_square)) ** 2
    return 4 * (columns + 8) * (unit * reach + tiny)


def pair_squares(
    queries: Floats, rows: Floats, query_index: Codes, row_index: Codes, columns: Codes | None = None
) -> Floats:
    """Squared distance of each named pair from differences: exactly 0 for equal rows, and free of cancellation. By some
    columns alone, where they are named."""
    squares = np.empty(len(query_index))
    for start in range(0, len(query_index), PAIR_CHUNK):
        part = slice(start, start + PAIR_CHUNK)
        difference = queries[query_index[part]]
        difference -= rows[row_index[part]]
        if columns is not None:
            difference = np.take(difference, columns, axis=1)
        np.einsum("ij,ij->i", difference, difference, out=squares[part])
    return squares


def _reach(points: Floats, centre: Floats, what: str) -> float:
    """Bound on the distance of any point to the centre: sqrt(d) times the largest deviation in one column."""
    if not len(points):
        return 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        deviation = max(float((points.max(axis=0) - centre).max()), float((centre - points.min(axis=0)).max()))
    if not np.isfinite(deviation):
        raise ValueError(f"{what} contain NaN, infinity or values too large to square. Remove or encode them first.")
    return deviation * float(np.sqrt(points.shape[1]))


# Blocks of work on a few threads, each with one BLAS thread.
#
# Two threads that each multiply their own block beat one product on two BLAS threads: the element-wise steps
# between the products run in parallel as well, and no thread waits for another inside a product.

MOST_WORKERS = 8
SMALL = 1 << 22
"""Multiplications below which threads cost more than they save."""


class _OneBlasThread:
    """Limits BLAS to one thread while anybody is inside, and restores it when the last one leaves. The limit is a
    property of the process, not of a thread, so overlapping users must share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: AbstractContextManager[object] = nullcontext()
        self._controller: ThreadpoolController | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._inside == 0:
                self._controller = self._controller or ThreadpoolController()
                self._limit = self._controller.limit(limits=1, user_api="blas")
                self._limit.__enter__()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._limit.__exit__(None, None, None)


one_blas_thread = _OneBlasThread()


def worker_count(workers: int | None, multiplications: float) -> int:
    """How many threads to use: as asked, else one for small work and the machine's cores (at most 8) otherwise."""
    if workers is not None:
        if workers < 1:
            raise ValueError(f"The 'workers' parameter must be at least 1. Got {workers} instead.")
        return workers
    return 1 if multiplications < SMALL else min(os.cpu_count() or 1, MOST_WORKERS)


Run = Callable[[Callable[[slice], None], list[slice]], object]


@contextmanager
def crew(workers: int) -> Iterator[Run]:
    """Yields `run(work, blocks)`, which calls `work` once for every block and returns when all are done."""
    if workers == 1:
        yield lambda work, blocks: list(map(work, blocks))
        return
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        yield lambda work, blocks: list(pool.map(work, blocks))


def slices(count: int, size: int) -> list[slice]:
    """0 .. count cut into consecutive blocks of at most `size`."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


QUERY_BLOCK = 256
ROW_TILE = 1024
CHUNK_BYTES = 1 << 24
NEAR = 2.0**30
"""Products below NEAR times their error bound are computed again, so every distance is right to about 1e-9."""


@dataclass(frozen=True)
class RowChunk:
    """Consecutive rows (in the order asked for) with their operands in both precisions, whole or of some columns."""

    start: int
    double: Floats
    single: npt.NDArray[np.float32]
    square: float
    parts: dict[tuple[int, int], RowChunk] = field(default_factory=dict)

    def of(self, columns: slice) -> RowChunk:
        """By some columns alone: made once for all blocks of queries (or twice at once, which is the same)."""
        key = (columns.start, columns.stop)
        if key not in self.parts:
            double = part_of(self.double, columns)
            self.parts[key] = RowChunk(self.start, double, double.astype(np.float32), float(double[:, -2].max()))
        return self.parts[key]

    def tiles(self) -> list[slice]:
        return slices(len(self.double), ROW_TILE)


class Room:
    """Scratch space of one worker, used again for every tile: fresh memory costs more than the arithmetic on it."""

    def __init__(self) -> None:
        self._kept: dict[str, Real] = {}

    def take(self, name: str, shape: tuple[int, int], dtype: npt.DTypeLike) -> Real:
        size = shape[0] * shape[1]
        if name not in self._kept or self._kept[name].size < size:
            self._kept[name] = np.empty(size, dtype)
        return self._kept[name][:size].reshape(shape)


class QueryBlock:
    """A few queries and their operands."""

    def __init__(self, where: slice, operand: Floats, room: Room) -> None:
        self.where, self.room, self.operand = where, room, operand
        self.columns = operand.shape[1] - 2
        self.square = float(operand[:, self.columns].max())
        self.double = as_query(operand)
        self.single = self.double.astype(np.float32)

    def of(self, columns: slice) -> QueryBlock:
        """The same queries by some columns alone."""
        return QueryBlock(self.where, part_of(self.operand, columns), self.room)

    def squares(
        self, chunk: RowChunk, tile: slice, single: bool, who: Codes | slice = slice(None), name: str = ""
    ) -> tuple[Real, float]:
        """Squared distances of all (or some) queries to one tile of rows in scaled units, and their error bound. The
        next call in the same precision (and of the same name) overwrites them."""
        rows = chunk.single[tile] if single else chunk.double[tile]
        queries = (self.single if single else self.double)[who]
        product = self.room.take(name + queries.dtype.name, (len(queries), len(rows)), queries.dtype)
        np.matmul(queries, rows.T, out=product)
        return product, error_bound(self.columns, self.square, chunk.square, queries.dtype)

    def at_most(self, product: Real, ceiling: float | Real, name: str) -> Flags:
        """Which products do not exceed the ceiling. The next call of this name overwrites."""
        return np.less_equal(product, ceiling, out=self.room.take(name, product.shape, np.bool_))


MOST_KEPT = 1 << 28
"""Bytes of operands that are kept for the next question."""


class Placed:
    """Rows in a frame, laid out for products; with `keep` once, however often they are asked. `order` takes the rows in
    another order than stored; positions in a chunk then mean positions in `order`."""

    def __init__(
        self, rows: Floats, frame: Frame | None = None, *, order: Codes | None = None, keep: bool = False
    ) -> None:
        self.rows, self.order, self.frame = rows, order, frame or Frame.of(rows)
        n, d = rows.shape
        self.keep = keep and 12 * n * (d + 2) <= MOST_KEPT
        self._kept: tuple[float, list[RowChunk]] = 0.0, []

    def chunks(self, scale: float, run: Run) -> Iterator[RowChunk]:
        """All rows, in whole tiles, so that none is cut short in the middle of a walk."""
        kept_at, kept = self._kept
        if kept_at == scale:
            yield from kept
            return
        n, d = self.rows.shape
        length = max(1, CHUNK_BYTES // (8 * (d + 2) * ROW_TILE)) * ROW_TILE
        double = np.empty((n if self.keep else min(length, n), d + 2))
        single = np.empty(double.shape, dtype=np.float32)
        made = []
        for part in slices(n, length):
            first, count = part.start, part.stop - part.start
            here = slice(first, part.stop) if self.keep else slice(count)

            def prepare(block: slice, first: int = first, here: slice = here) -> None:
                at = slice(first + block.start, first + block.stop)
                rows = self.rows[at] if self.order is None else self.rows[self.order[at]]
                self.frame.operand(rows, scale, out=double[here][block])
                single[here][block] = double[here][block]

            run(prepare, slices(count, ROW_TILE))
            made.append(RowChunk(first, double[here], single[here], float(double[here, d].max())))
            yield made[-1]
        if self.keep:
            self._kept = scale, made


def walk(
    queries: Floats, placed: Placed, visit: Callable[[QueryBlock, RowChunk, float], None], *, workers: int | None = None
) -> None:
    """Call `visit(block, chunk, scale)` for every block of queries and every chunk of rows, chunks in order. Products
    are in units scaled by `scale`: a squared distance is scale^2 times the true one."""
    n, d = placed.rows.shape
    if queries.ndim != 2 or queries.shape[1] != d:
        raise ValueError(f"Queries must have the {d} columns of the rows. Got shape {queries.shape}.")
    frame = placed.frame
    scale = frame.scale_for(queries)
    threads = worker_count(workers, float(len(queries)) * n * d)
    size = max(1, min(QUERY_BLOCK, -(-len(queries) // threads)))
    own = threading.local()
    with crew(threads) as run:
        for chunk in placed.chunks(scale, run):

            def work(block: slice, chunk: RowChunk = chunk) -> None:
                if not hasattr(own, "room"):
                    own.room = Room()
                visit(QueryBlock(block, frame.operand(queries[block], scale), own.room), chunk, scale)

            run(work, slices(len(queries), size))
