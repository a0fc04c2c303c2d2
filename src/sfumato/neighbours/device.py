"""The nearest rows by a card or another array library: large products there, the last word here in double precision.

The device multiplies in single precision and keeps, of every group of rows, only the smallest product. A query's k
nearest rows lie in at most k groups. So a few groups with the smallest products are looked at again, row by row, and
what may be among the nearest is measured here by differences, as everywhere else. A query is *settled* when everything
that was not measured lies, by more than the proven error of a product, beyond its k-th nearest row. The others (ties,
crowds) are answered by the processor. So the answers are those of the processor, ties included.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sfumato.array_types import Codes, Flags, Floats
from sfumato.errors import UsageError
from sfumato.neighbours.frame import Frame, as_query, error_bound, pair_squares

GROUP = 256
"""Rows that share one smallest product."""
SPARE_GROUPS, SPARE_ROWS = 3, 6
DEVICE_BYTES = 1 << 32
"""What one block of products may take; `--device-memory` sets another limit."""
LEAST_BLOCK = 64


class DeviceMemoryWarning(UserWarning):
    """The card has less memory than was counted on; work goes on in smaller blocks."""


class Arrays(Protocol):
    """The few operations that are asked of an array library; arrays of it are never looked into."""

    def put(self, matrix: npt.NDArray[Any]) -> Any:
        """A matrix on the device, in single precision."""

    def group_minima(self, queries: Any, rows: Any) -> Any:
        """Smallest product of every query (row of the first) with every group of GROUP rows of the second."""

    def smallest(self, found: Any, count: int) -> tuple[Any, Any]:
        """The `count` smallest of every line, in order, and their places."""

    def in_groups(self, queries: Any, rows: Any, groups: Any) -> Any:
        """Products of every query with the rows of its own groups, group after group."""

    def joined(self, parts: list[Any]) -> Any:
        """Matrices side by side."""

    def get(self, found: Any) -> npt.NDArray[Any]:
        """Back as NumPy has it."""

    def is_full(self, error: BaseException) -> bool:
        """Whether this error says that memory ran out."""


class NumpyArrays:
    """NumPy itself: slower than the processor's own way, but it shows that the road is right."""

    def put(self, matrix: npt.NDArray[Any]) -> Any:
        return np.ascontiguousarray(matrix, dtype=np.float32)

    def group_minima(self, queries: Any, rows: Any) -> Any:
        return (queries @ rows.T).reshape(len(queries), -1, GROUP).min(axis=2)

    def smallest(self, found: Any, count: int) -> tuple[Any, Any]:
        places = np.argsort(found, axis=1, kind="stable")[:, :count]
        return np.take_along_axis(found, places, axis=1), places

    def in_groups(self, queries: Any, rows: Any, groups: Any) -> Any:
        near = rows.reshape(-1, GROUP, rows.shape[1])[groups].reshape(len(queries), -1, rows.shape[1])
        return np.einsum("qd,qrd->qr", queries, near)

    def joined(self, parts: list[Any]) -> Any:
        return np.concatenate(parts, axis=1)

    def get(self, found: Any) -> npt.NDArray[Any]:
        return np.asarray(found)

    def is_full(self, error: BaseException) -> bool:
        return isinstance(error, MemoryError)


class TorchArrays:
    """PyTorch on any of its devices, in full single precision."""

    def __init__(self, device: str) -> None:
        try:
            import torch
        except ImportError:
            raise UsageError(
                f"--device {device} needs PyTorch, which is not installed. Install torch, or leave --device out."
            ) from None
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise UsageError("--device cuda finds no card here. Leave --device out to use the processor.")
        torch.backends.cuda.matmul.allow_tf32 = False  # ten bits of a product would break the proven bound
        self._torch: Any = torch
        try:
            self._device = torch.device(device)
        except RuntimeError:
            raise UsageError(f"PyTorch knows no device {device!r}. Use cuda, cuda:1 or cpu.") from None

    def put(self, matrix: npt.NDArray[Any]) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(matrix, dtype=np.float32)).to(self._device)

    def group_minima(self, queries: Any, rows: Any) -> Any:
        return (queries @ rows.T).view(len(queries), -1, GROUP).amin(dim=2)

    def smallest(self, found: Any, count: int) -> tuple[Any, Any]:
        values, places = self._torch.topk(found, count, dim=1, largest=False, sorted=True)
        return values, places

    def in_groups(self, queries: Any, rows: Any, groups: Any) -> Any:
        near = rows.view(-1, GROUP, rows.shape[1])[groups].flatten(1, 2)
        return self._torch.bmm(near, queries.unsqueeze(2)).squeeze(2)

    def joined(self, parts: list[Any]) -> Any:
        return self._torch.cat(parts, dim=1)

    def get(self, found: Any) -> npt.NDArray[Any]:
        return np.asarray(found.cpu().numpy())

    def is_full(self, error: BaseException) -> bool:
        if not isinstance(error, self._torch.cuda.OutOfMemoryError):
            return isinstance(error, MemoryError)
        self._torch.cuda.empty_cache()
        return True


_chosen: ContextVar[tuple[Arrays, int] | None] = ContextVar("device", default=None)


@contextmanager
def on_device(device: str | Arrays | None, memory: int = DEVICE_BYTES) -> Iterator[None]:
    """Look for nearest rows on this device while the block of code runs; None stands for the processor."""
    arrays = TorchArrays(device) if isinstance(device, str) else device
    token = _chosen.set(None if arrays is None else (arrays, memory))
    try:
        yield
    finally:
        _chosen.reset(token)


def chosen() -> tuple[Arrays, int] | None:
    """The device that is in use, and the memory that a block may take there."""
    return _chosen.get()


def nearest_on_device(
    arrays: Arrays, a: Floats, b: Floats, k: int, *, exclude_self: bool, frame: Frame | None, memory: int
) -> tuple[Floats, Codes, Flags]:
    """Squared distances and indices as `nearest` has them, and which queries are settled; the rest is undefined."""
    frame = frame or Frame.of(b)
    scale = frame.scale_for(a)
    d, padded = b.shape[1], -(-len(b) // GROUP) * GROUP
    operand = np.zeros((padded, d + 2))
    frame.operand(b, scale, out=operand[: len(b)])
    row_square = float(operand[:, d].max())
    operand[len(b) :, d] = 1e30  # rows that are not there are far from everybody
    rows = arrays.put(operand)
    best, index = np.full((len(a), k), np.inf), np.full((len(a), k), len(b), dtype=np.int64)
    settled = np.zeros(len(a), dtype=bool)
    by_row = 4 * GROUP * max(64, (k + 1 + SPARE_GROUPS) * (d + 2))  # bytes that a query takes where most are taken
    block, start = max(LEAST_BLOCK, min(1 << 14, memory // by_row)), 0
    while start < len(a):
        at = slice(start, min(start + block, len(a)))
        try:
            place, product = _candidates(arrays, frame.operand(a[at], scale), rows, k + exclude_self, memory)
        except (MemoryError, RuntimeError) as error:
            if not arrays.is_full(error) or block <= LEAST_BLOCK:
                raise
            block, memory = block // 2, memory // 2
            warnings.warn(
                f"The device ran out of memory; going on with blocks of {block} queries.",
                DeviceMemoryWarning,
                stacklevel=3,
            )
            continue
        query_square = float(((a[at] - frame.centre) ** 2).sum(axis=1).max()) * scale**2
        bound = error_bound(d, query_square, row_square, np.float32)
        best[at], index[at], settled[at] = _measured(a, b, at, place, product, k, exclude_self, scale, bound)
        start = at.stop
    return best, index, settled


def _candidates(
    arrays: Arrays, operand: Floats, rows: Any, k: int, memory: int
) -> tuple[Codes, npt.NDArray[np.float32]]:
    """Rows with the smallest products of every query; the last product is one that all other rows reach."""
    queries = arrays.put(as_query(operand))
    height = len(rows)
    step = max(GROUP, memory // (4 * len(operand)) // GROUP * GROUP)
    parts = [arrays.group_minima(queries, rows[start : start + step]) for start in range(0, height, step)]
    minima = arrays.joined(parts)
    groups = min(k + SPARE_GROUPS, height // GROUP)
    beyond, which = arrays.smallest(minima, min(groups + 1, height // GROUP))
    found = arrays.in_groups(queries, rows, which[:, :groups])
    product, place = arrays.smallest(found, min(k + SPARE_ROWS, groups * GROUP))
    picked, place = arrays.get(which), arrays.get(place)
    lines = np.arange(len(operand))[:, None]
    candidates = picked[lines, place // GROUP] * GROUP + place % GROUP
    reached = arrays.get(product)[:, -1:].astype(np.float32)
    if groups < height // GROUP:
        reached = np.minimum(reached, arrays.get(beyond)[:, -1:])
    elif product.shape[1] == height:
        reached = np.full_like(reached, np.inf)  # there are no others
    return candidates.astype(np.int64), reached


def _measured(
    a: Floats,
    b: Floats,
    at: slice,
    place: Codes,
    reached: npt.NDArray[np.float32],
    k: int,
    exclude_self: bool,
    scale: float,
    bound: float,
) -> tuple[Floats, Codes, Flags]:
    """The k nearest candidates by differences in double precision, lowest index first; and who is settled."""
    count = place.shape[1]
    there = place < len(b)
    if exclude_self:
        there &= place != np.arange(at.start, at.stop)[:, None]
    query_at = np.repeat(np.arange(at.stop - at.start), count)
    squares = pair_squares(a[at], b, query_at, np.minimum(place, len(b) - 1).ravel()).reshape(place.shape)
    squares[~there] = np.inf
    order = np.lexsort((place.ravel(), squares.ravel(), query_at)).reshape(place.shape)[:, :k]
    best, index = squares.ravel()[order], place.ravel()[order]
    # The product of a row that was not measured is at least `reached`, and errs by `bound` at most.
    settled = np.isfinite(best[:, -1]) & (best[:, -1] * scale**2 + 2 * bound < reached[:, 0])
    return best, index, settled
