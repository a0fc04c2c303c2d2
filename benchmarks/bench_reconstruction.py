"""Leave-one-out width against the double sum of Eq. 5, and reconstruction of one column from a stream.

The double sum is the paper's criterion in plain numpy at N = 3,195; the width must agree to 1e-3. The stream is a
generator of blocks (so that no array of N values ever exists), N = 10^5 to 10^7, counted, and reconstructed with its
automatic penalty and no band; memory is the growth of a child process. Least of several rounds: machines are noisy.

Run: python benchmarks/bench_reconstruction.py [--repeats 5] [--most 10000000]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.noise import OperatorNoise, make_law, make_operator
from sfumato.reconstruction.evidence import Bins
from sfumato.reconstruction.parzen_program import LeaveOneOut, leave_one_out_width
from sfumato.reconstruction.reconstruct import reconstruct

NOISE = OperatorNoise(make_operator("multiplicative"), make_law("uniform", low=1, high=3))
SUPPORT = (1.0, 30.0)
BLOCK = 1 << 18


def blocks(rows: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Released values, block by block."""
    rng = np.random.default_rng(seed)
    for start in range(0, rows, BLOCK):
        x = np.clip(1 + rng.gamma(4, 2, min(BLOCK, rows - start)), *SUPPORT)
        yield NOISE.sample(x, rng)


def timed(work, repeats):
    """Least seconds on the clock and of the processor, and the answer."""
    found = []
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        answer = work()
        found.append((time.perf_counter() - wall, time.process_time() - cpu))
    return min(wall for wall, _ in found), min(cpu for _, cpu in found), answer


def double_sum(z: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Eq. 5 as it is printed, for each width."""
    n = len(z)
    distance = np.abs(z[:, None] - z[None, :])
    found = []
    for width in widths:
        wide = np.exp(-0.25 * (distance / width) ** 2).sum() / (2 * width * np.sqrt(np.pi))
        narrow = (np.exp(-0.5 * (distance / width) ** 2).sum() - n) / (width * np.sqrt(2 * np.pi))
        found.append(wide / n**2 - 2 * narrow / (n * (n - 1)))
    return np.array(found)


def width_benchmark(repeats: int, most: int) -> None:
    z = np.concatenate(list(blocks(3195)))
    low, high = z.min(), z.max()
    width = leave_one_out_width(Bins.over(low, high).of(z))
    widths = width * np.geomspace(0.1, 10, 40)
    slow, slow_cpu, direct = timed(lambda: double_sum(z, widths), 1)
    quick, quick_cpu, _ = timed(lambda: leave_one_out_width(Bins.over(low, high).of(z)), repeats)
    ours = np.array([LeaveOneOut(Bins.over(low, high).of(z))(w) for w in widths])
    fine = width * np.linspace(0.98, 1.02, 41)
    best = np.polyfit(fine, double_sum(z, fine), 2)
    gap = abs(width / (-best[1] / (2 * best[0])) - 1)
    print(
        f"LOO width, N = 3,195: double sum over 40 widths {slow:.2f} s, ours (binning, search over all widths) "
        f"{1e3 * quick:.1f} ms: {slow / quick:.0f} x (processor {slow_cpu / quick_cpu:.0f} x); "
        f"width agrees to {gap:.0e}, criterion to {np.max(np.abs(ours / direct - 1)):.0e}"
    )
    for rows in (rows for rows in (10**5, 10**6, 10**7) if rows <= most):
        bins = Bins.over(1, 90)
        counting, _, bins = timed(lambda rows=rows, bins=bins: bins.of(blocks(rows)), 1)
        search, cpu, _ = timed(lambda bins=bins: leave_one_out_width(bins), repeats)
        values = np.concatenate(list(blocks(min(rows, 10**6))))
        binning, _, _ = timed(lambda values=values: Bins.over(1, 90).of(values), repeats)
        print(
            f"LOO width, N = {rows:,}: {1e3 * search:.1f} ms after binning (processor {1e3 * cpu:.1f} ms); "
            f"binning {1e9 * binning / len(values):.0f} ns a value ({counting:.2f} s with drawing them)"
        )


def column(rows: int) -> None:
    """In a child process: one column from a stream, and what memory it took beyond the program itself."""
    for _ in blocks(BLOCK):
        pass
    reconstruct(blocks(10_000), NOISE, support=SUPPORT, resamples=0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    drawing, _, _ = timed(lambda: sum(len(block) for block in blocks(rows)), 1)
    whole, _, found = timed(lambda: reconstruct(blocks(rows), NOISE, support=SUPPORT, resamples=0), 1)
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(
        f"whole column, N = {rows:,}: {whole - drawing:.2f} s ({whole:.2f} s less {drawing:.2f} s for drawing the "
        f"values), {more:.0f} MB more memory, penalty {found.about['penalty']:g}"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--most", type=int, default=10**7)
    options.add_argument("--column", type=int, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.column:
        column(chosen.column)
        return
    with threadpool_limits(1):
        width_benchmark(chosen.repeats, chosen.most)
    rows = 10**5
    while rows <= chosen.most:
        subprocess.run([sys.executable, __file__, "--column", str(rows)], check=True)
        rows *= 10


if __name__ == "__main__":
    main()
