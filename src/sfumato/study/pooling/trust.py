"""How far each site is believed: its share of the pool, whether it agrees with others, what it does to the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.core.array_types import Codes, Floats
from sfumato.core.errors import UsageError
from sfumato.core.wording import counted
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.study.pooling.gather import Pool, Request, rows_of, thinned
from sfumato.study.pooling.trials import Queries, Step, answering, answers_released, joined

# Which sites agree: a choice of sites that fewer than half of them cannot spoil, whatever they push.
#
# Every site trains a classifier of its own, and all classify the same rows, as many of each site. The disagreement of
# two sites is the share of rows to which their classifiers answer differently: a distance. Of k sites let h = k // 2 +
# 1 be the smallest majority. The middle site is the one whose h nearest sites, itself among them, lie closest around
# it, within r; kept are all sites within 2 r of it (and `TOLERANCE`, since no two samples teach exactly the same).
# Where noise is strong or sites are small, honest sites disagree so much that 2 r is more than chance: then whoever
# disagrees with the middle site more than answers drawn at random would is left out, be it not among its h nearest.
# Such answers are not merely unlike, they are turned round.
#
# *Breakdown point.* Let at most (k - 1) // 2 sites push whatever they like, together and knowing everything, and let
# honest sites disagree with each other by at most D. At least h sites are honest, so r <= D. Any h sites include an
# honest one, also those around the middle site: so every kept site, hostile or not, disagrees with that honest one by
# at most 3 r + TOLERANCE <= 3 D + TOLERANCE. Half of the sites or more can be the majority, and then they are.

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
        limits = {site: max(self.radius, min(most, chance)) for site, chance in self.chance.items()}
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
    rows = Queries([part for site in sites for part in thinned({site: sites[site]}, each, rng)[site]], classes)
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


# What one site does to the model: the error without it, and by how much the site changes it.
#
# Influence is the error with the site less the error without it, on the same rows: above zero, the model is better
# without. Where there are no rows to test with but those held out of the pool, a site is judged by the rows of the
# others: its own say what it would like them to.

MOST_LEFT_OUT = 30
"""Sites that are left out in turn: the largest ones, which can do the most."""
SWEPT_ROWS = 200_000
"""Rows that all these trainings may see together."""


def left_out_in_turn(sites: Mapping[str, Sequence[Part]]) -> list[str]:
    """The sites to leave out, the largest first; none where there is only one."""
    if len(sites) < 2:
        return []
    return sorted(sites, key=lambda site: -rows_of(sites[site]))[:MOST_LEFT_OUT]


def influence_of_sites(
    classifier: str,
    sites: Mapping[str, Sequence[Part]],
    queries: Queries,
    held: Mapping[str, Queries],
    own: Mapping[str, Sequence[Part]],
    rng: np.random.Generator,
    step: Step,
) -> list[dict[str, Any]]:
    """Train without each site in turn. How often the others' model is wrong on a site's own rows (`own`, where the
    classifier can answer to them) says how far it is from them.

    A site is judged by the same `queries` as all, or, where rows of every site were `held` out of the training, by
    those of the others.
    """
    names = left_out_in_turn(sites)
    sites = thinned(sites, SWEPT_ROWS // (len(names) + 1), rng)
    together = answering(classifier, [part for parts in sites.values() for part in parts])
    step()
    found = []
    for name in names:
        others = answering(classifier, [part for site, parts in sites.items() if site != name for part in parts])
        step()
        rows = joined(those for site, those in held.items() if site != name) if held.keys() - {name} else queries
        rate, full = (rows.error_rate(rows.wrong_of(answer(rows))).to_dict() for answer in (others, together))
        known = full["error"] is not None and rate["error"] is not None
        influence = full["error"] - rate["error"] if known else None
        entry = {"site": name, **rate, "with": full["error"], "influence": influence}
        if own:
            mine = Queries(own[name], queries.classes)
            entry["on_its_rows"] = mine.error_rate(mine.wrong_of(others(mine))).to_dict()["error"]
        found.append(entry)
    return sorted(found, key=lambda entry: -(entry["influence"] or 0.0))


TOO_FEW = (
    f"Sites that agree can be identified only among {FEWEST_SITES} or more: with two, nobody knows which one to "
    "believe. Train on all sites, or invite more."
)
VAGUE = (
    " But the sites' own classifiers agree hardly more than by chance: rows of one site alone tell too little, so only "
    "sites that answer the opposite are left out. Ask for more rows a site, or less noise."
)
OWN_ROWS = "Rows held out of the other sites: each site is judged by rows that are not its own."
SAME_ROWS = "The same rows for every site."


@dataclass
class Trust:
    """What is found about the sites of one pool, before and after those that do not agree are left out."""

    largest_share: float | None
    agreeing: bool
    pushed: dict[str, int]
    agreement: Agreement | None = None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, request: Request, pool: Pool, rng: np.random.Generator, step: Step) -> Trust:
        """Judge the sites, and leave out those that do not agree where that was asked for."""
        pushed: dict[str, int] = {}
        for release, card in zip(request.releases, pool.cards, strict=True):
            pushed[release.site] = pushed.get(release.site, 0) + card.rows
        found = cls(request.largest_share, request.agreeing, pushed)
        if len(pool.sites) >= FEWEST_SITES:
            sample = thinned(pool.sites, request.limits.measured_rows, rng)
            found.agreement = agreement_of(request.classifier, sample, pool.classes, rng, step)
        elif request.agreeing:
            raise UsageError(TOO_FEW)
        if request.agreeing and found.agreement is not None:
            pool.sites = {site: parts for site, parts in pool.sites.items() if site in found.agreement.kept}
            pool.cap(request.largest_share, rng)
            there, withstood = len(found.agreement.disagreement), found.agreement.withstands
            found.notes.append(
                f"Trained on the {len(pool.sites)} of {there} sites that agree with most others. Up to {withstood} of "
                f"{there} sites could push whatever they like without deciding which sites are believed."
                + (VAGUE if found.agreement.is_vague else "")
            )
        cut = [site for site, parts in pool.sites.items() if rows_of(parts) < pushed[site]]
        if request.largest_share is not None and cut:
            left = sum(pushed[site] - rows_of(pool.sites[site]) for site in cut)
            found.notes.append(
                f"A site may be at most {request.largest_share:.0%} of the training rows: {left:,} rows of "
                f"{counted(len(cut), 'site')} were left out."
            )
        return found

    def told(self, pool: Pool, without: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Any]:
        """For the study's owner: everything by site, those first that the model would be better without."""
        known = {entry["site"]: entry for entry in without}
        names = [*known, *[site for site in self.pushed if site not in known]]
        agreement = self.agreement
        return {
            "tested_on": kind,
            "words": SAME_ROWS if kind in pool.tests else OWN_ROWS,
            "largest_share": self.largest_share,
            "trained_on": "agreeing" if self.agreeing else "all",
            "withstands": None if agreement is None else agreement.withstands,
            "sites": [
                {
                    "site": name,
                    "rows": self.pushed[name],
                    "trained_rows": rows_of(pool.sites.get(name, ())),
                    "disagreement": None if agreement is None else agreement.disagreement.get(name),
                    "agrees": None if agreement is None else name in agreement.kept,
                    "without": known.get(name),
                }
                for name in names
            ],
        }

    def on_card(self, told: Mapping[str, Any]) -> dict[str, Any]:
        """For whoever gets the model: the same figures, in falling order of influence, without the sites' names."""
        sites = [entry["without"] for entry in told["sites"] if entry["without"]]
        return {
            "largest_share": self.largest_share,
            "trained_on": told["trained_on"],
            "sites_there": len(self.pushed),
            "sites_used": sum(entry["trained_rows"] > 0 for entry in told["sites"]),
            "tested_on": told["tested_on"],
            "leave_one_site_out": [
                {name: entry[name] for name in ("error", "interval", "with", "influence")} for entry in sites
            ],
        }
