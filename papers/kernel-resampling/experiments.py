"""The paper's experiments on one data set, each with the product's own mechanism, attacks and metrics."""

from __future__ import annotations

import warnings
from collections import defaultdict
from typing import Any

import numpy as np
from published import SETS
from sites import Codes, Matrix, Pooled, Split, dealt, resampled, split
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier

from sfumato.attacks.base import Knowledge
from sfumato.attacks.distance_bound import column_norm_bound, row_norm_bound, value_bound
from sfumato.attacks.metrics import RowDensity, auc, dapl, half_l1, hard_interval, source_hit_rate
from sfumato.attacks.row_ratios import Membership
from sfumato.mechanisms import KernelResampling
from sfumato.mechanisms.random_rotation import haar_rotation
from sfumato.table import Encoding

Found = dict[str, Any]

RULES = ("published", "scaled")
SITES = (1, 2, 3, 4, 8)
DRAWS = 200
"""Draws of one DAPL estimate for each site: its standard error is below .04, and far below that over seeds."""


def classifiers(seed: int) -> dict[str, Any]:
    """10 tanh units with weight decay, k = 11, Gaussian naive Bayes."""
    return {
        "ann": MLPClassifier((10,), activation="tanh", alpha=1.0, solver="lbfgs", max_iter=200, random_state=seed),
        "knn": KNeighborsClassifier(11),
        "nb": GaussianNB(),
    }


def errors(X: Matrix, y: Codes, held: Split, seed: int) -> dict[str, float]:
    """Share of test rows that each classifier trained on (X, y) gets wrong; on [-1, 1] as in the paper."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = {name: one.fit(2 * X - 1, y) for name, one in classifiers(seed).items()}
    return {name: float((one.predict(2 * held.test - 1) != held.test_y).mean()) for name, one in fitted.items()}


def exposure(pooled: Pooled, held: Split) -> dict[str, float]:
    """What the paper does not measure: source hits, membership, and how narrow the certain interval is."""
    candidates = np.vstack([held.train, held.test])
    known = Knowledge(pooled.X, Encoding.unit(held.train.shape[1]), candidates=candidates)
    scores = Membership("distance").run(known).scores  # type: ignore[attr-defined]
    box = hard_interval(pooled.X, pooled.source, len(held.train), pooled.widths)
    varies = np.ptp(held.train, axis=0) > 0
    inside = (box.low - 1e-9 <= held.train) & (held.train <= box.high + 1e-9)
    drawn = box.draws > 0
    return {
        "hits": source_hit_rate(pooled.X, held.train, pooled.source).rate,
        "auc": auc(scores[: len(held.train)], scores[len(held.train) :]),
        "h": float(pooled.widths[:, varies].mean()),
        "interval": float(np.nanmean(box.widths[:, varies])),
        "holds": float(inside[drawn].mean()),
        "never": float(1 - drawn.mean()),
    }


def sites(name: str, seeds: tuple[int, int]) -> Found:
    """Figs 3-7 (a), and exposure: errors with original and with pooled training rows, for every L and rule."""
    found: Found = defaultdict(lambda: defaultdict(list))
    for seed in range(*seeds):
        held = split(name, seed)
        for classifier, error in errors(held.train, held.train_y, held, seed).items():
            found["original"][classifier].append(error)
        for rule in RULES:
            for count in SITES:
                pooled = resampled(held.train, held.train_y, count, np.random.default_rng([seed, count]), rule)
                figures = errors(pooled.X, pooled.y, held, seed) | exposure(pooled, held)
                for key, value in figures.items():
                    found[f"{rule}|{count}"][key].append(value)
    return {key: dict(values) for key, values in found.items()}


def density(name: str, seeds: int) -> Found:
    """Figs 3-7 (b): DAPL of each class against L, with f from test rows, and with f from all training rows pooled."""
    found: Found = defaultdict(list)
    for seed in range(seeds):
        held = split(name, seed)
        for rule in RULES:
            whole = resampled(held.train, held.train_y, 1, np.random.default_rng(seed), rule).sites[0][1]
            apart = resampled(held.test, held.test_y, 1, np.random.default_rng(seed), rule).sites[0][1]
            for count in SITES:
                rng = np.random.default_rng([seed, count])
                parts = resampled(held.train, held.train_y, count, rng, rule).sites
                for code in (0, 1):
                    estimates = [
                        RowDensity.of(fit, held.train[members], held.train_y[members], code) for members, fit in parts
                    ]
                    counts = [len(estimate.rows) for estimate in estimates]
                    for against, fit, X, y in (
                        ("apart", apart, held.test, held.test_y),
                        ("pooled", whole, held.train, held.train_y),
                    ):
                        f = RowDensity.of(fit, X, y, code)
                        found[f"{rule}|{count}|{code}|{against}"].append(dapl(f, estimates, counts, rng, DRAWS).loss)
    return dict(found)


def half(name: str, seeds: int) -> Found:
    """5.1.1: M = N/2 in place of M = N, at L = 1 and 4, the same splits and sites."""
    found: Found = defaultdict(lambda: defaultdict(list))
    for seed in range(seeds):
        held = split(name, seed)
        for count in (1, 4):
            for rows in (None, 0.5):
                pooled = resampled(
                    held.train, held.train_y, count, np.random.default_rng([seed, count]), "published", rows
                )
                for key, value in errors(pooled.X, pooled.y, held, seed).items():
                    found[f"{count}|{rows or 1}"][key].append(value)
    return {key: dict(values) for key, values in found.items()}


def many_sites(name: str, seeds: int) -> Found:
    """Section 2 speaks of hundreds of sites: kNN and naive Bayes on SVMGuide1, whose rows suffice for 256."""
    found: Found = defaultdict(lambda: defaultdict(list))
    for seed in range(seeds):
        held = split(name, seed)
        for count in (1, 16, 64, 256):
            pooled = resampled(held.train, held.train_y, count, np.random.default_rng([seed, count]))
            for key, one in classifiers(seed).items():
                if key != "ann":
                    wrong = one.fit(pooled.X, pooled.y).predict(held.test) != held.test_y
                    found[str(count)][key].append(float(wrong.mean()))
            found[str(count)]["hits"].append(source_hit_rate(pooled.X, held.train, pooled.source).rate)
    return {key: dict(values) for key, values in found.items()}


class TwoNormals:
    """A known truth in the unit cube: two normal lumps."""

    def __init__(self, d: int) -> None:
        self.means = np.array([np.full(d, 0.35), np.full(d, 0.65)])
        self.scale = 0.1

    def logpdf(self, Z: Matrix) -> Matrix:
        squares = ((Z[:, None] - self.means) ** 2).sum(axis=2) / self.scale**2
        d = Z.shape[1]
        return np.logaddexp(*(-0.5 * squares.T)) - np.log(2) - d * np.log(self.scale) - 0.5 * d * np.log(2 * np.pi)

    def sample(self, count: int, rng: np.random.Generator) -> Matrix:
        lump = rng.integers(2, size=count)
        return self.means[lump] + self.scale * rng.standard_normal((count, self.means.shape[1]))


def against_rows(d: int, sizes: tuple[int, ...]) -> Found:
    """Eqs 13-17 as an experiment: does the estimate become right, and are sources forgotten, as N grows?"""
    truth, found = TwoNormals(d), defaultdict(list)
    for n in sizes:
        for seed in range(3 if n > 5_000 else 6):
            rng = np.random.default_rng([n, d, seed])
            X = np.clip(truth.sample(n, rng), 0, 1)
            for rule in RULES:
                fit = KernelResampling(bandwidth=rule, rows=min(n, 2_000)).fit(X)
                block = fit.perturb(X, None, rng)
                found[f"{rule}|{n}|hits"].append(source_hit_rate(block.X, X, block.source).rate)
                found[f"{rule}|{n}|dapl"].append(half_l1(truth, RowDensity.of(fit, X, None, None), rng, DRAWS).loss)
                found[f"{rule}|{n}|h"].append(float(fit.kernels_[-1].widths.mean()))
    return dict(found)


def lemmas(name: str, repeats: int) -> Found:
    """Section 4: Lemma 4.1 as published (R mixes records, two sites of as many rows) and by rows (R mixes columns).

    share of bounds that hold, that are vacuous (not positive), and how much of the true length they reach.
    """
    held = split(name, 0)
    X = 2 * held.train - 1
    found: Found = defaultdict(list)
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        first, second = (X[members][: len(X) // 2] for members in dealt(held.train_y, 2, rng))
        n, d = min(len(first), len(second)), X.shape[1]
        first, second = first[:n], second[:n]
        norms = np.linalg.norm(first, axis=0)
        for share in (0.5, 1.0):
            R = rng.standard_normal((round(share * n), n)) / np.sqrt(round(share * n))
            leaked = int(rng.integers(d))
            bound = column_norm_bound(R @ first, R @ second, leaked, float(np.linalg.norm(second[:, leaked])))
            found[f"records, K = {share:g} N|holds"].append(float((bound <= norms + 1e-9).mean()))
            found[f"records, K = {share:g} N|reached"].append(float(np.median(bound / np.maximum(norms, 1e-12))))
            others = np.delete(first, 0, axis=0).T
            told = value_bound(bound, others)
            found[f"records, K = {share:g} N|value told"].append(float((told > 0).mean()))
            right = told <= np.abs(first[0]) + 1e-9
            found[f"records, K = {share:g} N|value holds"].append(float(right[told > 0].mean()) if told.any() else 1.0)
        Z = first @ haar_rotation(d, rng).T
        row = int(rng.integers(n))
        bound = row_norm_bound(Z, row, float(np.linalg.norm(first[row])))
        lengths = np.linalg.norm(first, axis=1)
        found["rows, rotation|holds"].append(float((bound <= lengths + 1e-9).mean()))
        found["rows, rotation|reached"].append(float(np.median(bound / np.maximum(lengths, 1e-12))))
        told = value_bound(bound, np.delete(first, 0, axis=1))
        found["rows, rotation|value told"].append(float((told > 1e-9).mean()))
        right = told <= np.abs(first[:, 0]) + 1e-6
        found["rows, rotation|value holds"].append(float(right.mean()))
    return dict(found) | {"columns": SETS[name].columns}
