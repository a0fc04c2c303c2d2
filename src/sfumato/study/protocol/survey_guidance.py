"""From a survey and its received counts to guidance: a public function, so that anybody can recompute a version."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from sfumato.channels.guidance.guidance import (
    ORTHONORMAL,
    Guidance,
    GuidanceError,
    SurveyCounts,
    SurveyRules,
    check_guidance,
    class_difference,
    least_level,
)
from sfumato.channels.guidance.space import AnswerSpace
from sfumato.core.array_types import Codes, Floats
from sfumato.study.protocol.survey_file import RANDOM, SurveyStudy

TOLERANCE = 1e-6
"""How far, relative to the largest eigenvalue, recomputed directions may be from those published: eigenvectors of
nearly equal eigenvalues differ between machines, the equation A v = sigma v does not."""


def answer_space(survey: SurveyStudy) -> AnswerSpace:
    return AnswerSpace(survey.sizes)


@lru_cache(maxsize=256)
def startup_counts(survey: SurveyStudy) -> SurveyCounts:
    """Counts that the survey starts from: of the owner's rows, or of as many random ones as there are questions [4.1].

    Random rows come from SHA-256 of the survey file, so that everybody gets the same ones.
    """
    space = answer_space(survey)
    if survey.start_up != RANDOM:
        return SurveyCounts.from_json(survey.start_up)
    number = max(len(survey.sizes), len(survey.classes))
    rows = np.column_stack(
        [_random_choices(survey.root, place, size, number) for place, size in enumerate(survey.sizes)]
    )
    return SurveyCounts.of(space.onehot(rows), np.arange(number) % len(survey.classes))


def _random_choices(seed: str, place: int, size: int, number: int) -> Codes:
    """Choice ``SHA-256("seed|place|row") mod size`` of every row: plain enough for any other program."""
    digests = (hashlib.sha256(f"{seed}|{place}|{row}".encode()).digest() for row in range(number))
    return np.array([int.from_bytes(digest[:8], "big") % size for digest in digests], dtype=np.int64)


def survey_rules(survey: SurveyStudy) -> SurveyRules:
    """The survey without its questions and people, as a simulation takes it."""
    return SurveyRules(
        survey.batch, survey.mu, survey.order, survey.link, survey.floor, balance=survey.balance, k=survey.k
    )


def guidance_for(survey: SurveyStudy, received: SurveyCounts) -> Guidance:
    """The guidance that follows from everything received so far."""
    return Guidance.from_counts(received, survey_rules(survey), startup_counts(survey))


def inputs_hash(inputs: str) -> str:
    """SHA-256 of published counts, as they are written."""
    return hashlib.sha256(inputs.encode("ascii")).hexdigest()


def verify_guidance(survey: SurveyStudy, inputs: str, V: Floats, k: int) -> None:
    """Whether V is the guidance that the published counts lead to; `GuidanceError` if not.

    Checked are the eigenvalue equation, the order and k*, not the digits of the eigenvectors.
    """
    matrix = check_guidance(V, survey.width, k)
    received = SurveyCounts.from_json(inputs)
    A = class_difference(
        received, link=survey.link, floor=survey.floor, balance=survey.balance, startup=startup_counts(survey)
    )
    values = np.linalg.eigvalsh(A)
    ranked = values[np.argsort(-np.abs(values) if survey.order == "magnitude" else -values, kind="stable")]
    largest = np.abs(values).max()
    if not largest > 0:
        if k != 1 or np.abs(matrix - matrix[0]).max() > ORTHONORMAL:
            raise GuidanceError("The published counts say nothing, so the guidance must be the flat direction.")
        return
    sigmas = np.einsum("ij,ij->j", matrix, A @ matrix)
    if np.abs(A @ matrix - matrix * sigmas).max() > TOLERANCE * largest:
        raise GuidanceError("The guidance is not what its published counts lead to: other directions were sent.")
    shown, expected = (np.abs(sigmas), np.abs(ranked)) if survey.order == "magnitude" else (sigmas, ranked)
    if np.abs(np.sort(shown)[::-1] - expected[:k]).max() > TOLERANCE * largest:
        raise GuidanceError("The guidance leaves out directions that come first in the published counts.")
    if survey.k is not None:
        near = {survey.k}
    else:  # a tie may go either way
        near = {least_level(expected, survey.mu * shift) for shift in (1 - 1e-9, 1.0, 1 + 1e-9)}
    if k not in near:
        raise GuidanceError(f"The published counts lead to level {min(near)}, but {k} was sent.")
