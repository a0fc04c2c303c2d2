"""Original against release: each column's distribution, and how columns hang together."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.attacks.metrics import associations, kolmogorov_smirnov, total_variation, wasserstein
from sfumato.attacks.posterior_breach import spread_out
from sfumato.auditing.case import Case
from sfumato.core.array_types import Codes, Matrix
from sfumato.release.engines.workers import in_order
from sfumato.table import Group

BINS = 30
MOST_ROWS = 5_000
"""Rows that associations are computed from, evenly over their order: one number per pair needs no more."""
SECRET_MAP = "the release mixes columns by a secret key, so nobody without it can compare columns"


def distributions(case: Case) -> list[dict[str, Any]]:
    """Per private column histogram and distance; for others the original's histogram is left out.

    A release that mixes columns is mapped back first, as anybody with its card could.
    """
    restored = case.restored()
    if restored is None:
        return [
            {"name": column.name, "kind": column.kind, "not_applicable": SECRET_MAP}
            for column in case.encoding.schema.private
        ]
    return list(in_order(case.encoding.groups, lambda group: _distribution(case, group, restored)))


def _distribution(case: Case, group: Group, restored: Matrix) -> dict[str, Any]:
    before, after = case.people.X[:, group.slice], restored[:, group.slice]
    found: dict[str, Any] = {"name": group.column.name, "kind": group.column.kind}
    told = ~np.isnan(after[:, 0])
    if not told.all():
        found["reported"] = float(told.mean())
    learned = case.card is None or group.column.source == "learned"  # then the bounds are somebody's values
    if group.is_onehot:
        return found | _of_categories(case, group, before, after[told], learned)
    return found | _of_numbers(case, group, before, after, learned)


def _of_categories(case: Case, group: Group, before: Matrix, after: Matrix, learned: bool) -> dict[str, Any]:
    counts, released = _counts(before), _counts(after)
    moved = total_variation(counts / len(before), released / len(after)) if len(after) else None
    keep = np.ones(len(counts), dtype=bool)
    if case.options.public and learned:  # categories that only the original has are nobody's business
        keep = released > 0
    return {
        "categories": [slot for slot, shown in zip(group.slots, keep, strict=True) if shown],
        "original": None if case.options.public else counts[keep].tolist(),
        "release": released[keep].tolist(),
        "total_variation": moved,
        "distance": moved,
    }


def _of_numbers(case: Case, group: Group, before: Matrix, after: Matrix, learned: bool) -> dict[str, Any]:
    public, (low, high) = case.options.public, group.column.bounds
    there, shown = _present(group, before), _present(group, after)
    edges = _edges(shown, public and learned)
    found: dict[str, Any] = {
        "edges": (low + edges * (high - low)).tolist(),
        "original": None if public else _histogram(there, edges),
        "release": _histogram(shown, edges),
    }
    if group.has_indicator:
        found["missing"] = {
            "original": None if public else float(1 - len(there) / len(before)),
            "release": float(1 - len(shown) / len(after)),
        }
    if not len(there) or not len(shown):
        return {**found, "ks": None, "wasserstein": None, "distance": None}
    ks = kolmogorov_smirnov(there, shown)
    return {**found, "ks": ks, "wasserstein": wasserstein(there, shown), "distance": ks}


def correlations(case: Case) -> dict[str, Any]:
    """Associations between source columns (Pearson, Cramer's V, correlation ratio), and their mean difference."""
    names = [column.name for column in case.encoding.schema.private]
    restored = case.restored()
    if restored is None:
        return {"names": names, "original": None, "release": None, "distance": None, "not_applicable": SECRET_MAP}
    before = associations(spread_out(case.people.X, MOST_ROWS), case.encoding)
    after = associations(spread_out(restored, MOST_ROWS), case.encoding)
    pairs = np.triu_indices(len(names), k=1)
    distance = float(np.abs(before - after)[pairs].mean()) if len(pairs[0]) else 0.0
    return {
        "names": names,
        "original": None if case.options.public else np.round(before, 4).tolist(),
        "release": np.round(after, 4).tolist(),
        "distance": distance,
    }


def _edges(after: Matrix, release_only: bool) -> Matrix:
    """Equal bins over the column's bounds and nearly all of the release; values beyond fall into the outer bins."""
    low, high = (np.inf, -np.inf) if release_only else (0.0, 1.0)
    if len(after):
        tails = np.quantile(after, [0.01, 0.99])
        low, high = min(low, float(tails[0])), max(high, float(tails[1]))
    if not low < high:
        middle = low if np.isfinite(low) else 0.5
        low, high = middle - 0.5, middle + 0.5
    return np.linspace(low, high, BINS + 1)


def _histogram(values: Matrix, edges: Matrix) -> list[int]:
    inside = np.clip(values, edges[0], edges[-1])
    return [int(count) for count in np.histogram(inside, bins=edges)[0]]


def _present(group: Group, slots: Matrix) -> Matrix:
    """Values that are neither missing nor left out."""
    there = ~np.isnan(slots[:, 0])
    return np.asarray(slots[there & (slots[:, 1] < 0.5) if group.has_indicator else there, 0])


def _counts(slots: Matrix) -> Codes:
    return np.bincount(slots.argmax(axis=1), minlength=slots.shape[1])
