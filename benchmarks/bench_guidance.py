"""The guided survey in process: guidance for a batch, bits beside a matrix product, a million simulated respondents.

Run: python benchmarks/bench_guidance.py [--repeats 5] [--respondents 1000000]
"""

from __future__ import annotations

import argparse
import os
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices of a few hundred rows: threads only wait for each other

import numpy as np
from side_by_side import in_turns, ratio

from sfumato.channels.guidance.disclosure import simulate
from sfumato.channels.guidance.guidance import Guidance, SurveyCounts, SurveyRules, class_difference
from sfumato.channels.guidance.space import AnswerSpace, bit_probabilities

HUNDRED = AnswerSpace([2] * 100)
NINE = AnswerSpace([4] * 7 + [5, 9])


def people(space: AnswerSpace, rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, rows)
    codes = [np.where(rng.random(rows) < 0.2, y * (size - 1), rng.integers(0, size, rows)) for size in space.sizes]
    return np.column_stack(codes), y


def guidance(repeats: int) -> None:
    print("Guidance for 100 yes-or-no questions after a batch of 100 (target: under 50 ms)")
    codes, y = people(HUNDRED, 5_000)
    counts = SurveyCounts.of(HUNDRED.onehot(codes), y)
    batch = HUNDRED.onehot(codes[:100])
    A = class_difference(counts)
    best, _ = in_turns(
        {
            "counts of the batch + guidance": lambda: Guidance.from_counts(counts + SurveyCounts.of(batch, y[:100])),
            "eigendecomposition alone (numpy)": lambda: np.linalg.eigh(A),
        },
        20 * repeats,
    )
    whole, bare = best["counts of the batch + guidance"], best["eigendecomposition alone (numpy)"]
    ratio("guidance / eigendecomposition", whole, bare)
    print(f"  a batch: {1e3 * whole.wall:.1f} ms")
    if whole.wall > 0.05:
        sys.exit("guidance takes longer than 50 ms")


def bits(repeats: int) -> None:
    print("Bit probabilities of 200,000 answers, 42 bits, k = 8")
    codes, y = people(NINE, 200_000)
    T = NINE.onehot(codes)
    V = Guidance.from_counts(SurveyCounts.of(T, y), SurveyRules(k=8)).V
    X = T.astype(np.float64)
    best, answers = in_turns(
        {
            "in index order, to the last digit": lambda: bit_probabilities(T, V),
            "matrix product": lambda: 0.25 + 0.5 * np.minimum(((X @ V) @ V.T) ** 2, 1.0),
        },
        repeats,
    )
    ratio("in index order / matrix product", best["in index order, to the last digit"], best["matrix product"])
    if not np.allclose(*answers.values(), atol=1e-12):
        sys.exit("the probabilities differ")


def respondents(count: int) -> None:
    codes, y = people(NINE, count)
    print(f"{count:,} simulated respondents, 42 bits, guidance every 100 (target: minutes)")
    started, cpu = time.perf_counter(), time.process_time()
    run = simulate(codes, y, NINE, SurveyRules(), keep_rows=False)
    wall, cpu = time.perf_counter() - started, time.process_time() - cpu
    print(f"  {wall:.1f} s on the clock, {cpu:.1f} s of processor: {count / cpu:,.0f} a processor second")
    if run.counts.n != count:
        sys.exit("not everybody was counted")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--respondents", type=int, default=1_000_000)
    options = parser.parse_args()
    guidance(options.repeats)
    bits(options.repeats)
    respondents(options.respondents)


if __name__ == "__main__":
    main()
