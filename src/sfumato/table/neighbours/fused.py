"""Group minima on an NVIDIA card that never leave its registers (by Triton, which PyTorch brings along).

A plain product writes 4 bytes for every pair of a query and a row and reads them again; here a pair costs arithmetic
alone. The tensor cores read eleven bits of a factor. So every factor is cut into two parts of that length, and three of
the four products of parts are added, which comes near single precision. `COARSER` says how near.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
import triton
import triton.language as tl

COARSER = 16.0
"""The bound on a product's error is so many times that of single precision.

With u = 2^-24: leaving out the product of the smaller parts, and cutting these to eleven bits in two others, costs at
most 2^-20 = 16u of |a b| each; the tensor cores add without rounding to nearest, at most 2u for each of three times as
many terms. So (6 (d + 2) + 48) u takes the place of (d + 2) u in `tiles.error_bound`, whose whole is 4 (d + 8) u.
"""
_QUERIES, _ROWS, _COLUMNS, _EACH = 128, 256, 32, 16
_LOW_BITS = -(1 << 13)
_one_at_a_time = threading.Lock()
"""Attacks run in several threads, and the first call compiles; a launch itself takes microseconds."""


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _kernel(  # type: ignore[no-untyped-def]
    queries,
    rows,
    found,
    count,
    groups,
    width,
    query_block: tl.constexpr,
    group_rows: tl.constexpr,
    step: tl.constexpr,
    each: tl.constexpr,
):
    mine = (tl.program_id(0) * query_block + tl.arange(0, query_block)).to(tl.int64)
    there = mine < count
    inner = tl.arange(0, step)
    query_at = mine[:, None] * width + inner[None, :]
    for own in range(each):
        group = tl.program_id(1) * each + own
        if group < groups:
            row = (group * group_rows + tl.arange(0, group_rows)).to(tl.int64)
            row_at = row[None, :] * width + inner[:, None]
            total = tl.zeros((query_block, group_rows), tl.float32)
            for column in tl.range(0, width, step, num_stages=3):
                a = tl.load(queries + query_at + column, mask=there[:, None], other=0.0)
                b = tl.load(rows + row_at + column)
                total = tl.dot(a, b, total, input_precision="tf32")
            tl.store(found + mine * groups + group, tl.min(total, axis=1), mask=there)


def group_minima(queries: Any, rows: Any, group: int) -> Any:
    """Smallest product of every query with every group of rows; both are single-precision tensors on a card."""
    assert group == _ROWS
    (query, query_rest), (row, row_rest) = _parts(queries), _parts(rows)
    left = torch.cat([query_rest, query, query], dim=1)  # small terms first
    right = torch.cat([row, row_rest, row], dim=1)
    groups = len(rows) // group
    found = queries.new_empty((len(queries), groups))
    grid = (triton.cdiv(len(queries), _QUERIES), triton.cdiv(groups, _EACH))
    given = {"query_block": _QUERIES, "group_rows": _ROWS, "step": _COLUMNS, "each": _EACH}
    with _one_at_a_time, torch.cuda.device(queries.device):
        _kernel[grid](left, right, found, len(left), groups, left.shape[1], **given, num_warps=8)
    return found


def _parts(matrix: Any) -> tuple[Any, Any]:
    """What the tensor cores read of every number, and the rest, with columns of zeros up to a whole step."""
    full = torch.nn.functional.pad(matrix, (0, -matrix.shape[1] % _COLUMNS))
    first = (full.view(torch.int32) & _LOW_BITS).view(torch.float32)
    return first, full - first
