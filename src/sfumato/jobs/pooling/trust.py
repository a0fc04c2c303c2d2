"""How far each site is believed: its share of the pool, whether it agrees with others, what it does to the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sfumato.classifiers.training import Part
from sfumato.errors import UsageError
from sfumato.jobs.pooling.agreement import FEWEST_SITES, Agreement, agreement_of
from sfumato.jobs.pooling.gather import Pool
from sfumato.jobs.pooling.influence import influence_of_sites, rows_of
from sfumato.jobs.pooling.request import Request
from sfumato.jobs.pooling.trials import Queries, Step, joined

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
            sample = pool.thinned(request.limits.measured_rows, rng)
            found.agreement = agreement_of(request.classifier, sample, pool.classes, rng, step)
        elif request.agreeing:
            raise UsageError(TOO_FEW)
        if request.agreeing and found.agreement is not None:
            pool.keep(found.agreement.kept)
            pool.cap(request.largest_share, rng)
            found.notes.append(_choice(found.agreement, len(pool.sites)))
        if request.largest_share is not None:
            found.notes += _cut(request.largest_share, pool, pushed)
        return found

    def influence(
        self,
        classifier: str,
        sites: Mapping[str, Sequence[Part]],
        queries: Queries,
        held: Mapping[str, Queries] | None,
        own: Mapping[str, Sequence[Part]] | None,
        rng: np.random.Generator,
        step: Step,
    ) -> list[dict[str, Any]]:
        """Leave each site out in turn; `held` are rows of every site that none learns from, where they are the test."""

        def tested_on(site: str) -> Queries:
            others = [rows for name, rows in (held or {}).items() if name != site]
            return joined(others) if others else queries

        def own_rows(site: str) -> Queries:
            assert own is not None
            return Queries(own[site], queries.classes)

        return influence_of_sites(classifier, sites, tested_on, None if own is None else own_rows, rng, step)

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


def _choice(agreement: Agreement, kept: int) -> str:
    there = len(agreement.disagreement)
    return (
        f"Trained on the {kept} of {there} sites that agree with most others. Up to {agreement.withstands} of "
        f"{there} sites could push whatever they like without deciding which sites are believed."
        + (VAGUE if agreement.is_vague else "")
    )


def _cut(share: float, pool: Pool, pushed: Mapping[str, int]) -> list[str]:
    cut = [site for site, parts in pool.sites.items() if rows_of(parts) < pushed[site]]
    if not cut:
        return []
    whose = "1 site" if len(cut) == 1 else f"{len(cut)} sites"
    left = sum(pushed[site] - rows_of(pool.sites[site]) for site in cut)
    return [f"A site may be at most {share:.0%} of the training rows: {left:,} rows of {whose} were left out."]
