"""Laplace noise, million draws a second: exact on a grid, in floating point, and NumPy's own.

All on the same AES counter stream, one thread. Scales are checked: the mean of |noise| is the scale. OpenDP's sampler
is timed too where it is installed (peers.py).

Run: python benchmarks/bench_noise.py [--draws 4000000] [--repeats 9]
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable

import numpy as np
from peers import python_with
from side_by_side import Rounds, in_turns, ratio

from sfumato.channels.additive import draw_laplace, laplace_channels
from sfumato.noise import Laplace, Streams, discrete_laplace

BITS = 40
OPENDP = """
import json, sys, time
import opendp.prelude as dp
dp.enable_features("contrib")
count = int(sys.argv[1])
space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.l1_distance(T=dp.i64)
draw = dp.m.make_laplace(*space, scale=float(2 ** 40))
zeros = [0] * count
best, used = 1e9, 1e9
for _ in range(3):
    wall, cpu = time.perf_counter(), time.process_time()
    found = draw(zeros)
    best, used = min(best, time.perf_counter() - wall), min(used, time.process_time() - cpu)
print(json.dumps({"wall": best, "cpu": used, "scale": sum(map(abs, found)) / count / 2 ** 40}))
"""


def mechanism(exact: bool, columns: int) -> Callable[[np.ndarray, np.random.Generator], np.ndarray]:
    """Clip, round to the grid where exact, and add noise: what a release does to its scores."""
    low, high, scale = np.full(columns, -1.0), np.full(columns, 1.0), np.full(columns, 0.6)
    channels = laplace_channels(low, high, scale, exact=exact)
    return lambda Z, rng: draw_laplace(channels, Z, rng)


def opendp(count: int) -> tuple[Rounds, float] | None:
    if not (python := python_with("opendp")):
        return None
    done = subprocess.run([python, "-c", OPENDP, str(count)], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    return Rounds((found["wall"],), (found["cpu"],)), found["scale"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=4_000_000)
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    count, columns = given.draws, 50
    rng = Streams.seeded(1).generator(0)
    Z = np.zeros((count // columns, columns), order="F")
    print(f"{count:,} draws of Laplace noise, one thread, AES counter stream", flush=True)
    best, answers = in_turns(
        {
            "exact, on a grid of 2^-40 scales": lambda: discrete_laplace(rng, BITS, count),
            "float, difference of two exponentials": lambda: Laplace(1.0).sample(rng, count),
            "float, Generator.laplace": lambda: rng.laplace(size=count),
            "exact, as a mechanism adds it": lambda: mechanism(True, columns)(Z, rng) is None,
            "float, as a mechanism adds it": lambda: mechanism(False, columns)(Z, rng) is None,
        },
        given.repeats,
    )
    for name, timing in best.items():
        print(f"  {name:52s} {count / timing.wall / 1e6:8.1f} M/s {count / timing.cpu / 1e6:8.1f} M/processor s")
    exact, quick = best["exact, on a grid of 2^-40 scales"], best["float, difference of two exponentials"]
    ratio("exact / float", exact, quick)
    ratio("Generator.laplace / float", best["float, Generator.laplace"], quick)
    ratio(
        "exact / float, as a mechanism adds it",
        *(best[f"{kind}, as a mechanism adds it"] for kind in ("exact", "float")),
    )
    scales = {name: float(np.abs(answers[name]).mean()) for name in list(best)[:3]}
    scales["exact, on a grid of 2^-40 scales"] /= 2.0**BITS
    peer = opendp(count // 100)
    if peer:
        timing, scales["OpenDP"] = peer
        per_draw = Rounds((timing.wall * 100,), (timing.cpu * 100,))
        print(f"  {'OpenDP, integers of the same scale':52s} {count / per_draw.wall / 1e6:8.2f} M/s")
        ratio("OpenDP / exact", per_draw, exact)
    print("  mean |noise| over the scale: " + ", ".join(f"{name} {scale:.4f}" for name, scale in scales.items()))
    for name, scale in scales.items():
        assert abs(scale - 1) < 5 / np.sqrt(count // (100 if name == "OpenDP" else 1)), name


if __name__ == "__main__":
    main()
