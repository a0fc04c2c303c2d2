"""The scheme as published, with its errata repaired, and as the product does it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.channels.guidance.disclosure import SurveyRun, disclosure, simulate
from sfumato.channels.guidance.guidance import SurveyCounts, SurveyRules
from sfumato.channels.guidance.space import AnswerSpace
from sfumato.learn.classifiers.survey_bits import SurveyClassifier


@dataclass(frozen=True)
class Scheme:
    """Rules of a survey, and how plain answers are classified; `title` for the tables."""

    title: str
    rules: SurveyRules
    queries: str | None


SCHEMES = {
    "published": Scheme("as published", SurveyRules(order="value", balance=False, floor=0.0), "plain"),
    "magnitude": Scheme("ordered by magnitude", SurveyRules(balance=False, floor=0.0), "plain"),
    "repaired": Scheme("repaired, no floor", SurveyRules(floor=0.0), None),
    "floor 0.1": Scheme("with floor .1", SurveyRules(floor=0.1), None),
    "default": Scheme("as it comes, floor .25", SurveyRules(), None),
}


def start_up(T: np.ndarray, y: np.ndarray, rows: int) -> SurveyCounts:
    """Real rows of people who do not mind [4.1]: as many as there are questions."""
    return SurveyCounts.of(T[:rows], y[:rows])


def classifier(scheme: Scheme, kind: str, run: SurveyRun, T: np.ndarray, y: np.ndarray, rows: int) -> SurveyClassifier:
    """Trained on what was received, and on the start-up rows, which the collector has too."""
    V = run.versions[-1].guidance.V
    made = SurveyClassifier(kind, V, scheme.rules.floor, scheme.rules.link, queries=scheme.queries)
    return made.fit(np.vstack([T[:rows], run.bits]), np.concatenate([y[:rows], run.y]))


def mean_disclosure(codes: np.ndarray, space: AnswerSpace, run: SurveyRun, draws: int, points: int = 4) -> float:
    """The average over respondents: over a few versions, spread evenly over those who sent."""
    chosen = np.unique(run.version[np.linspace(0, len(run.version) - 1, points).astype(int)])
    rules = run.rules
    shares = [
        disclosure(
            codes, space, run.versions[v].guidance.V, rules.floor, rules.link, draws=draws, seed=int(v)
        ).by_question
        for v in chosen
    ]
    return float(np.mean(shares))


def surveyed(
    scheme: Scheme, codes: np.ndarray, y: np.ndarray, space: AnswerSpace, *, k: int | None, start: int, seed: int
) -> SurveyRun:
    """A simulated survey of everybody after the first `start`, whose plain rows it starts from."""
    rules = SurveyRules(**{**vars(scheme.rules), "k": k})
    return simulate(codes[start:], y[start:], space, rules, startup=start_up(space.onehot(codes), y, start), seed=seed)
