"""The square wave on 1M x 20: records that report 1, 6 or all of their columns, beside that many uniform numbers.

All on the same AES counter stream, one thread. What is drawn is checked: the share of values within the window.

Run: python benchmarks/bench_square_wave.py [--rows 1000000] [--columns 20] [--repeats 5]
"""

from __future__ import annotations

import argparse

import numpy as np
from side_by_side import in_turns, ratio

from sfumato.channels import SquareWave
from sfumato.mechanisms import SquareWaveColumns
from sfumato.noise import Streams
from sfumato.table import Encoding

EPSILON = 4.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    shape = given.rows, given.columns
    rng = Streams.seeded(1).generator(0)
    X = np.asfortranarray(np.random.default_rng(0).random(shape))
    encoding = Encoding.unit(given.columns, public=True)
    channels = {kind: SquareWave.of_epsilon(EPSILON, exact=kind == "exact") for kind in ("float", "exact")}
    made = {
        (kind, k): SquareWaveColumns(EPSILON * k, columns=k, noise=kind).fit(X[:2], encoding=encoding)
        for kind in ("float", "exact")
        for k in (1, 6, given.columns)
    }
    print(f"{shape[0]:,} x {shape[1]}, epsilon {EPSILON:g} a column, one thread, AES counter stream", flush=True)
    candidates = {"uniform numbers": lambda: rng.random(shape)}
    candidates |= {
        f"{kind}, records report {k}": lambda one=one: one.perturb(X, None, rng).X for (kind, k), one in made.items()
    }
    best, answers = in_turns(candidates, given.repeats)
    for name in list(best)[1:]:
        ratio(
            f"{name} / uniforms", best[name], best["uniform numbers"], "5" if name.startswith("float") else "reported"
        )
        found = answers[name]
        told = ~np.isnan(found)
        near = np.mean(np.abs(found[told] - X[told]) <= 0.5 * channels[name[:5]].window)
        assert abs(near - channels["float"].near) < 6 / np.sqrt(told.sum()), name


if __name__ == "__main__":
    main()
