"""The attack bayes-window on 20,000 x 20 with 5,000 people who stand for the population, in processor time.

Two releases: Laplace noise on every column, and a rotation whose key has leaked, with Laplace noise on its components.
Beside it the likelihoods alone, pair by pair (`scipy`'s city-block distance of the same rows and people).

Run: python benchmarks/bench_bayes_window.py [--rows 20000] [--people 5000]
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np
from scipy.spatial.distance import cdist

from sfumato.attacks.base import Knowledge, KnownNoise, Transform
from sfumato.attacks.bayes_window import BayesWindow
from sfumato.channels import Additive
from sfumato.noise import Laplace
from sfumato.table import Encoding

COLUMNS, SCALE, TARGET = 20, 0.1, 30.0


def people(rows: int, seed: int) -> np.ndarray:
    """Correlated columns in [0, 1]."""
    rng, mixing = np.random.default_rng(seed), np.random.default_rng(99).standard_normal((6, COLUMNS))
    return 1 / (1 + np.exp(-0.5 * (rng.standard_normal((rows, 6)) @ mixing + rng.standard_normal((rows, COLUMNS)))))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=20_000)
    options.add_argument("--people", type=int, default=5_000)
    chosen = options.parse_args()
    X, sample = people(chosen.rows, 1), people(chosen.people, 2)
    rng = np.random.default_rng(3)
    turn = np.linalg.qr(rng.standard_normal((COLUMNS, COLUMNS)))[0]
    attack = BayesWindow(people=chosen.people)
    slowest = 0.0
    for name, A in (("columns", np.eye(COLUMNS)), ("rotation", turn)):
        noise = KnownNoise.of((Additive(Laplace(SCALE)),) * COLUMNS, sample @ A.T)
        Z = X @ A.T + rng.laplace(0.0, SCALE, X.shape)
        known = Knowledge(
            Z,
            Encoding.unit(COLUMNS),
            columnwise=name == "columns",
            transform=Transform(A, np.zeros(COLUMNS)),
            noise=noise,
            sample=sample,
        )
        start = time.process_time()
        guess = attack.run(known)
        spent = time.process_time() - start
        slowest = max(slowest, spent)
        right = float((np.abs(guess.aimed - X) <= 0.05).mean())
        print(
            f"{name}: {spent:.1f} s of processor time for {chosen.rows:,} x {COLUMNS} with {chosen.people:,} people; "
            f"{right:.1%} within 5%, {guess.details['mean_sureness']:.1%} believed"
        )
    start = time.process_time()
    for first in range(0, chosen.rows, 1000):
        cdist(X[first : first + 1000], sample, "cityblock")
    print(f"beside it: {time.process_time() - start:.1f} s for the city-block distances alone")
    if chosen.rows <= 20_000 and chosen.people <= 5_000 and slowest > TARGET:
        sys.exit(f"more than {TARGET:g} s of processor time")


if __name__ == "__main__":
    main()
