"""The audit of a survey: simulated respondents answer to given guidance, and every adversary has his turn.

The respondents' answers are not known, so people of a population stand for them. Posteriors are exact all the same:
they follow from the guidance, whoever answers.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from sfumato.attacks.malicious_miner import KINDS, MaliciousMiner
from sfumato.auditing.asked import SurveyAuditAsked
from sfumato.auditing.audit import Audit, audit
from sfumato.channels.guidance import most_disclosure
from sfumato.channels.guidance.disclosure import (
    Disclosure,
    disclosure,
    published_disclosure_estimate,
    published_error_estimate,
)
from sfumato.channels.guidance.guidance import Guidance, SurveyCounts, SurveyRules, decode_matrix
from sfumato.channels.guidance.space import AnswerSpace, perturb_bits
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import TableError
from sfumato.core.files import new_folder
from sfumato.core.wording import counted
from sfumato.guarantee.rounding import percent_up, rounded_up
from sfumato.ledger import Ledger
from sfumato.mechanisms.guided_projection import FROM_A_SURVEY
from sfumato.release.sanitize import Options, sanitize
from sfumato.table import Encoding, Schema, write_table

MOST_ROWS = 20_000


@dataclass(frozen=True)
class SurveyMeasures:
    """What the bits of one answer disclose, and how far received rows mislead, at level `k` [guided-survey, 5].

    honest: disclosure to the guidance that was given. most: Definition 2, to the worst guidance of this level.
    anybody_bits: no guidance of this level discloses more bits of anybody's answer, whatever the population.
    error: Definition 1, of simulated answers to the given guidance.
    theorem_5_1, theorem_5_2: what the paper calls bounds on error and disclosure. They are none.
    """

    k: int
    honest: Disclosure
    most: most_disclosure.MostDisclosure
    anybody_bits: float
    error: most_disclosure.DegreeOfError
    theorem_5_1: float
    theorem_5_2: float

    def sentences(self) -> list[str]:
        """For people who read the audit."""

        def held(exact: float, claimed: float) -> str:
            return "is kept here" if exact <= claimed else f"is exceeded here ({exact:.3g})"

        per_size = ", ".join(f"{value:.3f}" for value in self.error.by_size)
        certain = "" if self.error.exact else "at least "
        told = max(self.honest.of_whole_answers, self.most.found.of_whole_answers)
        return [
            f"Degree of disclosure (Definition 2): guidance of {counted(self.k, 'direction')} can disclose at most "
            f"{percent_up(self.most.of_whole_answers)} of the entropy of whole answers ({rounded_up(self.most.bits)} "
            f"bits). The worst guidance that was found discloses {self.most.found.of_whole_answers:.1%}, the survey's "
            f"own {self.honest.of_whole_answers:.1%}, or {self.honest.by_question:.1%} by question, as a plan counts.",
            f"Whatever the population, no guidance of {counted(self.k, 'direction')} discloses more than "
            f"{rounded_up(self.anybody_bits)} bits of one answer.",
            f"Degree of error (Definition 1): {certain}{self.error.value:.3f}. For one, two, ... answers together: "
            f"{per_size}.",
            f"The paper's Theorem 5.1 puts the degree of error at {self.theorem_5_1:.3f} at most, which "
            f"{held(self.error.value, self.theorem_5_1)}; its Theorem 5.2 puts the disclosure at "
            f"{self.theorem_5_2:.1%} of the entropy at most, which {held(told, self.theorem_5_2)}. "
            "Neither is a bound (docs/errata.md).",
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
            "theorem_5_1": self.theorem_5_1,
            "theorem_5_2": self.theorem_5_2,
        }


def measure_survey(
    codes: ArrayLike, y: ArrayLike, space: AnswerSpace, V: Matrix, rules: SurveyRules, seed: int = 0
) -> SurveyMeasures:
    """Both degrees for people like these (plain answers as choice numbers, with classes), at the level of V."""
    floor, link = rules.floor, rules.link
    people, labels = np.atleast_2d(np.asarray(codes))[:MOST_ROWS], np.asarray(y)[:MOST_ROWS]
    T = space.onehot(people)
    bits = perturb_bits(T, V, np.random.default_rng(seed).random(T.shape), floor, link)
    k = int(V.shape[1])
    paper = replace(rules, floor=0.0, link="square", balance=False, k=1)
    sigma_1 = float(Guidance.from_counts(SurveyCounts.of(T, labels), paper).sigmas[0])
    return SurveyMeasures(
        k,
        disclosure(people, space, V, floor, link, seed=seed),
        most_disclosure.most_disclosure(people, space, k, floor, link, guidance=V, seed=seed),
        most_disclosure.most_bits(space, k, floor, link),
        most_disclosure.degree_of_error((T, labels), (bits, labels), space),
        published_error_estimate(sigma_1, rules.mu, len(T)),
        published_disclosure_estimate(T, space, k),
    )


MOST_PEOPLE = 4_000
LEAST_PEOPLE = 40
SIMULATED = (
    "The respondents are simulated: people from a population answered under the guidance. Posteriors follow exactly "
    "from the guidance, whoever answers."
)


def audit_survey(
    people: pa.Table, schema: Schema, guidance: str, rules: SurveyRules, options: SurveyAuditAsked
) -> tuple[Audit, list[dict[str, Any]], SurveyMeasures]:
    """The audit of simulated answers, malicious collectors beside it, with the floor and without, and the two degrees.

    Half of `people` (plain answers in the schema's words) respond, the others are the control; writes `out`.
    """
    if people.num_rows < LEAST_PEOPLE:
        raise TableError(f"An audit needs at least {LEAST_PEOPLE} people to play the respondents.")
    floor, seed, progress = rules.floor, options.seed, options.progress
    order = np.random.default_rng(seed).permutation(people.num_rows)[:MOST_PEOPLE]
    half = len(order) // 2
    with new_folder(Path(options.out), force=options.force) as folder:
        asked, others, answers = folder / "respondents.parquet", folder / "others.parquet", folder / "answers"
        write_table(people.take(order[:half]), asked, private=True)
        write_table(people.take(order[half:]), others, private=True)
        parameters = {"guidance": guidance, "floor": floor, "link": rules.link, "guidance_reason": FROM_A_SURVEY}
        sanitized = Options(
            mechanism="guided-projection", parameters=parameters, schema=schema, ledger=folder / "ledger.json"
        )
        sanitize(asked, answers, sanitized, progress)
        Ledger(folder / "ledger.json").discard()
        found = audit(answers, original=asked, holdout=others, seed=seed, out=answers, progress=progress)
        encoding = Encoding(schema)
        space = AnswerSpace([group.width for group in encoding.groups])
        respondents = people.take(order[:half])
        codes = space.codes(np.rint(encoding.encode(respondents).X))
        y = np.asarray(encoding.encode_label(respondents))
        V = decode_matrix(guidance, space.width, len(base64.b64decode(guidance)) // (8 * space.width))
        measures = measure_survey(codes, y, space, V, rules, seed)
        found.data["notes"] += [SIMULATED, *measures.sentences()]
        found.save_report(answers / "report.html")
        tried = [replace(rules, floor=floor) for floor in dict.fromkeys((rules.floor, 0.0))]
        miners = [_worst(kind, codes, space, encoding, one) for kind in KINDS for one in tried]
    return found, miners, measures


def _worst(kind: str, codes: Codes, space: AnswerSpace, encoding: Encoding, rules: SurveyRules) -> dict[str, Any]:
    """What a collector who makes up the guidance reads, of the question it reads best.

    Of all questions the one of which most people are identified, then most are guessed beyond the usual answer.
    """
    found = []
    for place, group in enumerate(encoding.groups):
        if group.width >= 2 and (kind == "unit" or len(space.sizes) > 2):
            reading = MaliciousMiner(kind, question=place, steps=100).read(codes, space, rules.floor, rules.link)
            found.append({"kind": kind, "floor": rules.floor, "question": group.column.name, **vars(reading)})
    return max(found, key=lambda one: (one["identified"], one["right"] - one["baseline"]))
