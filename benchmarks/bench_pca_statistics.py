"""Principal components from statistics that add up, beside the bare product X'X and scikit-learn.

Blocks of rows are centred, multiplied and merged through threads (`Statistics.of`, `+`), then `eigh`: what the first
pass of a fit does. The bare product has no mean, no extremes and no eigenvectors; it is NumPy's `X.T @ X` on all cores,
or of the same blocks through the same threads: on a busy machine BLAS threads that wait for each other lose much time.
So the peers run with all BLAS threads and with one, and the faster of the two is compared.

Run: python benchmarks/bench_pca_statistics.py [--rows 1000000] [--columns 100] [--repeats 9]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import reduce
from operator import add

import numpy as np
from side_by_side import Rounds, in_turns, ratio
from threadpoolctl import threadpool_limits

from sfumato.release.source import block_rows_for, in_order
from sfumato.table.statistics import Statistics

OURS = "sfumato, statistics of blocks + eigh"


def from_statistics(X: np.ndarray) -> np.ndarray:
    size = block_rows_for(X.shape[1])
    blocks = (X[start : start + size] for start in range(0, len(X), size))
    total = reduce(add, in_order(blocks, Statistics.of)).total
    return np.linalg.eigh(total.covariance())[1][:, ::-1].T


def product_of_blocks(X: np.ndarray) -> np.ndarray:
    size = block_rows_for(X.shape[1])
    blocks = (X[start : start + size] for start in range(0, len(X), size))
    total: np.ndarray = reduce(add, in_order(blocks, lambda block: block.T @ block))
    return total


def scikit_learn(X: np.ndarray) -> np.ndarray:
    from sklearn.decomposition import PCA

    components: np.ndarray = PCA().fit(X).components_
    return components


def incremental(X: np.ndarray) -> np.ndarray:
    from sklearn.decomposition import IncrementalPCA

    components: np.ndarray = IncrementalPCA(batch_size=block_rows_for(X.shape[1])).fit(X).components_
    return components


def one_thread(fit: Callable[[np.ndarray], np.ndarray], X: np.ndarray) -> np.ndarray:
    with threadpool_limits(1, user_api="blas"):
        return fit(X)


def faster(best: dict[str, Rounds], name: str) -> Rounds:
    return min((timing for full, timing in best.items() if full.startswith(name)), key=lambda timing: timing.cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    rng = np.random.default_rng(2)
    X = rng.standard_normal((given.rows, 10)) @ rng.standard_normal((10, given.columns))
    X += 0.3 * rng.standard_normal(X.shape) + 2.0
    print(f"PCA of {given.rows:,} x {given.columns} in memory", flush=True)
    best, answers = in_turns(
        {
            OURS: lambda: from_statistics(X),
            "bare product X'X": lambda: X.T @ X,
            "bare product X'X, blocks through threads": lambda: product_of_blocks(X),
            "scikit-learn PCA": lambda: scikit_learn(X),
            "scikit-learn PCA, one BLAS thread": lambda: one_thread(scikit_learn, X),
        },
        given.repeats,
    )
    slow, slow_answers = in_turns({"IncrementalPCA, one BLAS thread": lambda: one_thread(incremental, X)}, 1)
    ours = best[OURS]
    ratio("sfumato / bare product", ours, faster(best, "bare product"), "at most 1.5")
    ratio("scikit-learn PCA / sfumato", faster(best, "scikit-learn"), ours)
    ratio("scikit-learn IncrementalPCA / sfumato", faster(slow, "Incremental"), ours)
    found = answers[OURS]
    for name, theirs in (("PCA", answers["scikit-learn PCA"]), ("IncrementalPCA", *slow_answers.values())):
        cosines = np.abs(np.einsum("ij,ij->i", found, theirs))[:10]
        print(f"  smallest |cosine| with {name + ' (ten components)':29s} {cosines.min():.12f}")
        assert cosines.min() > 1 - 1e-6


if __name__ == "__main__":
    main()
