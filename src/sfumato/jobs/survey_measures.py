"""The paper's two degrees of a survey, for people of a population: of disclosure and of error [guided-survey, 5]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sfumato.array_types import Matrix
from sfumato.guarantee.rounding import percent_up, rounded_up
from sfumato.guidance import (
    AnswerSpace,
    DegreeOfError,
    Disclosure,
    Link,
    MostDisclosure,
    degree_of_error,
    disclosure,
    most_bits,
    most_disclosure,
    perturb_bits,
)
from sfumato.wording import counted

MOST_ROWS = 20_000


@dataclass(frozen=True)
class SurveyMeasures:
    """What the bits of one answer disclose, and how far received rows mislead, at level `k`.

    honest: disclosure to the guidance that was given. most: Definition 2, to the worst guidance of this level.
    anybody_bits: no guidance of this level discloses more bits of anybody's answer, whatever the population.
    error: Definition 1, of simulated answers to the given guidance.
    """

    k: int
    honest: Disclosure
    most: MostDisclosure
    anybody_bits: float
    error: DegreeOfError

    def sentences(self) -> list[str]:
        """For people who read the audit."""
        per_size = ", ".join(f"{value:.3f}" for value in self.error.by_size)
        certain = "" if self.error.exact else "at least "
        return [
            f"Degree of disclosure (Definition 2): guidance of {counted(self.k, 'direction')} can disclose at most "
            f"{percent_up(self.most.of_whole_answers)} of the entropy of whole answers ({rounded_up(self.most.bits)} "
            f"bits). The worst guidance that was found discloses {self.most.found.of_whole_answers:.1%}, the survey's "
            f"own {self.honest.of_whole_answers:.1%}, or {self.honest.by_question:.1%} by question, as a plan counts.",
            f"Whatever the population, no guidance of {counted(self.k, 'direction')} discloses more than "
            f"{rounded_up(self.anybody_bits)} bits of one answer.",
            f"Degree of error (Definition 1): {certain}{self.error.value:.3f}. For one, two, ... answers together: "
            f"{per_size}.",
        ]

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        shares = {"of_whole_answers": self.most.of_whole_answers, "by_question": self.most.by_question}
        return {
            "k": self.k,
            "disclosure": self.honest._asdict(),
            "most_disclosure": {"at_most": {"bits": self.most.bits, **shares}, "found": self.most.found._asdict()},
            "anybody_bits": self.anybody_bits,
            "degree_of_error": self.error._asdict(),
        }


def measure_survey(
    codes: ArrayLike,
    y: ArrayLike,
    space: AnswerSpace,
    V: Matrix,
    *,
    floor: float,
    link: Link,
    seed: int = 0,
) -> SurveyMeasures:
    """Both degrees for people like these (plain answers as choice numbers, with classes), at the level of V."""
    people, labels = np.atleast_2d(np.asarray(codes))[:MOST_ROWS], np.asarray(y)[:MOST_ROWS]
    T = space.onehot(people)
    bits = perturb_bits(T, V, np.random.default_rng(seed).random(T.shape), floor, link)
    k = int(V.shape[1])
    return SurveyMeasures(
        k,
        disclosure(people, space, V, floor, link, seed=seed),
        most_disclosure(people, space, k, floor, link, guidance=V, seed=seed),
        most_bits(space, k, floor, link),
        degree_of_error(T, labels, bits, labels, space),
    )
