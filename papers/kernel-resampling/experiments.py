"""The paper's experiments on one data set, each with the product's own mechanism, attacks and metrics."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from published import SETS
from sites import split

from sfumato.attacks.base import Knowledge
from sfumato.attacks.metrics.privacy import auc
from sfumato.attacks.metrics.scored import hard_interval, source_hit_rate
from sfumato.attacks.row_ratios import Membership
from sfumato.auditing.figures.kernel_resampling import (
    RULES,
    SITES,
    Pooled,
    Split,
    classifiers,
    density_losses,
    errors,
    known_truth,
    lemma_bounds,
    resampled,
    two_sites,
)
from sfumato.table import Encoding

Found = dict[str, Any]


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
            for count in SITES:
                for (code, against), loss in density_losses(held, rule, count, seed).items():
                    found[f"{rule}|{count}|{code}|{against}"].append(loss)
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


def against_rows(d: int, sizes: tuple[int, ...]) -> Found:
    """Eqs 13-17 as an experiment: does the estimate become right, and are sources forgotten, as N grows?"""
    found: Found = defaultdict(list)
    for n in sizes:
        for seed in range(3 if n > 5_000 else 6):
            for rule, one in known_truth(d, n, np.random.default_rng([n, d, seed])).items():
                for key, value in one.items():
                    found[f"{rule}|{n}|{key}"].append(value)
    return dict(found)


def lemmas(name: str, repeats: int) -> Found:
    """Section 4: Lemma 4.1 as published (R mixes records, two sites of as many rows) and by rows (R mixes columns)."""
    held = split(name, 0)
    found: Found = defaultdict(list)
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        for key, value in lemma_bounds(*two_sites(held, rng), rng).items():
            found[key].append(value)
    return dict(found) | {"columns": SETS[name].columns}
