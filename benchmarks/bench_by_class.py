"""The miner's time with the guided survey and with ByClass reconstruction, 100,000 x 9 [guided-survey, 7.1].

Agrawal & Srikant's people (F2); ByClass with Gaussian noise of privacy 100%. The paper says that its own overhead comes
while answers arrive and is "significantly less". Timed in turns: what the miner does *while answers arrive* (counts,
guidance every 100), and what it does *after the last answer*: an ID3 tree on the received bits, against reconstruction
of every attribute of every class and the tree on it. A tree on the plain bits stands beside them.

Run: python benchmarks/bench_by_class.py [--rows 100000] [--repeats 3]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from side_by_side import Rounds, in_turns, ratio
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # for `papers.generators`

from sfumato.auditing.figures.sets import ATTRIBUTES, agrawal_srikant
from sfumato.channels.guidance.disclosure import simulate
from sfumato.channels.guidance.guidance import Guidance, SurveyCounts, SurveyRules
from sfumato.channels.guidance.space import Binning, quantile_edges
from sfumato.learn.classifiers import ReconstructedTree
from sfumato.learn.classifiers.class_densities import class_densities, slices
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.survey_bits import SurveyClassifier
from sfumato.mechanisms import AdditiveNoise

BATCH, START = 100, 300
CATEGORIES = {"elevel": 5, "zipcode": 9}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--repeats", type=int, default=3)
    chosen = options.parse_args()
    rng = np.random.default_rng(0)
    X, y = agrawal_srikant(rng, chosen.rows, function=2)
    low, high = np.array(list(ATTRIBUTES.values())).T
    unit = (X - low) / (high - low)
    noise = AdditiveNoise(law="normal", scale=1 / 3.92, noise="float").fit(unit, y)
    Z = noise.perturb(unit, y, rng).X
    binning = _quartiles(agrawal_srikant(rng, 5_000, function=2)[0])
    space, codes = binning.space, binning.codes(X)
    T = space.onehot(codes)
    start = SurveyCounts.of(T[:START], y[:START])
    bits = simulate(codes, y, space, SurveyRules(floor=0.1), startup=start).bits

    def while_they_arrive() -> int:
        received, versions = SurveyCounts(space.width), 0
        for first in range(0, len(bits), BATCH):
            received += SurveyCounts.of(bits[first : first + BATCH], y[first : first + BATCH])
            Guidance.from_counts(received, SurveyRules(floor=0.1), start)
            versions += 1
        return versions

    def reconstructions() -> int:
        return sum(class_densities(column, 2) is not None for column in slices([Part(Z, y, noise.recipe_)]))

    print(f"{chosen.rows:,} x {X.shape[1]}, {space.width} bits")
    with threadpool_limits(1):
        rounds, found = in_turns(
            {
                "survey, while answers arrive": while_they_arrive,
                "survey, after the last: tree on received bits": lambda: SurveyClassifier("id3").fit(bits, y),
                "ByClass, after the last: reconstructions": reconstructions,
                "ByClass, after the last: with the tree": lambda: ReconstructedTree().fit(Z, y, sources=noise.recipe_),
                "tree on plain bits": lambda: SurveyClassifier("id3", queries="plain").fit(T, y),
            },
            chosen.repeats,
        )
    arriving, survey, _, by_class, plain = rounds.values()
    versions = found["survey, while answers arrive"]
    print(f"  one version of the guidance, with its counts: {1e3 * arriving.cpu / versions:.2f} ms of processor")
    ratio("after the last answer: survey / ByClass", survey, by_class)
    ratio("all of the miner's work: survey / ByClass", _sum(arriving, survey), by_class)
    ratio("survey / plain bits, after the last", survey, plain)
    if versions != -(-chosen.rows // BATCH):
        sys.exit("not every batch was counted")


def _quartiles(X: np.ndarray) -> Binning:
    """Quartiles of other people; the two categorical attributes as they are."""
    return Binning([CATEGORIES.get(name, quantile_edges(X[:, j])) for j, name in enumerate(ATTRIBUTES)])


def _sum(one: Rounds, other: Rounds) -> Rounds:
    walls = tuple(a + b for a, b in zip(one.walls, other.walls, strict=True))
    return Rounds(walls, tuple(a + b for a, b in zip(one.cpus, other.cpus, strict=True)))


if __name__ == "__main__":
    main()
