"""Random rotation and condensation: the rotation beside its bare product, the exact assignment, the search, the groups.

Run: python benchmarks/bench_rotation.py [--repeats 5] [--magic FILE]
FILE is the table of 19,020 x 10 (magic04.csv); without it, one of the same size is drawn.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import polars as pl
from scipy.optimize import linear_sum_assignment
from side_by_side import in_turns, ratio

from sfumato.mechanisms import Condensation, RandomRotation
from sfumato.release.rotation_search import best_order, bottleneck, find_key


def rotation(repeats: int, rows: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((rows, 50))
    by_column = np.asfortranarray(X)  # as the engines hand blocks over
    fitted = RandomRotation().fit(X[:10])
    matrix, offset = fitted.key_.affine()
    print(f"Rotating {rows:,} x 50")
    best, answers = in_turns(
        {
            "bare product X @ R.T": lambda: X @ matrix.T,
            "RandomRotation.perturb": lambda: fitted.perturb(X, None, rng).X,
            "bare product, columns together": lambda: (matrix @ by_column.T).T,
            "RandomRotation.perturb, columns together": lambda: fitted.perturb(by_column, None, rng).X,
        },
        repeats,
    )
    ratio("rotation / bare product", best["RandomRotation.perturb"], best["bare product X @ R.T"], "1.5")
    ratio(
        "columns together: rotation / bare product",
        best["RandomRotation.perturb, columns together"],
        best["bare product, columns together"],
        "1.5",
    )
    if not np.allclose(answers["RandomRotation.perturb"], answers["bare product X @ R.T"] + offset):
        sys.exit("the rotation is not the product")


def assignment(repeats: int) -> None:
    V = np.random.default_rng(1).random((200, 200))
    print("Best order of 200 rows")
    best, answers = in_turns(
        {
            "exact bottleneck level": lambda: bottleneck(V),
            "exact bottleneck order, best average of all": lambda: best_order(V),
            "linear assignment alone (scipy)": lambda: linear_sum_assignment(V, maximize=True),
        },
        repeats,
    )
    ratio("bottleneck / linear", best["exact bottleneck level"], best["linear assignment alone (scipy)"])
    order = answers["exact bottleneck order, best average of all"]
    if V[order, np.arange(200)].min() != answers["exact bottleneck level"] or best["exact bottleneck level"].wall > 1:
        sys.exit("the order does not reach the bottleneck, or took more than a second")


def search(path: Path | None, rows: int) -> None:
    if path is not None and path.exists():
        X = pl.read_csv(path).select(pl.selectors.numeric()).to_numpy().astype(np.float64)[:, :10]
    else:
        X = np.random.default_rng(2).gamma(2.0, size=(rows, 10)) @ np.random.default_rng(3).random((10, 10))
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    print(f"Search of 50 rotations, each with ICA, on {X.shape[0]:,} x {X.shape[1]} (target: a minute)")
    _, answers = in_turns({"find_key, 50 iterations": lambda: find_key(X, iterations=50)}, 1)
    print(answers["find_key, 50 iterations"][1].in_words())


def condensation(rows: int) -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((rows, 8)) @ rng.standard_normal((8, 20)) + 0.5 * rng.standard_normal((rows, 20))
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    y = rng.integers(2, size=len(X))
    print(f"Condensation of {rows:,} x 20, k = 30 (target: minutes)")
    in_turns({"Condensation(30).release": lambda: Condensation(30).release(X, y, rng=np.random.default_rng(0))}, 1)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--rows", type=int, default=1_000_000, help="rotated; a tenth of them is condensed")
    folder = os.environ.get("SFUMATO_DATA")
    options.add_argument("--magic", type=Path, default=Path(folder) / "magic04.csv" if folder else None)
    chosen = options.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    rotation(chosen.repeats, chosen.rows)
    assignment(chosen.repeats)
    search(chosen.magic, min(chosen.rows, 19_020))
    condensation(chosen.rows // 10)


if __name__ == "__main__":
    main()
