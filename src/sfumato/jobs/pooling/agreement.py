"""Which sites agree: a choice of sites that fewer than half of them cannot spoil, whatever they push.

Every site trains a classifier of its own, and all classify the same rows, as many of each site. The disagreement of
two sites is the share of rows to which their classifiers answer differently: a distance. Of k sites let h = k // 2 + 1
be the smallest majority. The middle site is the one whose h nearest sites, itself among them, lie closest around it,
within r; kept are all sites within 2 r of it (and `TOLERANCE`, since no two samples teach exactly the same). Where
noise is strong or sites are small, honest sites disagree so much that 2 r is more than chance: then whoever disagrees
with the middle site more than answers drawn at random would is left out, be it not among its h nearest. Such answers
are not merely unlike, they are turned round.

*Breakdown point.* Let at most (k - 1) // 2 sites push whatever they like, together and knowing everything, and let
honest sites disagree with each other by at most D. At least h sites are honest, so r <= D. Any h sites include an
honest one, also those around the middle site: so every kept site, hostile or not, disagrees with that honest one by
at most 3 r + TOLERANCE <= 3 D + TOLERANCE. Half of the sites or more can be the majority, and then they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.array_types import Codes, Floats
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
    """`disagreement`: of every site with the middle one, and `chance`, what it would be were both drawn at random with
    the classes' shares; `withstands`: so many hostile sites cannot spoil it."""

    disagreement: dict[str, float]
    chance: dict[str, float]
    middle: str
    radius: float

    @property
    def kept(self) -> list[str]:
        most = 2 * self.radius + TOLERANCE
        limits = {site: max(self.radius, min(most, self.chance[site])) for site in self.disagreement}
        return [site for site, distance in self.disagreement.items() if distance <= limits[site]]

    @property
    def is_vague(self) -> bool:
        """Whether the nearest majority disagrees nearly as much as chance would."""
        others = [chance for site, chance in self.chance.items() if site != self.middle]
        return 2 * self.radius + TOLERANCE > min(others)

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
    return _agreement(names, np.array(answers), classes)


def _agreement(names: Sequence[str], answers: Codes, classes: int) -> Agreement:
    """The middle site by the radius of its nearest majority; of several the one nearest to all; `answers`: by site."""
    distances: Floats = np.array([(answers != one).mean(axis=1) for one in answers])
    shares = np.array([np.bincount(one, minlength=classes) / len(one) for one in answers])
    majority = len(names) // 2 + 1
    radii = np.sort(distances, axis=1)[:, majority - 1]
    middle = int(np.lexsort((distances.mean(axis=1), radii))[0])
    found = dict(zip(names, distances[middle].tolist(), strict=True))
    chance = dict(zip(names, (1.0 - shares @ shares[middle]).tolist(), strict=True))
    return Agreement(found, chance, names[middle], float(radii[middle]))


def _sample(parts: Sequence[Part], rows: int, rng: np.random.Generator) -> list[Part]:
    share = min(1.0, rows / max(1, sum(len(part.y) for part in parts)))
    return [thinned_part(part, share, rng) for part in parts]
