"""Votes: Figs 4 and 5, respondents of mixed limits, and what Theorem 5.1 says of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from papers.data import load
from published import LEVELS

from sfumato.auditing.figures.guided_survey import (
    SCHEMES,
    Answers,
    classifier,
    mean_disclosure,
    start_up,
    surveyed,
)
from sfumato.auditing.figures.guided_survey import arriving as arrivals
from sfumato.channels.guidance.disclosure import (
    disclosure,
    mixed_limits,
    published_disclosure_estimate,
    published_error_estimate,
    simulate,
    whole_tuple_disclosure,
    whole_tuple_response,
)
from sfumato.channels.guidance.epsilon import survey_epsilon
from sfumato.channels.guidance.guidance import Guidance, SurveyCounts, SurveyRules
from sfumato.channels.guidance.most_disclosure import degree_of_error, most_bits, most_disclosure
from sfumato.channels.guidance.space import AnswerSpace, perturb_bits
from sfumato.learn.classifiers.survey_bits import SurveyClassifier

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
            run = surveyed(chosen, Answers(codes[:TRAIN], y[:TRAIN], SPACE), k=k, start=START, seed=seed)
            hits.append(classifier(chosen, "naive-bayes", run, T, y, START).score(T[TRAIN:], y[TRAIN:]))
            shares.append(mean_disclosure(codes, SPACE, run, 300, points=3))
            V = run.versions[-1].guidance.V
            epsilons.append(survey_epsilon(V, SPACE, chosen.rules.floor).record)
        found["accuracy"].append([float(np.mean(hits)), float(np.std(hits))])
        found["disclosure"].append([float(np.mean(shares)), float(np.std(shares))])
        mean = float(np.mean(epsilons))
        found["epsilon"].append([mean if np.isfinite(mean) else -1.0, 0.0])
    return found


def whole_tuple(theta: float, runs: int) -> dict[str, Any]:
    """Eq. 2: the whole answer is sent as it is with probability theta, else all of it turned over; naive Bayes."""
    hits, shares = [], []
    for seed in range(runs):
        codes, y = people(seed)
        T = SPACE.onehot(codes)
        sent = whole_tuple_response(T[:TRAIN], np.random.default_rng(seed).random(TRAIN), theta)
        hits.append(SurveyClassifier(queries="plain").fit(sent, y[:TRAIN]).score(T[TRAIN:], y[TRAIN:]))
        shares.append(whole_tuple_disclosure(codes, SPACE, theta).by_question)
    return {"accuracy": [float(np.mean(hits)), float(np.std(hits))], "disclosure": float(np.mean(shares))}


def arriving(scheme: str, mu: float, start: str, runs: int) -> dict[str, Any]:
    """Fig. 5: k* after every ten answers, the mean over orders of arrival."""
    traces = []
    for seed in range(runs):
        codes, y = people(seed)
        traces.append(arrivals(Answers(codes, y, SPACE), scheme, mu, start, seed)[:42])
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
        int(v): disclosure(codes, SPACE, run.versions[v].guidance.V, rules.floor, draws=300).by_question
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
    """Degree of error (Definition 1, sets of answers of every size) against 2 mu sigma_1 / m, mu = .025."""
    found: dict[str, Any] = {}
    for name, order, floor in (("value", "value", 0.0), ("magnitude", "magnitude", 0.0), ("floor", "magnitude", 0.25)):
        errors, by_size, estimates = [], [], []
        for seed in range(runs):
            codes, y = people(seed)
            T = SPACE.onehot(codes)
            guidance = Guidance.from_counts(
                SurveyCounts.of(T, y), SurveyRules(mu=0.025, order=order, floor=0.0, balance=False)
            )
            R = perturb_bits(T, guidance.V, np.random.default_rng(seed).random(T.shape), floor)
            degree = degree_of_error((T, y), (R, y), SPACE, sizes=4)
            errors.append(degree.value)
            by_size.append(degree.by_size)
            estimates.append(published_error_estimate(float(guidance.sigmas[0]), 0.025, len(T)))
        found[name] = {
            "error": float(np.mean(errors)),
            "by_size": np.mean(by_size, axis=0).tolist(),
            "estimate": float(np.mean(estimates)),
        }
    return found


def definition_2(k: int, floor: float) -> dict[str, Any]:
    """I(t; R) / H(t): of honest guidance, of the worst that a search finds, and the bound that none exceeds."""
    codes, y = people(0)
    honest = Guidance.from_counts(SurveyCounts.of(SPACE.onehot(codes), y), SurveyRules(floor=floor, k=k)).V
    most = most_disclosure(codes, SPACE, k, floor, guidance=honest)
    return {
        "honest": disclosure(codes, SPACE, honest, floor).of_whole_answers,
        "found": most.found.of_whole_answers,
        "bound": most.of_whole_answers,
        "bits": most.bits,
        "anybody_bits": most_bits(SPACE, k, floor),
        "estimate": published_disclosure_estimate(SPACE.onehot(codes), SPACE, k),
    }
