"""Linear models from noisy releases against least squares that takes released values for true ones.

Pendigits (the last column on five others) and Wine (alcohol on three others), Laplace noise of scale b of the range on
every column. Errors are of the coefficients, mean absolute over mean absolute, against least squares on the original.
"held": 95% intervals that hold the original's coefficient. "refused": releases whose noise is said to be too strong.

Run: python benchmarks/bench_regression.py [--repeats 20]
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `papers.data`

from papers.data import DataMissingError, load

from sfumato.core.errors import UsageError
from sfumato.learn.mining.seen import Part
from sfumato.learn.regress import fit_linear, unbiased
from sfumato.mechanisms import AdditiveNoise

SETS = {"pendigits": ([2, 5, 8, 11, 14], 15), "wine": ([9, 10, 12], 0)}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--repeats", type=int, default=20)
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    print("| set, rows, columns | b | error | error as released | held | refused |")
    print("|---|---|---|---|---|---|")
    for name, (columns, target) in SETS.items():
        try:
            data = load(name)
        except DataMissingError as error:
            print(f"{name}: left out, {error}")
            continue
        X = (data.X - data.X.min(axis=0)) / np.ptp(data.X, axis=0)
        truth = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X[:, columns]]), X[:, target], rcond=None)[0][1:]
        for b in (0.05, 0.1, 0.3):
            ours, naive, held, refused = [], [], [], 0
            for seed in range(chosen.repeats):
                mechanism = AdditiveNoise(scale=b).fit(X, data.y)
                Z = mechanism.perturb(X, data.y, np.random.default_rng(seed)).X
                part = Part(Z, mechanism.recipe_, mechanism.recipe_.channels)
                try:
                    found = fit_linear([unbiased(part)], np.array(columns), target)
                except UsageError:
                    refused += 1
                    continue
                size = np.abs(truth).mean()
                ours.append(np.abs(found.coefficients[1:] - truth).mean() / size)
                naive.append(np.abs(found.naive[1:] - truth).mean() / size)
                held.append(np.mean((found.low[1:] <= truth) & (truth <= found.high[1:])))
            figures = " | ".join(f"{np.mean(one):.2f}" if one else "" for one in (ours, naive, held))
            print(
                f"| {name}, {len(X):,}, {len(columns)} | {b} | {figures} | {refused} of {chosen.repeats} |", flush=True
            )


if __name__ == "__main__":
    main()
