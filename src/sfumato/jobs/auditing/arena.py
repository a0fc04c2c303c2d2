"""Where adversary and truth meet: what could be known, who is aimed at, and what a guess is scored against."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sfumato.attacks import ColumnMoments, Knowledge, Transform
from sfumato.jobs.auditing.alignment import row_codes
from sfumato.jobs.auditing.evidence import Codes, Evidence, Matrix, sampled
from sfumato.metrics import Truth

MOST_TARGETS = 1_000
MOST_CANDIDATES = 500
"""People that are aimed at one by one, and members (and as many others) in the membership test."""


@dataclass(frozen=True)
class Arena:
    """`known` is everything an adversary could know, `aside` the same aimed at people who are not in the table.

    targets, candidates: positions in `evidence.people` of the people aimed at, and of the members among the
    candidates (who come first).
    """

    evidence: Evidence
    known: Knowledge
    aside: Knowledge | None
    truth: Truth
    targets: Codes
    candidates: Codes

    def records(self, aim: str, positions: Codes) -> Codes:
        """Row numbers in the original of release rows, targets or candidates (strangers among these are left out)."""
        if aim == "candidates":
            positions = self.candidates[positions[positions < len(self.candidates)]]
        elif aim == "targets":
            positions = self.targets[positions]
        else:
            assert self.evidence.behind is not None
            positions = self.evidence.behind[positions]
        return self.evidence.people.numbers[positions]


def set_up(evidence: Evidence, tolerance: float, rng: np.random.Generator) -> Arena:
    """Give the adversaries all they could have: the card, the strength of the noise, the ways of the population."""
    people, holdout = evidence.people.X, evidence.holdout
    targets = sampled(len(people), MOST_TARGETS, rng)
    strangers = None if holdout is None else holdout.X
    control_targets = None if strangers is None else strangers[sampled(len(strangers), MOST_TARGETS, rng)]
    candidates, members, inside = None, None, np.empty(0, dtype=np.int64)
    outside = strangers_without_twins(people, strangers)
    if len(outside):
        inside = sampled(len(people), MOST_CANDIDATES, rng)
        outside = outside[sampled(len(outside), MOST_CANDIDATES, rng)]
        candidates = np.vstack([people[inside], outside])
        members = np.arange(len(candidates)) < len(inside)
    population = people if strangers is None or len(strangers) < 2 else strangers
    known = Knowledge(
        release=evidence.Z,
        encoding=evidence.encoding,
        columnwise=evidence.columnwise,
        labels=evidence.y,
        transform=None if evidence.affine is None else Transform(*evidence.affine),
        noise=evidence.noise,
        noise_covariance=None if evidence.variance is None else np.diag(evidence.variance),
        column_moments=moments_of(population),
        column_distributions=tuple(np.sort(population, axis=0).T),
        sample=strangers,
        candidates=candidates,
        targets=people[targets],
    )
    truth = Truth(
        encoding=evidence.encoding,
        rows=people if evidence.truth is None else evidence.truth,
        control=strangers,
        targets=people[targets],
        control_targets=control_targets,
        members=members,
        tolerance=tolerance,
    )
    aside = None if control_targets is None else replace(known, targets=control_targets)
    return Arena(evidence, known, aside, truth, targets, inside)


def strangers_without_twins(people: Matrix, strangers: Matrix | None) -> Matrix:
    """People whose record is not in the table: one that is identical to a member's is in it, whoever it belongs to."""
    if strangers is None or not len(strangers):
        return people[:0]
    codes = row_codes(np.vstack([people, strangers]))
    return strangers[~np.isin(codes[len(people) :], codes[: len(people)])]


def moments_of(X: Matrix) -> ColumnMoments:
    """Mean and covariance of encoded columns."""
    covariance = np.atleast_2d(np.cov(X, rowvar=False)) if len(X) > 1 else np.zeros((X.shape[1],) * 2)
    return ColumnMoments(X.mean(axis=0), covariance)
