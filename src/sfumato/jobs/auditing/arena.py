"""Where adversary and truth meet: what could be known, who is aimed at, and what a guess is scored against."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.attacks import Attack, ColumnMoments, Knowledge, RowPairs, Transform
from sfumato.channels import Guided, Staged
from sfumato.jobs.auditing.evidence import Evidence, sampled
from sfumato.jobs.auditing.line_up import line_up
from sfumato.jobs.auditing.simulator import simulator_of
from sfumato.metrics import Truth
from sfumato.metrics.privacy import row_codes

MOST_TARGETS = 1_000
MOST_CANDIDATES = 500
"""People that are aimed at one by one, and members (and as many others) in the membership test."""
MOST_SAMPLED = 2_000
GUIDED = (
    "The release consists of the bits of a guided survey. Its guidance is public, so posterior-guess, "
    "posterior-breach and membership compute exact posteriors for the population they are given. The respondents are "
    "simulated: nobody knows both what real people sent and what they answered."
)
OWN_SAMPLE = (
    "No holdout table: attacks that need a sample of similar people were given {count:,} people of the original, "
    "without their images; these people do not count among their successes."
)


@dataclass(frozen=True)
class Arena:
    """`known` is everything an adversary could know, `aside` the same aimed at people who are not in the table.

    targets, candidates: positions in `evidence.people` of the people aimed at, and of the members among the
    candidates (who come first). paired: of the people whose rows are known together with their images. lent: of
    the people whose rows serve as a sample where there is no holdout.
    """

    evidence: Evidence
    known: Knowledge
    aside: Knowledge | None
    truth: Truth
    targets: Codes
    candidates: Codes
    paired: Codes = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    lent: Codes = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def known_to(self, attack: Attack) -> Knowledge:
        """Everything, with the lent people as a sample for an attack that cannot do without one."""
        if "sample" in attack.knows and self.known.sample is None and len(self.lent):
            labels = self.evidence.people.y
            return replace(
                self.known,
                sample=self.evidence.people.X[self.lent],
                sample_labels=None if labels is None else labels[self.lent],
            )
        return self.known

    def given_away(self, attack: Attack) -> Codes:
        """Positions of the people whom this attack was given, who therefore cannot count among its successes."""
        paired = self.paired if "known_rows" in attack.knows else self.paired[:0]
        lent = self.lent if "sample" in attack.knows and self.known.sample is None else self.lent[:0]
        return np.union1d(paired, lent)

    def records(self, aim: str, positions: Codes) -> Codes:
        """Row numbers in the original of release rows, targets or candidates (strangers among these are left out)."""
        if aim == "candidates":
            positions = self.candidates[positions[positions < len(self.candidates)]]
        elif aim == "people":  # those of whom no row was drawn come after them
            positions = positions[positions < len(self.evidence.people.X)]
        elif aim == "targets":
            positions = self.targets[positions]
        else:
            assert self.evidence.behind is not None
            positions = self.evidence.behind[positions]
        return self.evidence.people.numbers[positions]


def set_up(evidence: Evidence, tolerance: float, rng: np.random.Generator) -> Arena:
    """Give the adversaries all they could have: the card, the strength of the noise, the ways of the population."""
    people, people_y, holdout = evidence.people.X, evidence.people.y, evidence.holdout
    seen = np.arange(len(people)) if evidence.behind is None else np.unique(evidence.behind[~evidence.nobodys])
    targets = seen[sampled(len(seen), MOST_TARGETS, rng)]
    strangers = None if holdout is None else holdout.X
    aside_of = None if strangers is None else sampled(len(strangers), MOST_TARGETS, rng)
    control_targets = None if strangers is None else strangers[aside_of]
    candidates, candidate_labels, members, inside = None, None, None, np.empty(0, dtype=np.int64)
    outside = strangers_without_twins(evidence.register, strangers)
    if len(outside) and strangers is not None:
        everybody = evidence.register
        chosen = sampled(len(everybody), MOST_CANDIDATES, rng)
        inside = chosen[chosen < len(people)]  # people whom no row was drawn from come after these
        outside = outside[sampled(len(outside), MOST_CANDIDATES, rng)]
        candidates = np.vstack([everybody[chosen], strangers[outside]])
        candidate_labels = _both(evidence.register_labels, chosen, None if holdout is None else holdout.y, outside)
        members = np.arange(len(candidates)) < len(chosen)
    population = people if strangers is None or len(strangers) < 2 else strangers
    pairs, paired, images, lent = None, targets[:0], None, targets[:0]
    if evidence.behind is not None:
        order = np.argsort(evidence.behind, kind="stable")
        row_of = np.zeros(len(people), dtype=np.int64)
        row_of[seen] = order[np.searchsorted(evidence.behind[order], seen)]
        images = row_of[targets]
        # No more than half of the people: somebody must be left to be found out.
        paired = rng.permutation(seen)[: max(1, min(people.shape[1] + 1, len(seen) // 2))]
        pairs = RowPairs(people[paired], row_of[paired])
        if strangers is None:
            lent = sampled(len(people), min(len(people) // 4, MOST_SAMPLED), rng)
            evidence.notes.append(OWN_SAMPLE.format(count=len(lent)))
    lined_up = line_up(evidence, rng)
    known = Knowledge(
        release=evidence.Z,
        encoding=evidence.encoding,
        columnwise=evidence.columnwise,
        labels=evidence.y,
        transform=known_transform(evidence),
        noise=evidence.noise,
        noise_covariance=None if evidence.noise is None else evidence.noise.covariance(),
        column_moments=moments_of(population),
        column_distributions=tuple(np.sort(population, axis=0).T),
        known_rows=pairs,
        sample=strangers,
        sample_labels=None if holdout is None else holdout.y,
        register=evidence.register,
        register_labels=evidence.register_labels,
        candidates=candidates,
        candidate_labels=candidate_labels,
        targets=people[targets],
        target_labels=None if people_y is None else people_y[targets],
        images=images,
        guided=known_guidance(evidence),
        lineups=None if lined_up is None else lined_up[0],
        simulator=simulator_of(evidence),
        label_keep=evidence.label_keep,
        tolerance=tolerance,
    )
    labels = (evidence.y, people_y[targets], evidence.register_labels) if people_y is not None else (None,) * 3
    truth = Truth(
        encoding=evidence.encoding,
        rows=people if evidence.truth is None else evidence.truth,
        control=strangers,
        targets=people[targets],
        control_targets=control_targets,
        members=members,
        register=evidence.register,
        lineup=None if lined_up is None else lined_up[1],
        labels=labels[0],
        target_labels=labels[1],
        register_labels=labels[2],
        control_labels=None if holdout is None else holdout.y,
        candidate_labels=candidate_labels if evidence.y is not None else None,
        label_keep=evidence.label_keep,
        tolerance=tolerance,
    )
    aside = None
    if control_targets is not None and holdout is not None:
        control_labels = None if holdout.y is None else holdout.y[aside_of]
        aside = replace(known, targets=control_targets, target_labels=control_labels, images=None)
    return Arena(evidence, known, aside, truth, targets, inside, paired, lent)


def known_guidance(evidence: Evidence) -> Guided | Staged | None:
    """How answers were projected, or stages guided, as the card states it; attacks then have exact posteriors."""
    if evidence.card is not None and isinstance(staged := evidence.card.made_by().map, Staged):
        return staged
    if not evidence.is_guided or evidence.card is None:
        return None
    if GUIDED not in evidence.notes:
        evidence.notes.append(GUIDED)
    found = evidence.card.made_by().map
    assert isinstance(found, Guided)
    return found


def known_transform(evidence: Evidence) -> Transform | None:
    """The map as card and key tell it, and what the channels make of every number on average."""
    if evidence.affine is None:
        return None
    return Transform(*evidence.affine) if evidence.noise is None else evidence.noise.on_average(*evidence.affine)


def strangers_without_twins(people: Matrix, strangers: Matrix | None) -> Codes:
    """Positions of people whose record is not in the table: one that is identical to a member's is in it, whoever it
    belongs to."""
    if strangers is None or not len(strangers):
        return np.empty(0, dtype=np.int64)
    codes = row_codes(np.vstack([people, strangers]))
    return np.flatnonzero(~np.isin(codes[len(people) :], codes[: len(people)]))


def _both(mine: Codes | None, chosen: Codes, theirs: Codes | None, others: Codes) -> Codes | None:
    """Classes of some people of the table, then of some outside."""
    return None if mine is None or theirs is None else np.concatenate([mine[chosen], theirs[others]])


def moments_of(X: Matrix) -> ColumnMoments:
    """Mean and covariance of encoded columns."""
    covariance = np.atleast_2d(np.cov(X, rowvar=False)) if len(X) > 1 else np.zeros((X.shape[1],) * 2)
    return ColumnMoments(X.mean(axis=0), covariance)
