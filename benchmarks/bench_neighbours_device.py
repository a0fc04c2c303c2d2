"""Nearest rows on a card against the processor: python benchmarks/bench_neighbours_device.py [--device cuda]

Needs NumPy and PyTorch alone, so that it runs on a borrowed machine with a card: of sfumato it loads the room of
neighbours, without what the rest of the package needs. Prints one line per size, and checks answers on a sample against
differences in double precision.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
import time
import types
from pathlib import Path

import numpy as np

SOURCE = Path(__file__).resolve().parent.parent / "src"
SIZES = ((100_000, 20), (1_000_000, 20), (1_000_000, 100))
CHECKED = 50


def neighbours():
    """The module that is needed, without the packages around them."""
    sys.path.insert(0, str(SOURCE))
    for name in ("sfumato", "sfumato.table.neighbours"):
        package = types.ModuleType(name)
        package.__path__ = [str(SOURCE.joinpath(*name.split(".")))]
        sys.modules[name] = package
    try:
        import threadpoolctl  # noqa: F401
    except ImportError:
        stand_in = types.ModuleType("threadpoolctl")
        stand_in.ThreadpoolController = lambda: types.SimpleNamespace(limit=lambda **_: contextlib.nullcontext())
        sys.modules["threadpoolctl"] = stand_in
    return importlib.import_module("sfumato.table.neighbours.nearest")


def plain_prototype(torch, a, b, device):
    """What one would write: blocks of cdist and a minimum."""
    rows = torch.from_numpy(b.astype(np.float32)).to(device)
    found = np.empty(len(a), dtype=np.int64)
    for start in range(0, len(a), 4096):
        queries = torch.from_numpy(a[start : start + 4096].astype(np.float32)).to(device)
        found[start : start + 4096] = torch.cdist(queries, rows).argmin(dim=1).cpu().numpy()
    return found


def clocked(torch, work, device):
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    start = time.perf_counter()
    found = work()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - start, found


def main() -> None:
    try:
        import torch
    except ImportError:
        print("left out: PyTorch is not installed")
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rows", type=int, nargs="*", help="rows of each size, 20 columns; default 100k, 1M, 1M x 100")
    parser.add_argument("--memory", type=int, default=1 << 33, help="bytes for one block of products")
    parser.add_argument("--processor", type=int, default=20_000, help="queries that the processor answers as well")
    given = parser.parse_args()
    if given.device.startswith("cuda") and not torch.cuda.is_available():
        print("left out: there is no card here")
        return
    nearest = neighbours()
    name = torch.cuda.get_device_name() if given.device.startswith("cuda") else "the processor"
    print(f"{name}; torch {torch.__version__}; {CHECKED} queries of each size are checked in double precision")
    for rows, columns in [(n, 20) for n in given.rows] if given.rows else SIZES:
        rng = np.random.default_rng(0)
        b = rng.normal(size=(rows, columns))
        a = b + 0.3 * rng.normal(size=b.shape)
        with nearest.on_device(given.device, given.memory):
            nearest.nearest(a[:2000], b[:2000])  # the first product loads the library
            taken, (_, index) = clocked(torch, lambda a=a, b=b: nearest.nearest(a, b), given.device)
        arrays = nearest.arrays_for(given.device)
        settled = nearest.nearest_on_device((arrays, given.memory), a[:20_000], b, 1)[2].mean()
        plain, guess = clocked(torch, lambda a=a, b=b: plain_prototype(torch, a, b, given.device), given.device)
        some = rng.integers(rows, size=CHECKED)
        right = [int(((b - a[i]) ** 2).sum(axis=1).argmin()) for i in some]
        assert (index[some, 0] == right).all(), "a wrong answer"
        few = a[: given.processor]
        own, (_, expected) = clocked(torch, lambda few=few, b=b: nearest.nearest(few, b), "cpu")
        assert (index[: len(few)] == expected).all(), "other answers than the processor's"
        print(
            f"{rows:>9,} x {columns:<3} device {taken:7.3f} s ({settled:.4%} settled there), cdist {plain:7.3f} s "
            f"({(guess == index[:, 0]).mean():.4%} the same), processor {own / len(few) * rows:8.1f} s "
            f"(from {len(few):,} queries); {2e-12 * rows * rows * (columns + 2) / taken:.1f} TFLOP/s"
        )


if __name__ == "__main__":
    main()
