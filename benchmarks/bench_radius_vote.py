"""RadiusVote against scikit-learn's brute-force RadiusNeighborsClassifier: same rows, same radius, same answers.

100,000 rows x 50 columns in 10 Gaussian clusters (centres uniform in [-5, 5], standard deviation 2) with Laplace
noise, 1,000 queries. Three circles: the radius that RadiusVote itself computes, one that holds 1 row in 100, and one
that holds 1 in 10,000. Runs are interleaved and the least of several is reported, since machines are noisy.

Run: python benchmarks/bench_radius_vote.py [--repeats 5] [--rows 100000]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.neighbors import RadiusNeighborsClassifier

from sfumato.classifiers.radius_vote import NoiseSummary, RadiusVote

COLUMNS, CLUSTERS, QUERIES, SCALE = 50, 10, 1_000, 2.2


def clusters(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Released rows, their classes, unperturbed queries and theirs."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-5, 5, (CLUSTERS, COLUMNS))
    y = rng.integers(0, CLUSTERS, rows + QUERIES)
    X = centres[y] + 2 * rng.standard_normal((rows + QUERIES, COLUMNS))
    return X[:rows] + rng.laplace(0, SCALE, (rows, COLUMNS)), y[:rows], X[rows:], y[rows:]


def timed(work, *arguments):
    start = time.perf_counter()
    result = work(*arguments)
    return time.perf_counter() - start, result


def compare(Z, y, queries, truth, radius: float | None, repeats: int) -> None:
    noise = NoiseSummary(np.full(COLUMNS, 2 * SCALE**2), np.full(COLUMNS, 24 * SCALE**4))
    ours = RadiusVote(prior_correction=False, radius=radius).fit(Z, y, noise=noise)
    squared_radius = float(ours.squared_radius_[0])
    peer = RadiusNeighborsClassifier(
        np.sqrt(squared_radius), algorithm="brute", weights=lambda d: 1 / d**2, outlier_label="most_frequent"
    ).fit(Z, y)
    times: dict[str, list[float]] = {"ours": [], "peer": []}
    for _ in range(repeats):
        seconds, mine = timed(ours.predict_proba, queries)
        times["ours"].append(seconds)
        seconds, theirs = timed(peer.predict_proba, queries)
        times["peer"].append(seconds)
    empty = np.array([len(found) == 0 for found in peer.radius_neighbors(queries, return_distance=False)])
    gap = np.abs(mine - theirs)[~empty].max(initial=0.0)
    if empty.sum() != ours.fallbacks_ or gap > 1e-8:
        raise SystemExit(f"answers differ: votes by {gap:.1e}, empty circles {ours.fallbacks_} against {empty.sum()}")
    sample = ((queries[:20, None] - Z[None, ::20]) ** 2).sum(axis=2)
    least = {name: min(seconds) for name, seconds in times.items()}
    print(
        f"circle holds {np.mean(sample <= squared_radius):8.3%}: ours {least['ours']:.3f} s, "
        f"scikit-learn {least['peer']:.3f} s, ratio {least['ours'] / least['peer']:.2f}, "
        f"votes agree to {gap:.0e}, accuracy {ours.score(queries, truth):.3f}, empty circles {empty.mean():.1%}, "
        f"{1e3 * least['ours'] / len(queries):.2f} ms a query (paper: 2600)"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--rows", type=int, default=100_000)
    chosen = options.parse_args()
    Z, y, queries, truth = clusters(chosen.rows)
    print(f"{chosen.rows} x {COLUMNS} rows, {QUERIES} queries, least of {chosen.repeats} interleaved runs")
    sample = ((queries[:20, None] - Z[None, ::20]) ** 2).sum(axis=2)
    for radius in (None, float(np.quantile(sample, 1e-2)), float(np.quantile(sample, 1e-4))):
        compare(Z, y, queries, truth, radius, chosen.repeats)


if __name__ == "__main__":
    main()
