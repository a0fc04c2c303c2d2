"""Linkage by nearest rows against Anonymeter's LinkabilityEvaluator, on the same 10,000 x 10,000 rows x 20 columns.

Both answer the same question: an attacker holds two halves of the columns of every person; how often do both halves
have the same released row as their nearest? Anonymeter sums absolute differences, we take Euclidean distances, so
single links may differ where rows are equally plausible. The answers are therefore compared twice: with little noise,
where both must link the very same people, and with more noise, where they must agree on four people of five.

Anonymeter pins old versions of NumPy, so it runs in an environment of its own (peers.py).

Run: python benchmarks/bench_nearest_row.py [--repeats 3] [--rows 10000]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from peers import python_with

COLUMNS = 20
HALVES = (slice(0, COLUMNS // 2), slice(COLUMNS // 2, COLUMNS))


def tables(rows: int, noise: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Originals with correlated columns in [0, 1], and a release with Laplace noise, row by row the same people."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 8)) @ rng.standard_normal((8, COLUMNS)) + rng.standard_normal((rows, COLUMNS))
    X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    return X, X + rng.laplace(0, noise, X.shape)


def scaled(original: np.ndarray, release: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns divided by their range over both tables, as Anonymeter does."""
    both = np.concatenate([original, release])
    return original / np.ptp(both, axis=0), release / np.ptp(both, axis=0)


def our_links(original: np.ndarray, release: np.ndarray) -> np.ndarray:
    """Which people are linked: both halves of their columns point to one released row."""
    from sfumato.table.neighbours.nearest import nearest

    original, release = scaled(original, release)
    first, second = (nearest(original[:, half], release[:, half])[1][:, 0] for half in HALVES)
    return first == second


def peer_links(original: np.ndarray, release: np.ndarray) -> tuple[float, np.ndarray]:
    """Seconds of Anonymeter's attack without its baseline, and the people it linked."""
    import pandas as pd
    from anonymeter.evaluators import linkability_evaluator as peer

    names = [f"c{i:02d}" for i in range(COLUMNS)]
    ori, syn = pd.DataFrame(original, columns=names), pd.DataFrame(release, columns=names)
    halves = tuple(names[half] for half in HALVES)
    drawn: list[np.ndarray] = []

    class Seen(pd.DataFrame):
        """Remembers in which order the evaluator drew its targets."""

        def sample(self, *arguments, **named):
            targets = super().sample(*arguments, **named)
            drawn.append(targets.index.to_numpy())
            return targets

    evaluator = peer.LinkabilityEvaluator(ori=Seen(ori), syn=syn, aux_cols=halves, n_attacks=len(ori))
    start = time.perf_counter()
    evaluator.evaluate(n_jobs=-1)
    seconds = time.perf_counter() - start
    linked = np.zeros(len(ori), dtype=bool)
    linked[drawn[0][list(evaluator._attack_links.find_links(n_neighbors=1))]] = True
    return seconds, linked


def run_peer(original: np.ndarray, release: np.ndarray) -> tuple[float, np.ndarray] | None:
    if not (python := python_with("anonymeter")):
        return None
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "tables.npz", original=original, release=release)
        subprocess.run([python, __file__, "--peer", folder], check=True)
        return json.loads((Path(folder) / "seconds.json").read_text()), np.load(Path(folder) / "linked.npy")


def answer_as_peer(folder: Path) -> None:
    given = np.load(folder / "tables.npz")
    peer_links(given["original"][:50], given["release"][:50])  # its kernels are compiled at first use
    seconds, linked = peer_links(given["original"], given["release"])
    (folder / "seconds.json").write_text(json.dumps(seconds))
    np.save(folder / "linked.npy", linked)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=3)
    options.add_argument("--rows", type=int, default=10_000)
    options.add_argument("--peer", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.peer:
        answer_as_peer(chosen.peer)
        return
    print(f"{chosen.rows} x {chosen.rows} rows x {COLUMNS} columns, ours the least of {chosen.repeats} runs")
    for noise in (0.001, 0.05):
        original, release = tables(chosen.rows, noise)
        ours = []
        for _ in range(chosen.repeats):
            start = time.perf_counter()
            linked = our_links(original, release)
            ours.append(time.perf_counter() - start)
        line = f"noise {noise}: ours {min(ours):.3f} s, linked {linked.mean():.2%}"
        answer = run_peer(original, release)
        if answer is None:
            print(line)
            continue
        seconds, theirs = answer
        same = (linked == theirs).mean()
        print(
            f"{line}; Anonymeter {seconds:.2f} s, linked {theirs.mean():.2%}; "
            f"{seconds / min(ours):.0f} x faster, same verdict on {same:.2%} of people"
        )
        if same < (0.999 if noise < 0.01 else 0.8):
            sys.exit("answers differ more than the two distances explain")


if __name__ == "__main__":
    main()
