"""What another site adds: error against the number of sites that take part, and of each site alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.classifiers.training import Part
from sfumato.jobs.pooling.trials import Queries, Step, wrong_answers

MOST_ALONE, MOST_COUNTS = 60, 12
FEWEST_ORDERS, MOST_ORDERS = 2, 6
SWEPT_ROWS = 400_000
"""Rows that all trainings of the curve may see together, as long as `FEWEST_ORDERS` are left."""


@dataclass(frozen=True)
class Plan:
    """Which sites are measured alone, which numbers of sites (above one), and how many choices of sites for each."""

    alone: list[str]
    counts: list[int]
    orders: int

    def trainings(self, sites: int) -> int:
        return len(self.alone) + sum(self._times(sites, count) for count in self.counts)

    def choices(self, sites: int, count: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
        """Different choices of `count` among the sites, at random."""
        found: dict[tuple[int, ...], None] = {}
        while len(found) < self._times(sites, count):
            found[tuple(np.sort(rng.choice(sites, count, replace=False)).tolist())] = None
        return list(found)

    def _times(self, sites: int, count: int) -> int:
        return min(self.orders, math.comb(sites, count))


def plan_of(sites: Mapping[str, Sequence[Part]], rng: np.random.Generator) -> Plan:
    """All sites and numbers of them where there are few; a random choice and a ladder where there are many."""
    names = list(sites)
    alone = names if len(names) <= MOST_ALONE else [names[i] for i in np.sort(rng.permutation(len(names))[:MOST_ALONE])]
    steps = np.geomspace(2, len(names), min(MOST_COUNTS, len(names) - 1)) if len(names) > 1 else np.empty(0)
    few = range(2, len(names) + 1)
    counts = list(few) if len(few) <= MOST_COUNTS else sorted({round(float(value)) for value in steps})
    rows = sum(len(part.y) for parts in sites.values() for part in parts)
    sweep = rows * sum(counts) / len(names)
    orders = int(np.clip(SWEPT_ROWS // max(sweep, 1), FEWEST_ORDERS, MOST_ORDERS))
    return Plan(alone, counts, orders)


def by_number_of_sites(
    classifier: str,
    sites: Mapping[str, Sequence[Part]],
    queries: Queries,
    plan: Plan,
    rng: np.random.Generator,
    step: Step,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Error against the number of sites that take part, over a few random orders of them; and of each site alone.

    The queries are the same every time, so that orders differ by the sites only; the interval is that of one
    measurement with the mean error, and so does not shrink with the number of orders.
    """
    names = list(sites)
    alone = {}
    for name in plan.alone:
        alone[name] = wrong_answers(classifier, sites[name], queries)
        step()
    points = [_point(1, list(alone.values()), queries)]
    for count in plan.counts:
        found = []
        for taken in plan.choices(len(names), count, rng):
            parts = [part for place in taken for part in sites[names[place]]]
            found.append(wrong_answers(classifier, parts, queries))
            step()
        points.append(_point(count, found, queries))
    lonely = [
        {"site": name, "trained_rows": sum(len(part.y) for part in sites[name]), **queries.error_rate(wrong).to_dict()}
        for name, wrong in alone.items()
    ]
    return points, lonely


def _point(count: int, wrong: list[int], queries: Queries) -> dict[str, Any]:
    ends = [queries.error_rate(end).to_dict()["error"] for end in (min(wrong), max(wrong))]
    return {
        "sites": count,
        **queries.error_rate(float(np.mean(wrong))).to_dict(),
        "lowest": ends[0],
        "highest": ends[1],
        "choices": len(wrong),
    }
