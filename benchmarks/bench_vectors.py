"""PrivUnitG on 1M vectors of 20 coordinates, beside that many normal numbers; in floating point and in integers.

All on the same AES counter stream, one thread. What is drawn is checked: the share of vectors in their cap.

Run: python benchmarks/bench_vectors.py [--rows 1000000] [--columns 20] [--repeats 3]
"""

from __future__ import annotations

import argparse

import numpy as np
from side_by_side import in_turns, ratio

from sfumato.channels import UnitVector
from sfumato.noise import Streams


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    rng = Streams.seeded(1).generator(0)
    v = np.random.default_rng(0).standard_normal((given.rows, given.columns))
    v /= np.linalg.norm(v, axis=1, keepdims=True)
    few = v[: max(1, given.rows // 20)]
    for epsilon in (4.0, 8.0, 16.0):
        quick, exact = (UnitVector.of_epsilon(epsilon, given.columns, exact=exact) for exact in (False, True))
        print(f"{given.rows:,} x {given.columns}, epsilon {epsilon:g}, one thread, AES counter stream", flush=True)
        best, answers = in_turns(
            {
                "normal numbers": lambda: rng.standard_normal(v.shape),
                "float": lambda one=quick: one.draw(v, rng),
                "a twentieth of the normal numbers": lambda: rng.standard_normal(few.shape),
                "exact, a twentieth of the rows": lambda one=exact: one.draw(few, rng),
            },
            given.repeats,
        )
        ratio("float / normals", best["float"], best["normal numbers"], "5")
        twentieth = best["a twentieth of the normal numbers"]
        ratio("exact / normals", best["exact, a twentieth of the rows"], twentieth, "reported")
        for name, channel in (("float", quick), ("exact, a twentieth of the rows", exact)):
            near = np.mean(
                np.einsum("ij,ij->i", answers[name], v[: len(answers[name])]) >= channel.tail * channel.scale
            )
            assert abs(near - channel.near) < 6 / np.sqrt(len(answers[name])), name


if __name__ == "__main__":
    main()
