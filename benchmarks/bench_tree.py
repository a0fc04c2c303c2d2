"""ByClass tree on a noisy release against scikit-learn's tree on the same rows without noise, 100,000 x 9.

Agrawal & Srikant's people (F2), Gaussian noise of privacy 100%. The candidates take turns: scikit-learn's
DecisionTreeClassifier on the clean rows, the reconstructions alone (all columns, all classes), and our tree, which
reconstructs, assigns and grows. Target: ours at most 3 x scikit-learn's plus the reconstructions.

Run: python benchmarks/bench_tree.py [--rows 100000] [--repeats 3]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

import numpy as np
from side_by_side import in_turns, ratio
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `papers.generators`

from sfumato.auditing.figures.sets import ATTRIBUTES, agrawal_srikant
from sfumato.learn.classifiers import ReconstructedTree
from sfumato.learn.classifiers.class_densities import class_densities, slices
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.mechanisms import AdditiveNoise


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--repeats", type=int, default=3)
    chosen = options.parse_args()
    rng = np.random.default_rng(0)
    low, high = np.array(list(ATTRIBUTES.values())).T
    X, y = agrawal_srikant(rng, chosen.rows, function=2)
    test, truth = agrawal_srikant(rng, 10_000, function=2)
    X, test = (X - low) / (high - low), (test - low) / (high - low)
    mechanism = AdditiveNoise(law="normal", scale=1 / 3.92).fit(X, y)
    Z = mechanism.perturb(X, y, rng).X
    tree = DecisionTreeClassifier(min_samples_leaf=max(5, chosen.rows // 100), random_state=0)

    def reconstructions() -> int:
        return sum(class_densities(column, 2) is not None for column in slices([Part(Z, y, mechanism.recipe_)]))

    print(f"{chosen.rows:,} x {X.shape[1]}")
    with threadpool_limits(1):
        rounds, answers = in_turns(
            {
                "scikit-learn tree, clean rows": lambda: tree.fit(X, y),
                "reconstructions alone": reconstructions,
                "ReconstructedTree, noisy release": lambda: ReconstructedTree().fit(Z, y, sources=mechanism.recipe_),
            },
            chosen.repeats,
        )
    theirs, alone, ours = rounds.values()
    ratio("ours / scikit-learn", ours, theirs)
    beyond = [(o - a) / t for o, a, t in zip(ours.cpus, alone.cpus, theirs.cpus, strict=True)]
    print(
        f"  (ours - reconstructions) / scikit-learn: {(ours.wall - alone.wall) / theirs.wall:.2f} x, "
        f"processors {statistics.median(beyond):.2f} x  target at most 3"
    )
    clean, naive = tree.score(test, truth), tree.fit(Z, y).score(test, truth)
    aware = answers["ReconstructedTree, noisy release"].score(test, truth)
    print(f"  accuracy on plain rows: clean {clean:.3f}, ours {aware:.3f}, naive on the release {naive:.3f}")


if __name__ == "__main__":
    main()
