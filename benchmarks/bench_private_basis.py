"""A private basis against the columns themselves, at the same proved epsilon of the whole record.

A part of every table is released by principal-laplace, noise-aware-lda learns from it, and plain rows that were
not released are classified. A cell holds the median accuracy of some runs, private / identity. The tables are read from
--data (SFUMATO_DATA, or the shared folder beside the checkout). Bounds are the tables' own: what is compared is the
basis.

Run: python benchmarks/bench_private_basis.py [--data FOLDER] [--runs 9]
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from sfumato.learn.classifiers import PerturbedClassifier
from sfumato.mechanisms import PrincipalLaplace

TABLES = {"magic04": 12_000, "waveform": 4_000, "pendigits_train": 5_500, "wdbc": 427}
"""Rows that are released of each; at most 3,000 others are classified."""
EPSILONS = (2.0, 4.0, 8.0)
HERE = Path(__file__).resolve().parent


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--data", type=Path, default=os.environ.get("SFUMATO_DATA", HERE.parent.parent / "shared/data"))
    asked.add_argument("--runs", type=int, default=9)
    given = asked.parse_args()
    warnings.simplefilter("ignore")
    found = [name for name in TABLES if (Path(given.data) / f"{name}.csv").is_file()]
    if not found:
        print(f"left out: there are no tables in {given.data}. Name their folder with --data.")
        return
    print(f"{'table':<16} {'rows':>6} {'columns':>7} {'commonest':>9}  " + "  ".join(f"{e:>13g}" for e in EPSILONS))
    for name in found:
        frame = pd.read_csv(Path(given.data) / f"{name}.csv").sample(frac=1, random_state=0)
        X, y = frame.drop(columns="label").to_numpy(float), frame["label"].to_numpy()
        here, there = slice(0, TABLES[name]), slice(TABLES[name], TABLES[name] + 3_000)
        commonest = (y[there] == pd.Series(y[here]).mode()[0]).mean()
        cells = [" / ".join(f"{_accuracy(X, y, here, there, b, e, given.runs):.3f}" for b in BASES) for e in EPSILONS]
        print(f"{name:<16} {TABLES[name]:>6} {X.shape[1]:>7} {commonest:>9.3f}  " + "  ".join(cells), flush=True)


BASES = ("private", "identity")


def _accuracy(X, y, here, there, basis, epsilon, runs):
    bounds, mechanism = (X.min(axis=0), X.max(axis=0)), PrincipalLaplace(basis=basis, epsilon_record=epsilon)
    models = (PerturbedClassifier(mechanism, "noise-aware-lda", bounds, random_state=seed) for seed in range(runs))
    return float(np.median([model.fit(X[here], y[here]).score(X[there], y[there]) for model in models]))


if __name__ == "__main__":
    main()
