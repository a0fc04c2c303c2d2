"""Votes: Figs 4 and 5, respondents of mixed limits, and what Theorem 5.1 says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from papers.data import load
from published import LEVELS
from schemes import SCHEMES, classifier, mean_disclosure, start_up, surveyed

from sfumato.classifiers.survey_bits import SurveyClassifier
from sfumato.guidance import (
    AnswerSpace,
    Guidance,
    SurveyCounts,
    SurveyRules,
    class_difference,
    disclosure,
    mixed_limits,
    perturb_bits,
    random_startup,
    simulate,
    survey_epsilon,
)
from sfumato.guidance.disclosure import published_error_estimate

SPACE = AnswerSpace([2] * 16)
START = 16
TRAIN = 290
"""Two thirds of the 435 records; the paper does not tell its split."""


def people(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Votes with the 392 missing ones replaced by uniform random bits, in random order."""
    rng = np.random.default_rng(seed)
    data = load("votes")
    missing = (data.X != 0) & (data.X != 1)
    codes = np.where(missing, rng.integers(0, 2, data.X.shape), data.X).astype(np.int64)
    order = rng.permutation(len(codes))
    return codes[order], data.y[order]


def original(runs: int) -> dict[str, Any]:
    """Naive Bayes on plain answers."""
    hits = []
    for seed in range(runs):
        codes, y = people(seed)
        T = SPACE.onehot(codes)
        hits.append(SurveyClassifier(queries="plain").fit(T[:TRAIN], y[:TRAIN]).score(T[TRAIN:], y[TRAIN:]))
    return {"mean": float(np.mean(hits)), "sd": float(np.std(hits))}


def levels(scheme: str, runs: int) -> dict[str, Any]:
    """Fig. 4: accuracy, disclosure and epsilon when everybody is asked at the same level k."""
    found: dict[str, list[list[float]]] = {"accuracy": [], "disclosure": [], "epsilon": []}
    chosen = SCHEMES[scheme]
    for k in LEVELS:
        hits, shares, epsilons = [], [], []
        for seed in range(runs):
            codes, y = people(seed)
            T = SPACE.onehot(codes)
            run = surveyed(chosen, codes[:TRAIN], y[:TRAIN], SPACE, k=k, start=START, seed=seed)
            hits.append(classifier(chosen, "naive-bayes", run, T, y, START).score(T[TRAIN:], y[TRAIN:]))
            shares.append(mean_disclosure(codes, SPACE, run, 300, points=3))
            V = run.versions[-1].guidance.V
            epsilons.append(survey_epsilon(V, SPACE, chosen.rules.floor).record)
        found["accuracy"].append([float(np.mean(hits)), float(np.std(hits))])
        found["disclosure"].append([float(np.mean(shares)), float(np.std(shares))])
        mean = float(np.mean(epsilons))
        found["epsilon"].append([mean if np.isfinite(mean) else -1.0, 0.0])
    return found


def arriving(scheme: str, mu: float, start: str, runs: int) -> dict[str, Any]:
    """Fig. 5: k* after every ten answers, the mean over orders of arrival."""
    rules = SurveyRules(**{**vars(SCHEMES[scheme].rules), "mu": mu, "batch": 10})
    traces = []
    for seed in range(runs):
        codes, y = people(seed)
        first = random_startup(SPACE, 2, seed=seed) if start == "random" else start_up(SPACE.onehot(codes), y, START)
        run = simulate(codes[START:], y[START:], SPACE, rules, startup=first, seed=seed)
        traces.append(run.levels[:42])
    return {"received": list(range(0, 420, 10)), "k": np.mean(traces, axis=0).tolist()}


def mixed(scheme: str, low: int, middle: int, respondents: int, mu: float) -> dict[str, Any]:
    """17% accept `low`, 56% `middle`, 27% any level: who sends, who waits how long, what each kind discloses."""
    chosen = SCHEMES[scheme]
    codes, y = people(0)
    rng = np.random.default_rng(1)
    who = rng.integers(0, TRAIN, respondents)
    limits = mixed_limits(respondents, SPACE.width, levels=(low, middle), seed=2)
    rules = SurveyRules(**{**vars(chosen.rules), "mu": mu})
    first = start_up(SPACE.onehot(codes), y, START)
    run = simulate(codes[who], y[who], SPACE, rules, limits=limits, startup=first, seed=3)
    T = SPACE.onehot(codes)
    accuracy = classifier(chosen, "naive-bayes", run, T, y, START).score(T[TRAIN:], y[TRAIN:]) if len(run.who) else None
    shares = {
        int(v): disclosure(codes, SPACE, run.versions[v].guidance.V, rules.floor, draws=300).share
        for v in np.unique(run.version)
    }
    told = np.array([shares[v] for v in run.version])
    kinds = {}
    for name, limit in (("fundamentalists", low), ("pragmatists", middle), ("marginally concerned", SPACE.width)):
        mine = limits[run.who] == limit
        waited = run.waited[mine]
        kinds[name] = {
            "sent": float(mine.sum() / max((limits == limit).sum(), 1)),
            "waited": float(waited.mean()) if len(waited) else -1.0,
            "waited_95": float(np.quantile(waited, 0.95)) if len(waited) else -1.0,
            "disclosure": float(told[mine].mean()) if mine.any() else 0.0,
        }
    return {
        "accuracy": accuracy,
        "disclosure": float(told.mean()) if len(told) else 0.0,
        "kinds": kinds,
        "first": int(run.levels[0]),
        "last": int(run.levels[-1]),
    }


def theorem_1(runs: int) -> dict[str, Any]:
    """Degree of error against 2 mu sigma_1 / m, mu = .025, both orders."""
    found: dict[str, Any] = {}
    for order in ("value", "magnitude"):
        errors, estimates = [], []
        for seed in range(runs):
            codes, y = people(seed)
            T = SPACE.onehot(codes)
            counts = SurveyCounts.of(T, y)
            guidance = Guidance.from_counts(counts, 0.025, order=order, floor=0.0, balance=False)
            sent = SurveyCounts.of(perturb_bits(T, guidance.V, np.random.default_rng(seed).random(T.shape), 0.0), y)
            before, after = (class_difference(part, floor=0.0, balance=False) for part in (counts, sent))
            errors.append(float(np.abs(before - after).max() / len(T)))
            estimates.append(published_error_estimate(float(guidance.sigmas[0]), 0.025, len(T)))
        found[order] = {"error": float(np.mean(errors)), "estimate": float(np.mean(estimates))}
    return found
