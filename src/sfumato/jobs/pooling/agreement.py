"""Which sites agree: a choice of sites that fewer than half of them cannot spoil, whatever they push.

Every site trains a classifier of its own, and all classify the same rows, as many of each site. The disagreement of
two sites is the share of rows to which their classifiers answer differently: a distance. Of k sites let h = k // 2 + 1
be the smallest majority. The middle site is the one whose h nearest sites, itself among them, lie closest around it,
within r; kept are all sites within 2 r of it (and `TOLERANCE`, since no two samples teach exactly the same).

*Breakdown point.* Let at most (k - 1) // 2 sites push whatever they like, together and knowing everything, and let
honest sites disagree with each other by at most D. At least h sites are honest, so r <= D. Any h sites include an
honest one, also those around the middle site: so every kept site, hostile or not, disagrees with that honest one by
at most 3 r + TOLERANCE <= 3 D + TOLERANCE. Half of the sites or more can be the majority, and then they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.array_types import Floats
from sfumato.classifiers.training import Part
from sfumato.jobs.pooling.pushed import thinned_part
from sfumato.jobs.pooling.trials import Queries, Step, answering, answers_released

FEWEST_SITES = 3
TOLERANCE = 0.02
JUDGED_ROWS = 2000
"""Rows that all classifiers answer to, in all."""
STANDS_IN = "naive-bayes"
"""Judges for classifiers that cannot answer to perturbed rows."""


@dataclass(frozen=True)
class Agreement:
    """`disagreement`: of every site with the middle one; `withstands`: so many hostile sites cannot spoil it."""

    disagreement: dict[str, float]
    middle: str
    radius: float

    @property
    def kept(self) -> list[str]:
        most = 2 * self.radius + TOLERANCE
        return [site for site, distance in self.disagreement.items() if distance <= most]

    @property
    def withstands(self) -> int:
        return (len(self.disagreement) - 1) // 2


def agreement_of(
    classifier: str, sites: Mapping[str, Sequence[Part]], classes: int, rng: np.random.Generator, step: Step
) -> Agreement:
    """Train on every site alone and let all answer to the same rows."""
    names = list(sites)
    judge = classifier if answers_released(classifier, [p for parts in sites.values() for p in parts]) else STANDS_IN
    each = max(10, JUDGED_ROWS // len(names))
    rows = Queries([part for parts in sites.values() for part in _sample(parts, each, rng)], classes)
    answers = []
    for name in names:
        answers.append(answering(judge, sites[name])(rows))
        step()
    return _agreement(names, np.array([[np.mean(a != b) for b in answers] for a in answers]))


def _agreement(names: Sequence[str], distances: Floats) -> Agreement:
    """The middle site by the radius of its nearest majority; of several the one nearest to all."""
    majority = len(names) // 2 + 1
    radii = np.sort(distances, axis=1)[:, majority - 1]
    middle = int(np.lexsort((distances.mean(axis=1), radii))[0])
    found = {name: float(distance) for name, distance in zip(names, distances[middle], strict=True)}
    return Agreement(found, names[middle], float(radii[middle]))


def _sample(parts: Sequence[Part], rows: int, rng: np.random.Generator) -> list[Part]:
    share = min(1.0, rows / max(1, sum(len(part.y) for part in parts)))
    return [thinned_part(part, share, rng) for part in parts]
