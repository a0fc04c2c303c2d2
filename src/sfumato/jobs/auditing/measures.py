"""The papers' own measures of a release, put together from attacks and channels.

Average privacy [principal-laplace, 6.1.3], privacy loss [density-reconstruction, Eq. 19], the final multi-column
guarantee [random-rotation, 4.2] and the gap of two density estimates, after [kernel-resampling, Eq. 18]. All of them
are measured, none is a guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sfumato.jobs.auditing.density_gap import density_gap
from sfumato.jobs.auditing.evidence import Evidence
from sfumato.jobs.auditing.told_bits import told_by_channels

FILTERED = "principal-filter"
"""The attack after which the paper reports average privacy: reverse the transform, keep the best components."""
CONFIDENCE = 0.95


def measures(evidence: Evidence, attacks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`attacks` as they stand in audit.json; those that assume a leak, as of a secret key, do not count."""
    expected = [attack for attack in attacks if not attack.get("assumes")]
    return {
        "average_privacy": average_privacy(evidence, expected),
        "unified": final_guarantee(expected),
        "channels": told_by_channels(evidence),
        "density_gap": density_gap(evidence),
    }


def average_privacy(evidence: Evidence, attacks: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Width of the interval that holds 95% of an attack's errors over the column's range, by column and on average.

    `width` is that of the attack that leaves the least on average, `filtered` that of the paper's attack. Every column
    has the least that any attack leaves. Numbers only.
    """
    widths = {attack["name"]: _widths(attack) for attack in attacks}
    averages = {name: float(np.mean(list(found.values()))) for name, found in widths.items() if found}
    if not averages:
        return None
    strongest = min(averages, key=lambda name: averages[name])
    of_mean = _widths_of_mean(evidence)
    names = [name for name in of_mean if any(name in found for found in widths.values())]
    return {
        "width": averages[strongest],
        "attack": strongest,
        "filtered": averages.get(FILTERED),
        "width_of_mean": float(np.mean([of_mean[name] for name in names])),
        "columns": [
            {
                "name": name,
                "width": min(found[name] for found in widths.values() if name in found),
                "width_of_mean": of_mean[name],
            }
            for name in names
        ],
    }


def _widths(attack: Mapping[str, Any]) -> dict[str, float]:
    columns = attack["columns"]
    return {one["name"]: one["interval_width"] for one in columns if one.get("interval_width") is not None}


def _widths_of_mean(evidence: Evidence) -> dict[str, float]:
    """The same for somebody who always guesses the mean: the width of the column's own central 95%, over its range."""
    found = {}
    tail = (1.0 - CONFIDENCE) / 2.0
    for group in evidence.encoding.groups:
        if group.is_onehot:
            continue
        slots = evidence.people.X[:, group.slice]
        values = slots[slots[:, 1] < 0.5, 0] if group.has_indicator else slots[:, 0]
        if len(values):
            low, high = np.quantile(values, [tail, 1.0 - tail])
            span = float(np.ptp(values))
            found[group.column.name] = float(high - low) / (span if span > 0 else 1.0)
    return found


def final_guarantee(attacks: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The lowest unified privacy over all attacks, with the attack that leaves so little; None where none was measured.

    `minimum` is on the column guessed best, `average` over columns: variance of difference, weighted by the schema and
    at most that of guessing the mean. `sigma_min` and `sigma_avg` are standard deviations, unweighted and uncapped as
    published [random-rotation, 5.3].
    """
    found: dict[str, Any] = {}
    for figure, detail in (
        ("minimum", "unified_min"),
        ("average", "unified_avg"),
        ("sigma_min", "sigma_min"),
        ("sigma_avg", "sigma_avg"),
    ):
        left = {one["name"]: one["details"][detail] for one in attacks if one["details"].get(detail) is not None}
        if not left:
            return None
        weakest = min(left, key=lambda name: left[name])
        found |= {figure: left[weakest], f"{figure}_attack": weakest}
    return found
