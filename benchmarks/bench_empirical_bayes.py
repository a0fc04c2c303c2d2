"""Empirical-Bayes naive Bayes from a square-wave release of 1M x 20: time and memory, beside half the rows.

The release is made beforehand. Training counts outcomes in one pass over the rows; what follows depends on the number
of columns and classes alone, so memory beyond the rows must not grow with them. The model is checked on plain rows.

Run: python benchmarks/bench_empirical_bayes.py [--rows 1000000] [--columns 20] [--repeats 3]
"""

from __future__ import annotations

import argparse
import time
import tracemalloc

import numpy as np

from sfumato.learn.classifiers.empirical_bayes import EmpiricalBayesNaiveBayes
from sfumato.mechanisms import SquareWaveColumns
from sfumato.table import Encoding

EPSILON = 2.0
TARGET = 10.0


def rows_of(count: int, columns: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Three classes, whose means differ in every column."""
    y = rng.integers(0, 3, count)
    X = rng.normal(0.0, 0.15, (count, columns))
    X += 0.35 + 0.15 * ((y[:, None] + np.arange(columns)) % 3)
    return np.clip(X, 0.0, 1.0, out=X), y


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    mechanism = SquareWaveColumns(EPSILON, noise="float")
    test, test_y = rows_of(5_000, given.columns, rng)
    peaks = {}
    for count in (given.rows // 2, given.rows):
        X, y = rows_of(count, given.columns, rng)
        Z = mechanism.release(X, y, rng, encoding=Encoding.unit(given.columns, public=True)).X
        del X
        walls, cpus = [], []
        for _ in range(given.repeats):
            wall, cpu = time.perf_counter(), time.process_time()
            model = EmpiricalBayesNaiveBayes().fit(Z, y, sources=mechanism.recipe_)
            walls.append(time.perf_counter() - wall)
            cpus.append(time.process_time() - cpu)
        tracemalloc.start()
        EmpiricalBayesNaiveBayes().fit(Z, y, sources=mechanism.recipe_)
        peaks[count] = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        right = float((model.predict(test) == test_y).mean())
        assert right > 0.8, right
        print(
            f"{count:,} x {given.columns}: {min(walls):.2f} s, processor {min(cpus):.2f} s (at most {TARGET:g}), "
            f"beyond the release {peaks[count]:.0f} MiB; accuracy on plain rows {right:.3f}",
            flush=True,
        )
    few, many = peaks.values()
    print(f"memory of {given.rows:,} rows / of half of them: {many / few:.2f} x (flat: 1)")


if __name__ == "__main__":
    main()
