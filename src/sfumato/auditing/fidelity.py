"""How like the population the release is, beside how like it the original is: both against people who are in neither.

A holdout table is the yardstick: even the original differs from it, by chance alone. Without one the release is
compared with the original itself, and nothing says how much chance does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import StratifiedKFold

from sfumato.attacks.metrics.privacy import auc, auc_interval
from sfumato.attacks.metrics.utility import associations, kolmogorov_smirnov, total_variation, wasserstein
from sfumato.attacks.posterior_breach import spread_out
from sfumato.auditing.case import Case, People, present, sampled
from sfumato.channels import NotApplicableError
from sfumato.core.array_types import Codes, Matrix
from sfumato.core.errors import SfumatoError
from sfumato.learn.asked import AUTO
from sfumato.learn.cluster import candidates, choose, compare_with_plain, expected_agreement, fit_mixture
from sfumato.learn.mining.seen import Part, see
from sfumato.release.source import in_order
from sfumato.table import Encoding, Group

FOLDS = 3
LEAST_ROWS = 30
MOST_TARGETS = 4
"""Columns that are predicted from the others, where there is no label; evenly over their order."""
SETTINGS: dict[str, Any] = {"max_iter": 60, "max_leaf_nodes": 15, "early_stopping": False}


def discriminator(rows: Matrix, strangers: Matrix, seed: int) -> dict[str, Any] | None:
    """AUC of telling rows from real people's, on rows that the learner has not seen; 0.5: it cannot."""
    size = min(len(rows), len(strangers))
    if size < LEAST_ROWS:
        return None
    X = np.vstack([rows[:size], strangers[:size]])
    y = np.repeat([1, 0], size)
    chance = np.empty(len(y))
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, y):
        model = HistGradientBoostingClassifier(random_state=seed, **SETTINGS).fit(X[train], y[train])
        chance[test] = model.predict_proba(X[test])[:, 1]
    return {
        "auc": auc(chance[:size], chance[size:]),
        "interval": list(auc_interval(chance[:size], chance[size:])),
        "rows": size,
    }


def told_targets(
    compared: dict[str, Matrix], holdout: People, labels: list[Codes | None], encoding: Encoding, seed: int
) -> list[dict[str, Any]]:
    """How well the label, or some columns, are predicted for the holdout after learning from either table.

    `labels`: of the rows of the release and of the original.
    """
    tables = compared["release"], compared["original"], holdout.X
    label, classes = encoding.schema.label, (*labels, holdout.y)
    tasks: list[tuple[str, bool, list[tuple[Matrix, Any]]]] = []
    if label is not None and all(one is not None for one in classes):
        tasks.append((label.name, True, list(zip(tables, classes, strict=True))))
    else:  # a column from the others
        for group in spread(encoding.groups, MOST_TARGETS) if len(encoding.groups) > 1 else ():
            others = np.delete(np.arange(encoding.width), group.slice)
            wanted = [X[:, group.slice].argmax(axis=1) if group.is_onehot else X[:, group.start] for X in tables]
            parts = [(X[:, others], y) for X, y in zip(tables, wanted, strict=True)]
            tasks.append((group.column.name, group.is_onehot, parts))
    return [
        {
            "name": name,
            "measure": "accuracy" if is_class else "R2",
            "release": _score(release, test, is_class, seed),
            "original": _score(original, test, is_class, seed),
            "usual": float(np.bincount(test[1]).max() / len(test[1])) if is_class else 0.0,
        }
        for name, is_class, (release, original, test) in tasks
        if min(len(part[0]) for part in (release, original, test)) >= LEAST_ROWS and np.ptp(test[1]) > 0
    ]


def _score(train: tuple[Matrix, Any], test: tuple[Matrix, Any], classes: bool, seed: int) -> float:
    """Share of right answers, or share of the variance explained (below 0: worse than the mean)."""
    if np.ptp(train[1]) == 0:
        return float(np.mean(test[1] == train[1][0])) if classes else 0.0
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    return float(kind(random_state=seed, **SETTINGS).fit(*train).score(*test))


CLUSTERED_ROWS = 3_000


def clusters_lost(case: Case) -> dict[str, Any] | None:
    """Agreement (adjusted Rand index) of clusters found in the release with those of the original; None, with a note,
    where it cannot be told."""
    clusters, card, seed = case.options.clusters, case.card, case.options.seed
    if not clusters:
        return None
    truth = case.rows_behind
    try:
        if card is None or truth is None:
            raise NotApplicableError("they need a release with its card, and which released row is whose.")
        recipe = card.made_by()
        if recipe.by_class or card.post_processing is not None:
            why = "the noise of the release differs by class, or is no longer the one that was drawn."
            raise NotApplicableError(why)
        rows = sampled(len(truth), CLUSTERED_ROWS, np.random.default_rng(seed))
        Z, X = case.Z[rows], truth[rows]
        known = case.affine if case.key_used else None  # a map with a key cannot be asked
        plain = recipe.map.apply(X) if known is None else np.asarray(X @ known[0].T + known[1])
        released = Part(Z, recipe, recipe.channels)
        seen = see([released])
        chosen = choose(candidates(seen, [clusters], AUTO, seed), clusters)
        fitted = fit_mixture(seen, clusters, chosen.model, seed=seed)
        belongs = fitted.responsibilities(seen)
        lost = compare_with_plain(released, plain, fitted, seen, belongs.argmax(axis=1), seed)
    except (SfumatoError, NotApplicableError) as error:
        case.notes.append(f"No clusters: {error}")
        return None
    beside = lost.get("released_rows_by_k_means")
    case.notes.append(
        f"Looking for {clusters} clusters: groups of released rows agree with those of the original to "
        f"{lost['released_rows']:.2f}"
        + ("" if beside is None else f" ({beside:.2f} by k-means that ignores the noise)")
        + f", groups of plain rows by the clusters of the release to {lost['plain_rows']:.2f} (adjusted Rand index)."
        + ("" if chosen.is_shown else " The release itself does not show that there are so many.")
    )
    told = {"clusters": clusters, "model": chosen.model, "rows": len(Z), "is_shown": chosen.is_shown}
    return {**told, "expected_agreement": expected_agreement(belongs), **lost}


MOST_ROWS = 5_000
BINS = 10
MOST_COLUMNS = 40
"""Columns whose pairs are compared; a wider table has the first of them, evenly spread."""
SECRET = "the release mixes columns by a secret key, so no one without it can compare columns"
NOT_REPORTED = "rows leave cells out on purpose"


def fidelity(case: Case) -> dict[str, Any]:
    """Marginals, pairs and, where classifiers are trained, a learner's view, of the release and of the original."""
    restored = case.restored()
    if restored is None:
        return {"not_applicable": SECRET}
    if np.isnan(restored).any():
        return {"not_applicable": NOT_REPORTED}
    seed, encoding, holdout = case.options.seed, case.encoding, case.holdout
    rng = np.random.default_rng((seed, 3))
    rows = sampled(len(restored), MOST_ROWS, rng)
    people = sampled(len(case.people.X), MOST_ROWS, rng)
    compared = {"release": restored[rows], "original": case.people.X[people]}
    if holdout is None or len(holdout.X) < 2:
        holdout, yardstick = None, compared.pop("original")
    else:
        yardstick = holdout.X[sampled(len(holdout.X), MOST_ROWS, rng)]
    against = "original" if holdout is None else "holdout"
    found = {"against": against, "rows": len(rows), **_distances(yardstick, compared, encoding)}
    if case.options.splits:
        found["discriminator"] = {name: discriminator(X, yardstick, seed) for name, X in compared.items()}
    if case.options.splits and holdout is not None:
        labels = [None if y is None else y[some] for y, some in ((case.y, rows), (case.people.y, people))]
        found["targets"] = told_targets(compared, holdout, labels, encoding, seed)
    return found


def _distances(yardstick: Matrix, compared: dict[str, Matrix], encoding: Encoding) -> dict[str, Any]:
    """How far columns, pairs and correlations of each table are from the yardstick's."""
    columns = {name: marginals(yardstick, X, encoding) for name, X in compared.items()}
    usual = associations(yardstick, encoding)
    return {
        "columns": [
            {
                "name": group.column.name,
                "measure": "total variation" if group.is_onehot else "KS",
                **{name: columns[name][number] for name in compared},
            }
            for number, group in enumerate(encoding.groups)
        ],
        "marginals": {name: float(np.mean(columns[name])) for name in compared},
        "pairs": {name: pair_distance(yardstick, X, encoding) for name, X in compared.items()},
        "correlations": {name: correlation_distance(usual, associations(X, encoding)) for name, X in compared.items()},
    }


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


def correlation_distance(first: Matrix, second: Matrix) -> float | None:
    """Mean absolute difference of two matrices of associations over pairs of columns; None for a single column."""
    pairs = np.triu_indices(len(first), k=1)
    return float(np.abs(first - second)[pairs].mean()) if len(pairs[0]) else None


def spread(groups: Sequence[Group], most: int = MOST_COLUMNS) -> list[Group]:
    """At most so many of them, evenly over their order."""
    return [groups[i] for i in np.linspace(0, len(groups) - 1, min(most, len(groups))).astype(int)]


BARS = 30
"""Of a histogram."""
MOST_PAIRED = 5_000
"""Rows that associations are computed from, evenly over their order: one number per pair needs no more."""


def distributions(case: Case) -> list[dict[str, Any]]:
    """Per private column histogram and distance; for others the original's histogram is left out.

    A release that mixes columns is mapped back first, as anybody with its card could.
    """
    restored = case.restored()
    if restored is None:
        columns = case.encoding.schema.private
        return [{"name": column.name, "kind": column.kind, "not_applicable": SECRET} for column in columns]
    return list(in_order(case.encoding.groups, lambda group: _distribution(case, group, restored)))


def _distribution(case: Case, group: Group, restored: Matrix) -> dict[str, Any]:
    public, before, after = case.options.public, case.people.X[:, group.slice], restored[:, group.slice]
    found: dict[str, Any] = {"name": group.column.name, "kind": group.column.kind}
    told = ~np.isnan(after[:, 0])
    if not told.all():
        found["reported"] = float(told.mean())
    learned = case.card is None or group.column.source == "learned"  # then the bounds are people's values
    if not group.is_onehot:
        return found | _of_numbers(case, group, restored, public and learned)
    counts, released = (np.bincount(X.argmax(axis=1), minlength=group.width) for X in (before, after[told]))
    moved = total_variation(counts / len(before), released / told.sum()) if told.any() else None
    keep = (released > 0) | (not (public and learned))  # others that only the original has stay private
    return {
        **found,
        "categories": [slot for slot, shown in zip(group.slots, keep, strict=True) if shown],
        "original": None if public else counts[keep].tolist(),
        "release": released[keep].tolist(),
        "total_variation": moved,
        "distance": moved,
    }


def _of_numbers(case: Case, group: Group, restored: Matrix, release_only: bool) -> dict[str, Any]:
    """`release_only`: the bins may tell nothing of the original's range."""
    public, people = case.options.public, case.people.X
    there, shown = (X[present(group, X), group.start] for X in (people, restored))
    # Equal bins over the column's bounds and nearly all of the release; values beyond fall into the outer bins.
    first, last = (np.inf, -np.inf) if release_only else (0.0, 1.0)
    if len(shown):
        tails = np.quantile(shown, [0.01, 0.99])
        first, last = min(first, float(tails[0])), max(last, float(tails[1]))
    if not first < last:
        middle = first if np.isfinite(first) else 0.5
        first, last = middle - 0.5, middle + 0.5
    edges, (low, high) = np.linspace(first, last, BARS + 1), group.column.bounds
    counts = [np.histogram(np.clip(values, first, last), bins=edges)[0].tolist() for values in (there, shown)]
    found: dict[str, Any] = {
        "edges": (low + edges * (high - low)).tolist(),
        "original": None if public else counts[0],
        "release": counts[1],
    }
    if group.has_indicator:
        found["missing"] = {
            "original": None if public else float(1 - len(there) / len(people)),
            "release": float(1 - len(shown) / len(restored)),
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
        return {"names": names, "original": None, "release": None, "distance": None, "not_applicable": SECRET}
    before = associations(spread_out(case.people.X, MOST_PAIRED), case.encoding)
    after = associations(spread_out(restored, MOST_PAIRED), case.encoding)
    return {
        "names": names,
        "original": None if case.options.public else np.round(before, 4).tolist(),
        "release": np.round(after, 4).tolist(),
        "distance": correlation_distance(before, after) or 0.0,
    }
