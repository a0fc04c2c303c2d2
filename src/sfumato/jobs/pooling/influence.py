"""What one site does to the model: the error without it, and by how much the site changes it.

Influence is the error with the site less the error without it, on the same rows: above zero, the model is better
without. Where there are no rows to test with but those held out of the pool, a site is judged by the rows of the
others: its own say what it would like them to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.classifiers.training import Part
from sfumato.jobs.pooling.pushed import thinned_part
from sfumato.jobs.pooling.trials import Queries, Step, answering

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
    tested_on: Callable[[str], Queries],
    own: Callable[[str], Queries] | None,
    rng: np.random.Generator,
    step: Step,
) -> list[dict[str, Any]]:
    """Train without each site in turn. `tested_on` gives the rows that a site is judged by; `own` its own ones, where
    the classifier can answer to them: how often the others' model is wrong there says how far it is from them."""
    names = left_out_in_turn(sites)
    sites = _thinned(sites, SWEPT_ROWS // (len(names) + 1), rng)
    together = answering(classifier, [part for parts in sites.values() for part in parts])
    step()
    found = []
    for name in names:
        others = answering(classifier, [part for site, parts in sites.items() if site != name for part in parts])
        step()
        queries = tested_on(name)
        rate, full = (queries.error_rate(queries.wrong_of(answer(queries))).to_dict() for answer in (others, together))
        entry = {"site": name, **rate, "with": full["error"], "influence": _difference(full["error"], rate["error"])}
        if own is not None:
            mine = own(name)
            entry["on_its_rows"] = mine.error_rate(mine.wrong_of(others(mine))).to_dict()["error"]
        found.append(entry)
    return sorted(found, key=lambda entry: -(entry["influence"] or 0.0))


def rows_of(parts: Sequence[Part]) -> int:
    return sum(len(part.y) for part in parts)


def _difference(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other


def _thinned(sites: Mapping[str, Sequence[Part]], rows: int, rng: np.random.Generator) -> dict[str, list[Part]]:
    share = min(1.0, rows / max(1, sum(map(rows_of, sites.values()))))
    return {site: [thinned_part(part, share, rng) for part in parts] for site, parts in sites.items()}
