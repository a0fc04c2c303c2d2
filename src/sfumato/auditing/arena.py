"""Where adversary and truth meet: what could be known, who is aimed at, and what a guess is scored against."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace

import numpy as np

from sfumato.attacks import Attack, ColumnMoments, Knowledge, Lineups, RowPairs, Transform
from sfumato.attacks.base import Simulated, Simulator
from sfumato.attacks.metrics import Truth
from sfumato.attacks.metrics.privacy import row_codes
from sfumato.auditing.evidence import Evidence, sampled
from sfumato.channels import Guided, NotApplicableError, Recipe, Secret, Staged, draw
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import SfumatoError
from sfumato.guarantee import Card
from sfumato.mechanisms import MECHANISMS, make_mechanism
from sfumato.table.statistics import NO_CLASS

# Line-ups: for some released rows the person behind each, among others of the same class.


MOST_ROWS, MOST_PEOPLE = 300, 100
"""Line-ups, and people in each."""


def line_up(evidence: Evidence, rng: np.random.Generator) -> tuple[Lineups, Codes] | None:
    """Line-ups and in each the place of the right one; None where nobody can tell whose a row is.

    The others are strangers of the holdout, or of the table where there are too few: people whom the released label,
    which is public, does not tell apart from the right one.
    """
    if evidence.behind is None:
        return None
    somebodys = np.flatnonzero(~evidence.nobodys)
    rows = somebodys[sampled(len(somebodys), MOST_ROWS, rng)]
    pools = _pools(evidence, evidence.people.y is not None)
    size = min(MOST_PEOPLE, *(len(pool) + 1 for pool in pools.values()))
    if size < 2:
        return None
    X = np.empty((len(rows), size, evidence.encoding.width))
    places = rng.integers(size, size=len(rows))
    for number, row in enumerate(rows):
        own = evidence.behind[row]
        pool = pools[_class(evidence, own)]
        pool = pool[(pool != evidence.people.X[own]).any(axis=1)]  # a twin is no other
        if len(pool) < 1:
            return None
        others = np.setdiff1d(np.arange(size), places[number])
        X[number, others] = pool[rng.choice(len(pool), size=size - 1, replace=len(pool) < size - 1)]
        X[number, places[number]] = evidence.people.X[own]
    return Lineups(rows, X), places.astype(np.int64)


def _class(evidence: Evidence, person: int) -> int:
    return 0 if evidence.people.y is None else int(evidence.people.y[person])


def _pools(evidence: Evidence, labelled: bool) -> dict[int, np.ndarray[tuple[int, int], np.dtype[np.float64]]]:
    """Others by class."""
    people, holdout = evidence.people, evidence.holdout
    codes = np.unique(people.y).tolist() if labelled and people.y is not None else [0]
    found = {}
    for code in codes:
        outside = None
        if holdout is not None and (not labelled or holdout.y is not None):
            outside = holdout.X if not labelled else holdout.X[holdout.y == code]
        if outside is None or len(outside) < min(MOST_PEOPLE - 1, 20):
            outside = people.X if people.y is None or not labelled else people.X[people.y == code]
        found[code] = outside
    return found


# How an adversary who knows a mechanism and its parameters makes releases of its own.


def simulator_of(evidence: Evidence) -> Simulator | None:
    """By the channels of the card where they are stated, else by running the mechanism on other people.

    None where that needs a secret, or an operator of the owner's own: the channels as far as they are known must do.
    """
    card = evidence.card
    if card is None or card.made_by().rows == "nobody":
        return None
    recipe = card.made_by()
    if all(channel.is_stated for channel in recipe.channels):
        return _by_channels(recipe, evidence.affine)
    mechanism = MECHANISMS.get(card.mechanism["name"])
    again = mechanism is not None and mechanism.columnwise and not mechanism.needs_key and evidence.columnwise
    return _by_mechanism(card, evidence) if again and card.post_processing is None else None


def _by_channels(recipe: Recipe, affine: tuple[Matrix, Matrix] | None) -> Simulator | None:
    secret = recipe.map.kind == Secret.kind
    if secret and affine is None:
        return None

    def simulate(X: Matrix, y: Codes | None, rng: np.random.Generator) -> Simulated:
        source = np.arange(len(X))
        if recipe.by_class:
            codes = np.full(len(X), NO_CLASS) if y is None else y
            Z = np.empty((len(X), recipe.width))
            for code in np.unique(codes).tolist():
                Z[codes == code] = draw(recipe.of_class(code), np.array(X[codes == code]), rng)
        elif secret and affine is not None:
            Z = draw(recipe.channels, np.asarray(X @ affine[0].T + affine[1]), rng)
        else:
            Z = recipe.perturb(np.array(X), rng)
        return Simulated(Z, y, source)

    return simulate


def _by_mechanism(card: Card, evidence: Evidence) -> Simulator:
    def simulate(X: Matrix, y: Codes | None, rng: np.random.Generator) -> Simulated:
        try:
            made = make_mechanism(card.mechanism["name"], dict(card.mechanism["parameters"]))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                block = made.release(X, y, rng=rng, encoding=evidence.encoding)
        except SfumatoError as error:
            raise NotApplicableError("the method could not be run on the attacker's own people") from error
        return Simulated(block.X, block.y, block.source)

    return simulate


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
