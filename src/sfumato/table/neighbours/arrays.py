"""What is asked of an array library, and how NumPy, CuPy and PyTorch do it."""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.core.errors import UsageError

GROUP = 256
"""Rows that share one smallest product."""
FAR = 1e30
"""Square of rows that only fill up a group."""


class Arrays:
    """The few operations that are asked of an array library, as NumPy does them, or one that looks like it (CuPy).
    Arrays of the library are never looked into. NumPy itself is slower here than the processor's own way, but it shows
    that the road is right."""

    coarser = 1.0
    """The error bound of a product, in those of single precision."""
    bytes_of_a_pair = 4.0
    """Memory that `group_minima` takes for every pair of a query and a row."""

    def __init__(self, library: ModuleType = np) -> None:
        self.namespace: Any = library
        """The library's own functions, for what has the same name and meaning in NumPy, CuPy and PyTorch."""

    def put(self, matrix: npt.NDArray[Any]) -> Any:
        """A matrix on the device, in double precision."""
        return self.namespace.asarray(matrix)

    def _zeros(self, rows: int, columns: int) -> Any:
        return self.namespace.zeros((rows, columns), dtype=np.float32)

    def operand(self, points: Any, centre: Any, scale: float, far: int = 0) -> tuple[Any, float]:
        """[b, ||b||^2, 1] in single precision for every point b = scale (x - centre), and after them as many rows `far`
        from everybody; and the largest of the squares."""
        inside = (points - centre) * scale
        squares = (inside * inside).sum(axis=1)
        made = self._zeros(len(points) + far, points.shape[1] + 2)
        made[: len(points), :-2], made[: len(points), -2], made[:, -1] = inside, squares, 1.0
        made[len(points) :, -2] = FAR
        return made, float(squares.max())

    def as_query(self, operand: Any) -> Any:
        """[-2a, 1, ||a||^2] from [a, ||a||^2, 1]."""
        return self.joined([-2.0 * operand[:, :-2], operand[:, -1:], operand[:, -2:-1]])

    def group_minima(self, queries: Any, rows: Any) -> Any:
        """Smallest product of every query (row of the first) with every group of GROUP rows of the second."""
        return self.namespace.amin((queries @ rows.T).reshape(len(queries), -1, GROUP), axis=2)

    def smallest(self, found: Any, count: int) -> tuple[Any, Any]:
        """The `count` smallest of every line, in order, and their places."""
        places = self.namespace.argsort(found, axis=1)[:, :count]
        return self.pick(found, places), places

    def in_groups(self, queries: Any, rows: Any, groups: Any) -> Any:
        """Products of every query with the rows of its own groups, group after group."""
        near = rows.reshape(-1, GROUP, rows.shape[1])[groups].reshape(len(queries), -1, rows.shape[1])
        return (near @ queries[:, :, None])[:, :, 0]

    def pick(self, values: Any, places: Any) -> Any:
        """From every line of `values` those at the places of the same line."""
        return self.namespace.take_along_axis(values, places, axis=1)

    def squares(self, queries: Any, rows: Any, places: Any) -> Any:
        """Squared distance of every query to the rows at its places, by differences; infinite where there is no row."""
        near = rows[places.clip(max=len(rows) - 1)]
        near -= queries[:, None, :]
        return self.namespace.where(places < len(rows), (near * near).sum(axis=2), np.inf)

    def joined(self, parts: list[Any]) -> Any:
        """Matrices side by side."""
        return self.namespace.concatenate(parts, axis=1)

    def pairs(self, flags: Any) -> tuple[Any, Any]:
        """Lines and columns of a matrix where it is true."""
        line, column = self.namespace.where(flags)
        return line, column

    def first(self, flags: Any, axis: int) -> Any:
        """The first place along an axis that is true; 0 where none is."""
        return flags.argmax(axis=axis)

    def get(self, found: Any) -> npt.NDArray[Any]:
        """Back as NumPy has it."""
        return np.asarray(found if self.namespace is np else self.namespace.asnumpy(found))

    def is_full(self, error: BaseException) -> bool:
        """Whether this error says that memory ran out."""
        if self.namespace is np:
            return isinstance(error, MemoryError)
        if not isinstance(error, self.namespace.cuda.memory.OutOfMemoryError):
            return False
        self.namespace.get_default_memory_pool().free_all_blocks()
        return True


class TorchArrays(Arrays):
    """PyTorch on any of its devices: by the fused kernel on a card, else by products in full single precision."""

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
        super().__init__(torch)
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
        return self.namespace.from_numpy(np.ascontiguousarray(matrix)).to(self._device)

    def _zeros(self, rows: int, columns: int) -> Any:
        return self.namespace.zeros((rows, columns), dtype=self.namespace.float32, device=self._device)

    def group_minima(self, queries: Any, rows: Any) -> Any:
        if self._fused is not None:
            return self._fused.group_minima(queries, rows, GROUP)
        return super().group_minima(queries, rows)

    def smallest(self, found: Any, count: int) -> tuple[Any, Any]:
        values, places = self.namespace.topk(found, count, dim=1, largest=False, sorted=True)
        return values, places

    def pick(self, values: Any, places: Any) -> Any:
        return self.namespace.gather(values, 1, places)

    def first(self, flags: Any, axis: int) -> Any:
        return flags.to(self.namespace.uint8).argmax(dim=axis)

    def get(self, found: Any) -> npt.NDArray[Any]:
        return np.asarray(found.cpu().numpy())

    def is_full(self, error: BaseException) -> bool:
        if not isinstance(error, self.namespace.cuda.OutOfMemoryError):
            return isinstance(error, MemoryError)
        self.namespace.cuda.empty_cache()
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
    return Arrays(cupy)
