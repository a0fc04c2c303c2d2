"""What is asked of an array library, and how NumPy, CuPy and PyTorch do it."""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sfumato.core.errors import UsageError

GROUP = 256
"""Rows that share one smallest product."""
FAR = 1e30
"""Square of rows that only fill up a group."""


class Arrays(Protocol):
    """The few operations that are asked of an array library; arrays of it are never looked into."""

    namespace: Any
    """The library's own functions, for what has the same name and meaning in NumPy, CuPy and PyTorch."""
    coarser: float
    """The error bound of a product, in those of single precision."""
    bytes_of_a_pair: float
    """Memory that `group_minima` takes for every pair of a query and a row."""

    def put(self, matrix: npt.NDArray[Any]) -> Any:
        """A matrix on the device, in double precision."""

    def operand(self, points: Any, centre: Any, scale: float, far: int = 0) -> tuple[Any, float]:
        """[b, ||b||^2, 1] in single precision for every point b = scale (x - centre), and after them as many rows `far`
        from everybody; and the largest of the squares."""

    def as_query(self, operand: Any) -> Any:
        """[-2a, 1, ||a||^2] from [a, ||a||^2, 1]."""

    def group_minima(self, queries: Any, rows: Any) -> Any:
        """Smallest product of every query (row of the first) with every group of GROUP rows of the second."""

    def smallest(self, found: Any, count: int) -> tuple[Any, Any]:
        """The `count` smallest of every line, in order, and their places."""

    def in_groups(self, queries: Any, rows: Any, groups: Any) -> Any:
        """Products of every query with the rows of its own groups, group after group."""

    def pick(self, values: Any, places: Any) -> Any:
        """From every line of `values` those at the places of the same line."""

    def squares(self, queries: Any, rows: Any, places: Any, own: npt.NDArray[np.int64] | None) -> Any:
        """Squared distance of every query to the rows at its places, by differences; infinite where there is no row,
        and at its `own` row."""

    def joined(self, parts: list[Any]) -> Any:
        """Matrices side by side."""

    def pairs(self, flags: Any) -> tuple[Any, Any]:
        """Lines and columns of a matrix where it is true."""

    def first(self, flags: Any, axis: int) -> Any:
        """The first place along an axis that is true; 0 where none is."""

    def get(self, found: Any) -> npt.NDArray[Any]:
        """Back as NumPy has it."""

    def is_full(self, error: BaseException) -> bool:
        """Whether this error says that memory ran out."""


class NumpyArrays:
    """NumPy, or a library that looks like it (CuPy).

    NumPy itself is slower here than the processor's own way, but it shows that the road is right.
    """

    coarser, bytes_of_a_pair = 1.0, 4.0

    def __init__(self, library: ModuleType = np) -> None:
        self._np: Any = library
        self.namespace: Any = library

    def put(self, matrix: npt.NDArray[Any]) -> Any:
        return self._np.asarray(matrix)

    def operand(self, points: Any, centre: Any, scale: float, far: int = 0) -> tuple[Any, float]:
        inside = (points - centre) * scale
        squares = (inside * inside).sum(axis=1)
        made = self._np.zeros((len(points) + far, points.shape[1] + 2), dtype=np.float32)
        made[: len(points), :-2], made[: len(points), -2], made[:, -1] = inside, squares, 1.0
        made[len(points) :, -2] = FAR
        return made, float(squares.max())

    def as_query(self, operand: Any) -> Any:
        return self._np.concatenate([-2.0 * operand[:, :-2], operand[:, -1:], operand[:, -2:-1]], axis=1)

    def group_minima(self, queries: Any, rows: Any) -> Any:
        return (queries @ rows.T).reshape(len(queries), -1, GROUP).min(axis=2)

    def smallest(self, found: Any, count: int) -> tuple[Any, Any]:
        places = self._np.argsort(found, axis=1)[:, :count]
        return self._np.take_along_axis(found, places, axis=1), places

    def in_groups(self, queries: Any, rows: Any, groups: Any) -> Any:
        near = rows.reshape(-1, GROUP, rows.shape[1])[groups].reshape(len(queries), -1, rows.shape[1])
        return (near @ queries[:, :, None])[:, :, 0]

    def pick(self, values: Any, places: Any) -> Any:
        return self._np.take_along_axis(values, places, axis=1)

    def squares(self, queries: Any, rows: Any, places: Any, own: npt.NDArray[np.int64] | None) -> Any:
        there = places < len(rows)
        if own is not None:
            there &= places != self.put(own)[:, None]
        near = rows[self._np.minimum(places, len(rows) - 1)]
        near -= queries[:, None, :]
        return self._np.where(there, (near * near).sum(axis=2), np.inf)

    def joined(self, parts: list[Any]) -> Any:
        return self._np.concatenate(parts, axis=1)

    def pairs(self, flags: Any) -> tuple[Any, Any]:
        line, column = self._np.nonzero(flags)
        return line, column

    def first(self, flags: Any, axis: int) -> Any:
        return flags.argmax(axis=axis)

    def get(self, found: Any) -> npt.NDArray[Any]:
        return np.asarray(found if self._np is np else self._np.asnumpy(found))

    def is_full(self, error: BaseException) -> bool:
        if self._np is np:
            return isinstance(error, MemoryError)
        if not isinstance(error, self._np.cuda.memory.OutOfMemoryError):
            return False
        self._np.get_default_memory_pool().free_all_blocks()
        return True


class TorchArrays:
    """PyTorch on any of its devices: by the fused kernel on a card, else by products in full single precision."""

    coarser, bytes_of_a_pair = 1.0, 4.0

    def __init__(self, device: str) -> None:
        try:
            import torch
        except ImportError:
            raise UsageError(
                f"--device {device} needs PyTorch, which is not installed. Install torch (or CuPy, for --device cupy), "
                "or leave --device out."
            ) from None
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise UsageError("--device cuda finds no card here. Leave --device out to use the processor.")
        torch.backends.cuda.matmul.allow_tf32 = False  # ten bits of a product would break the proven bound
        self._torch: Any = torch
        self.namespace: Any = torch
        try:
            self._device = torch.device(device)
        except RuntimeError:
            raise UsageError(f"PyTorch knows no device {device!r}. Use cuda, cuda:1, cupy or cpu.") from None
        self._fused: ModuleType | None = None
        if self._device.type == "cuda" and torch.cuda.get_device_capability(self._device) >= (8, 0):
            with suppress(ImportError):  # older cards lack the tensor cores that the kernel needs
                from sfumato.table.neighbours import fused

                self._fused, self.coarser, self.bytes_of_a_pair = fused, fused.COARSER, 4.0 / GROUP

    def put(self, matrix: npt.NDArray[Any]) -> Any:
        return self._torch.from_numpy(np.ascontiguousarray(matrix)).to(self._device)

    def operand(self, points: Any, centre: Any, scale: float, far: int = 0) -> tuple[Any, float]:
        inside = (points - centre) * scale
        squares = (inside * inside).sum(dim=1)
        made = self._torch.zeros(
            (len(points) + far, points.shape[1] + 2), dtype=self._torch.float32, device=self._device
        )
        made[: len(points), :-2], made[: len(points), -2], made[:, -1] = inside, squares, 1.0
        made[len(points) :, -2] = FAR
        return made, float(squares.max())

    def as_query(self, operand: Any) -> Any:
        return self._torch.cat([-2.0 * operand[:, :-2], operand[:, -1:], operand[:, -2:-1]], dim=1)

    def group_minima(self, queries: Any, rows: Any) -> Any:
        if self._fused is not None:
            return self._fused.group_minima(queries, rows, GROUP)
        return (queries @ rows.T).view(len(queries), -1, GROUP).amin(dim=2)

    def smallest(self, found: Any, count: int) -> tuple[Any, Any]:
        values, places = self._torch.topk(found, count, dim=1, largest=False, sorted=True)
        return values, places

    def in_groups(self, queries: Any, rows: Any, groups: Any) -> Any:
        near = rows.view(-1, GROUP, rows.shape[1])[groups].flatten(1, 2)
        return self._torch.bmm(near, queries.unsqueeze(2)).squeeze(2)

    def pick(self, values: Any, places: Any) -> Any:
        return self._torch.gather(values, 1, places)

    def squares(self, queries: Any, rows: Any, places: Any, own: npt.NDArray[np.int64] | None) -> Any:
        there = places < len(rows)
        if own is not None:
            there &= places != self.put(own).unsqueeze(1)
        near = rows[places.clamp(max=len(rows) - 1)]
        near -= queries.unsqueeze(1)
        return self._torch.where(there, (near * near).sum(dim=2), self._torch.inf)

    def joined(self, parts: list[Any]) -> Any:
        return self._torch.cat(parts, dim=1)

    def pairs(self, flags: Any) -> tuple[Any, Any]:
        line, column = self._torch.nonzero(flags, as_tuple=True)
        return line, column

    def first(self, flags: Any, axis: int) -> Any:
        return flags.to(self._torch.uint8).argmax(dim=axis)

    def get(self, found: Any) -> npt.NDArray[Any]:
        return np.asarray(found.cpu().numpy())

    def is_full(self, error: BaseException) -> bool:
        if not isinstance(error, self._torch.cuda.OutOfMemoryError):
            return isinstance(error, MemoryError)
        self._torch.cuda.empty_cache()
        return True


def arrays_for(device: str) -> Arrays:
    """The library that works on a device: cupy, or any device of PyTorch."""
    if device != "cupy":
        return TorchArrays(device)
    try:
        import cupy
    except ImportError:
        raise UsageError(
            "--device cupy needs CuPy, which is not installed. Install it, or leave --device out."
        ) from None
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError:
        raise UsageError("--device cupy finds no card here. Leave --device out to use the processor.") from None
    return NumpyArrays(cupy)
