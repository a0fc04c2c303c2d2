"""Agrawal & Srikant's people: Fig. 3, the scheme with ID3 against ByClass, both at 25% disclosure."""

from __future__ import annotations

from typing import Any

import numpy as np
from published import DISCLOSURE
from schemes import SCHEMES, classifier, mean_disclosure, surveyed
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from sfumato.auditing.figures.generators import ATTRIBUTES, agrawal_srikant
from sfumato.channels.guidance.space import Binning, quantile_edges, supervised_edges
from sfumato.learn.classifiers.on_reconstruction import ReconstructedTree
from sfumato.learn.classifiers.survey_bits import SurveyClassifier
from sfumato.mechanisms import AdditiveNoise

CATEGORIES = {"elevel": 5, "zipcode": 9}
LEVELS = (2, 4, 6, 8, 10, 12)
ELSEWHERE = 5_000
"""Other people from whom edges are learned: edges must be public."""


def people(function: int, rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    return agrawal_srikant(np.random.default_rng([seed, function]), rows, function)


def binned(function: int, kind: str) -> Binning:
    """Quartiles, or up to eight intervals where the classes change; a number that tells nothing keeps its quartiles."""
    X, y = people(function, ELSEWHERE, 99)
    columns: list[Any] = []
    for place, name in enumerate(ATTRIBUTES):
        if name in CATEGORIES:
            columns.append(CATEGORIES[name])
        elif kind == "quartiles":
            columns.append(quantile_edges(X[:, place]))
        else:
            columns.append(supervised_edges(X[:, place], y, 8) or (float(np.median(X[:, place])),))
    return Binning(columns)


def ceiling(function: int, kind: str, rows: int) -> dict[str, Any]:
    """ID3 on the plain bits: what a perfect scheme could reach."""
    binning = binned(function, kind)
    X, y = people(function, rows, 0)
    X_test, y_test = people(function, 5_000, 1)
    tree = SurveyClassifier("id3", queries="plain").fit(binning.space.onehot(binning.codes(X)), y)
    return {
        "accuracy": float(tree.score(binning.space.onehot(binning.codes(X_test)), y_test)),
        "bits": binning.space.width,
    }


def guided(function: int, kind: str, scheme: str, start: int, rows: int) -> dict[str, Any]:
    """The level whose average disclosure comes nearest to 25% (found on 5,000 people), then everybody.

    With a floor disclosure stays below 25%; then the level of the same scheme without a floor is taken.
    """
    chosen = SCHEMES[scheme]
    binning = binned(function, kind)
    space = binning.space
    X, y = people(function, rows, 0)
    X_test, y_test = people(function, 5_000, 1)
    codes = binning.codes(X)
    search = chosen if chosen.rules.floor == 0 else SCHEMES["repaired"]
    few, shares = min(5_000, rows), {}
    for k in LEVELS:
        run = surveyed(search, codes[:few], y[:few], space, k=k, start=start, seed=k)
        shares[k] = mean_disclosure(codes[:2_000], space, run, 200, points=3)
        if shares[k] > DISCLOSURE + 0.05:
            break
    level = min(shares, key=lambda k: abs(shares[k] - DISCLOSURE))
    run = surveyed(chosen, codes, y, space, k=level, start=start, seed=7)
    T = space.onehot(codes[:start])
    tree = classifier(chosen, "id3", run, T, y[:start], start)
    return {
        "accuracy": float(tree.score(space.onehot(binning.codes(X_test)), y_test)),
        "disclosure": mean_disclosure(codes[:3_000], space, run, 600),
        "k": int(level),
        "bits": space.width,
        "larger_class": float(max(y_test.mean(), 1 - y_test.mean())),
    }


def by_class(function: int, rows: int) -> dict[str, Any]:
    """Gaussian noise of 25% disclosure on every attribute, ByClass reconstruction, a tree."""
    low, high = np.array(list(ATTRIBUTES.values())).T
    X, y = people(function, rows, 0)
    X_test, y_test = people(function, 5_000, 1)
    noise = AdditiveNoise(law="normal", scale=noise_of_disclosure(DISCLOSURE), noise="float")
    block = noise.release((X - low) / (high - low), y, rng=np.random.default_rng(5))
    tree = ReconstructedTree().fit(block.X, y, noise)
    return {"accuracy": float(tree.score((X_test - low) / (high - low), y_test)), "scale": float(noise.scale)}


def noise_of_disclosure(share: float) -> float:
    """Standard deviation of normal noise, in ranges, at which I(quartile; X + noise) is `share` of its two bits."""
    return float(brentq(lambda scale: quartile_information(scale) - 2 * share, 0.05, 5.0))


def quartile_information(scale: float) -> float:
    """I(quartile of X; X + noise) in bits, X uniform on [0, 1]: the entropy of a mixture minus that of its parts."""

    def density(z: float, a: float, b: float) -> float:
        return float((norm.cdf((z - a) / scale) - norm.cdf((z - b) / scale)) / (b - a))

    def entropy(a: float, b: float) -> float:
        def minus_plogp(z: float) -> float:
            p = density(z, a, b)
            return -p * np.log2(p) if p > 0 else 0.0

        return float(quad(minus_plogp, a - 8 * scale, b + 8 * scale, limit=200)[0])

    quarters = [entropy(i / 4, (i + 1) / 4) for i in range(4)]
    return entropy(0.0, 1.0) - float(np.mean(quarters))
