"""RadiusVote against scikit-learn's brute-force RadiusNeighborsClassifier: same rows, same radius, same answers.

100,000 rows x 50 columns in 10 Gaussian clusters (centres uniform in [-5, 5], standard deviation 2) with Laplace
noise, 1,000 queries. Three circles: the radius that RadiusVote itself computes, one that holds 1 row in 100, and one
that holds 1 in 10,000. Runs are interleaved and the least of several is reported, since machines are noisy.

With --bounds: how many tiles balls or boxes around their rows would exclude, and what the bare product in single
precision costs beside both, in processor seconds.

Run: python benchmarks/bench_radius_vote.py [--repeats 5] [--rows 100000] [--bounds]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.neighbors import RadiusNeighborsClassifier

from sfumato.learn.classifiers import NoiseSummary, RadiusVote

COLUMNS, CLUSTERS, QUERIES, SCALE = 50, 10, 1_000, 2.2


def clusters(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Released rows, their classes, unperturbed queries and theirs."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(-5, 5, (CLUSTERS, COLUMNS))
    y = rng.integers(0, CLUSTERS, rows + QUERIES)
    X = centres[y] + 2 * rng.standard_normal((rows + QUERIES, COLUMNS))
    return X[:rows] + rng.laplace(0, SCALE, (rows, COLUMNS)), y[:rows], X[rows:], y[rows:]


def timed(work, *arguments):
    start, before = time.perf_counter(), time.process_time()
    result = work(*arguments)
    return time.perf_counter() - start, time.process_time() - before, result


def compare(Z, y, queries, truth, radius: float | None, repeats: int) -> None:
    noise = NoiseSummary(np.full(COLUMNS, 2 * SCALE**2), np.full(COLUMNS, 24 * SCALE**4))
    ours = RadiusVote(prior_correction=False, radius=radius).fit(Z, y, noise=noise)
    squared_radius = float(ours.squared_radius_[0])
    peer = RadiusNeighborsClassifier(
        np.sqrt(squared_radius), algorithm="brute", weights=lambda d: 1 / d**2, outlier_label="most_frequent"
    ).fit(Z, y)
    times: dict[str, list[list[float]]] = {"ours": [], "peer": []}
    for _ in range(repeats):
        *seconds, mine = timed(ours.predict_proba, queries)
        times["ours"].append(seconds)
        *seconds, theirs = timed(peer.predict_proba, queries)
        times["peer"].append(seconds)
    empty = np.array([len(found) == 0 for found in peer.radius_neighbors(queries, return_distance=False)])
    gap = np.abs(mine - theirs)[~empty].max(initial=0.0)
    if empty.sum() != ours.fallbacks_ or gap > 1e-8:
        raise SystemExit(f"answers differ: votes by {gap:.1e}, empty circles {ours.fallbacks_} against {empty.sum()}")
    sample = ((queries[:20, None] - Z[None, ::20]) ** 2).sum(axis=2)
    least, spent = ({name: min(pair[which] for pair in found) for name, found in times.items()} for which in (0, 1))
    print(
        f"circle holds {np.mean(sample <= squared_radius):8.3%}: ours {least['ours']:.3f} s, "
        f"scikit-learn {least['peer']:.3f} s, ratio {least['ours'] / least['peer']:.2f} (processor "
        f"{spent['ours']:.3f} and {spent['peer']:.3f} s, {spent['ours'] / spent['peer']:.2f}), "
        f"votes agree to {gap:.0e}, accuracy {ours.score(queries, truth):.3f}, empty circles {empty.mean():.1%}, "
        f"{1e3 * least['ours'] / len(queries):.2f} ms a query (paper: 2600)"
    )


def excluded(tiles: list[np.ndarray], queries: np.ndarray, squared_radius: float) -> tuple[float, float]:
    """Share of the pairs of a query and a tile that a ball and a box around the tile's rows exclude."""
    balls, boxes = [], []
    for tile in tiles:
        centre = tile.mean(axis=0)
        reach = np.sqrt(((tile - centre) ** 2).sum(axis=1).max())
        balls.append(np.sqrt(((queries - centre) ** 2).sum(axis=1)) - reach > np.sqrt(squared_radius))
        outside = np.maximum(np.maximum(tile.min(axis=0) - queries, queries - tile.max(axis=0)), 0.0)
        boxes.append((outside**2).sum(axis=1) > squared_radius)
    return float(np.mean(balls)), float(np.mean(boxes))


def bounds(Z, y, queries, squared_radii: list[float]) -> None:
    along = (Z - Z.mean(axis=0)) @ np.linalg.eigh(np.cov(Z.T))[1][:, -1]
    orders = {"class": np.argsort(y), "principal direction": np.argsort(along), "both": np.lexsort((along, y))}
    for name, order in orders.items():
        for rows in (1024, 64):
            tiles = [Z[order[start : start + rows]] for start in range(0, len(Z), rows)]
            found = [excluded(tiles, queries, radius) for radius in squared_radii]
            told = ", ".join(f"{ball:.2%} and {box:.2%}" for ball, box in found)
            print(f"sorted by {name}, tiles of {rows}: balls and boxes exclude {told}", flush=True)
    alone = []
    some, others = np.float32(queries), np.float32(Z)
    for _ in range(5):
        start = time.process_time()
        for first in range(0, len(others), 1024):
            some @ others[first : first + 1024].T
        alone.append(time.process_time() - start)
    print(f"bare product in single precision: {min(alone):.3f} processor s")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--bounds", action="store_true")
    chosen = options.parse_args()
    Z, y, queries, truth = clusters(chosen.rows)
    print(f"{chosen.rows} x {COLUMNS} rows, {QUERIES} queries, least of {chosen.repeats} interleaved runs")
    sample = ((queries[:20, None] - Z[None, ::20]) ** 2).sum(axis=2)
    radii = [float(np.quantile(sample, share)) for share in (1e-2, 1e-4)]
    if chosen.bounds:
        bounds(Z, y, queries, [float(np.quantile(sample, 0.08)), *radii])
    for radius in (None, *radii):
        compare(Z, y, queries, truth, radius, chosen.repeats)


if __name__ == "__main__":
    main()
