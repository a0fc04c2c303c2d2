"""How like the population the release is, beside how like it the original is: both against people who are in neither.

A holdout table is the yardstick: even the original differs from it, by chance alone. Without one the release is
compared with the original itself, and nothing says how much chance does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.array_types import Codes, Matrix
from sfumato.jobs.auditing.evidence import Evidence, sampled
from sfumato.jobs.auditing.learners_view import discriminator, told_targets
from sfumato.metrics import associations, kolmogorov_smirnov, total_variation
from sfumato.table import Encoding, Group

MOST_ROWS = 5_000
BINS = 10
MOST_COLUMNS = 40
"""Columns whose pairs are compared; a wider table has the first of them, evenly spread."""
SECRET = "the release mixes columns by a secret key, so nobody without it can compare columns"
NOT_REPORTED = "rows leave cells out on purpose"


def fidelity(evidence: Evidence, seed: int, *, learn: bool) -> dict[str, Any]:
    """Marginals, pairs and (`learn`) a learner's view, of the release and of the original."""
    restored = evidence.restored()
    if restored is None:
        return {"not_applicable": SECRET}
    if np.isnan(restored).any():
        return {"not_applicable": NOT_REPORTED}
    rng = np.random.default_rng((seed, 3))
    rows = sampled(len(restored), MOST_ROWS, rng)
    people = sampled(len(evidence.people.X), MOST_ROWS, rng)
    release, original = restored[rows], evidence.people.X[people]
    holdout = evidence.holdout
    found: dict[str, Any] = {"against": "original" if holdout is None else "holdout", "rows": len(release)}
    if holdout is None or len(holdout.X) < 2:
        found["against"], yardstick, compared = "original", original, {"release": release}
    else:
        yardstick = holdout.X[sampled(len(holdout.X), MOST_ROWS, rng)]
        compared = {"release": release, "original": original}
    columns = {name: marginals(yardstick, X, evidence.encoding) for name, X in compared.items()}
    found["columns"] = [
        {
            "name": group.column.name,
            "measure": "total variation" if group.is_onehot else "KS",
            **{name: columns[name][number] for name in compared},
        }
        for number, group in enumerate(evidence.encoding.groups)
    ]
    found["marginals"] = {name: float(np.mean(columns[name])) for name in compared}
    found["pairs"] = {name: pair_distance(yardstick, X, evidence.encoding) for name, X in compared.items()}
    found["correlations"] = {
        name: correlation_distance(yardstick, X, evidence.encoding) for name, X in compared.items()
    }
    if not learn:
        return found
    found["discriminator"] = {name: discriminator(X, yardstick, seed) for name, X in compared.items()}
    if found["against"] == "holdout":
        assert holdout is not None
        labels = (
            None if evidence.y is None else evidence.y[rows],
            None if evidence.people.y is None else evidence.people.y[people],
        )
        found["targets"] = told_targets(release, original, holdout, labels, evidence.encoding, seed)
    return found


def marginals(first: Matrix, second: Matrix, encoding: Encoding) -> list[float]:
    """Per column: largest difference of the distribution functions, or total variation of the categories' shares."""
    found = []
    for group in encoding.groups:
        a, b = first[:, group.slice], second[:, group.slice]
        if group.is_onehot:
            shares = [np.bincount(X.argmax(axis=1), minlength=group.width) / len(X) for X in (a, b)]
            found.append(total_variation(*shares))
            continue
        if group.has_indicator:  # a missing number lies below all others
            a, b = (np.where(X[:, 1:2] >= 0.5, -1.0, X[:, :1]) for X in (a, b))
        found.append(kolmogorov_smirnov(a[:, 0], b[:, 0]))
    return found


def pair_distance(first: Matrix, second: Matrix, encoding: Encoding) -> float | None:
    """Mean total variation over pairs of columns of their joint shares, numbers cut at the deciles of the first."""
    groups = spread(encoding.groups)
    if len(groups) < 2:
        return None
    coded = [binned(first[:, group.slice], second[:, group.slice], group) for group in groups]
    found = []
    for i, (a, b, width) in enumerate(coded):
        for c, d, other in coded[:i]:
            shares = [np.bincount(x * other + y, minlength=width * other) / len(x) for x, y in ((a, c), (b, d))]
            found.append(total_variation(*shares))
    return float(np.mean(found))


def binned(first: Matrix, second: Matrix, group: Group) -> tuple[Codes, Codes, int]:
    """Codes of both samples, and how many there are."""
    if group.is_onehot:
        return first.argmax(axis=1), second.argmax(axis=1), group.width
    edges = np.unique(np.quantile(first[:, 0], np.arange(1, BINS) / BINS))
    codes = [np.searchsorted(edges, X[:, 0], "right") for X in (first, second)]
    if group.has_indicator:
        codes = [np.where(X[:, 1] >= 0.5, len(edges) + 1, code) for X, code in zip((first, second), codes, strict=True)]
    return codes[0], codes[1], len(edges) + 2


def correlation_distance(first: Matrix, second: Matrix, encoding: Encoding) -> float | None:
    """Mean absolute difference of the associations of pairs of columns (Pearson, Cramer's V, correlation ratio)."""
    pairs = np.triu_indices(len(encoding.groups), k=1)
    if not len(pairs[0]):
        return None
    return float(np.abs(associations(first, encoding) - associations(second, encoding))[pairs].mean())


def spread(groups: Any) -> list[Group]:
    """At most `MOST_COLUMNS` of them, evenly over their order."""
    if len(groups) <= MOST_COLUMNS:
        return list(groups)
    return [groups[i] for i in np.linspace(0, len(groups) - 1, MOST_COLUMNS).astype(int)]
