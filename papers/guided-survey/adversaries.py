"""What a collector reads who sends guidance of its own making, and what Theorem 5.2 says of honest guidance."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.attacks.malicious_miner import MaliciousMiner
from sfumato.channels.guidance.disclosure import disclosure, published_disclosure_estimate
from sfumato.channels.guidance.guidance import Guidance, SurveyCounts, SurveyRules
from sfumato.channels.guidance.space import AnswerSpace

SPACE = AnswerSpace([2] * 16)
FLOORS = (0.0, 0.1, 0.25)


def theorem_2() -> dict[str, Any]:
    """Eight identical binary questions, k = 1, the honest direction."""
    space = AnswerSpace([2] * 8)
    codes = np.repeat((np.arange(1000) < 460).astype(int)[:, None], 8, axis=1)
    T = space.onehot(codes)
    V = Guidance.from_counts(SurveyCounts.of(T, codes[:, 0]), SurveyRules(floor=0.0, k=1)).V
    told = {str(floor): disclosure(codes, space, V, floor).of_whole_answers for floor in FLOORS}
    return {"estimate": published_disclosure_estimate(T, space, 1), "disclosed": told}


def miners(rows: int) -> dict[str, Any]:
    """One of 16 random yes-or-no questions: who is read with certainty, and how often a guess is right."""
    people = np.random.default_rng(0).integers(0, 2, (rows, 16))
    found: dict[str, Any] = {}
    for kind, longest in (
        ("unit", 1.0),
        ("plus-minus", 1.0),
        ("plus-minus", 0.5),
        ("plus-minus", 0.18),
        ("optimised", 1.0),
    ):
        for floor in FLOORS:
            miner = MaliciousMiner(kind, 3, row_norm=longest, steps=100)
            reading = miner.read(people, SPACE, floor)
            found[f"{kind}|{longest}|{floor}"] = vars(reading)
    return found
