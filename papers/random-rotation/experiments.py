"""The paper's experiments on one data set, each with the product's own mechanisms, searches, attacks and metrics."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from papers.data import DataSet
from sklearn.model_selection import cross_val_predict

from sfumato.attacks.base import Abstain, ColumnMoments, Knowledge, RowPairs
from sfumato.attacks.independent_components import IndependentComponents
from sfumato.attacks.known_rows import KnownRows
from sfumato.attacks.metrics.privacy import column_privacy, component_privacy, nearest_row_privacy, unified_privacy
from sfumato.attacks.metrics.scored import Truth, recovery_curve
from sfumato.auditing.figures.random_rotation import classifiers, folds, ica_search, iteration, lop_search, rotated
from sfumato.mechanisms import Condensation
from sfumato.mechanisms.random_rotation import haar_rotation
from sfumato.release.rotation_search import sample_of, search_rotation, vod_matrix
from sfumato.table import Encoding
from sfumato.table.statistics import Moments

Matrix = NDArray[np.float64]
Found = dict[str, Any]

REPEATS = 5
"""Condensations drawn for one group size."""
SEARCHES = 20
"""Searches over which the best locally optimised figures are averaged."""
JITTER = 1e-4
"""Added to every cell at random, it breaks ties: equal distances, and rows that lie exactly on a perceptron's plane."""


def accuracy(data: DataSet, rotations: int) -> Found:
    """Cross-validated accuracy on the original and on rotated data, same folds; predictions that changed."""
    X, y = data.unit(), data.y
    untied = np.clip(X + np.random.default_rng(29).uniform(0, JITTER, X.shape), 0, 1 + JITTER) / (1 + JITTER)
    found: Found = {"shares": (np.bincount(y) / len(y)).tolist()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes of fewer rows than folds
        for name, (classifier, centre) in classifiers(X.shape[1], len(np.unique(y))).items():
            before = cross_val_predict(classifier, X, y, cv=folds())
            after = [cross_val_predict(classifier, rotated(X, s, centre), y, cv=folds()) for s in range(rotations)]
            again = cross_val_predict(classifier, rotated(untied, 0, centre), y, cv=folds())
            differences = [float((z == y).mean() - (before == y).mean()) for z in after]
            found[name] = {
                "orig": float((before == y).mean()),
                "difference": float(np.mean(differences)),
                "sd": float(np.std(differences)),
                "changed": float(np.mean([(z != before).mean() for z in after])),
                "changed, no ties": float((again != cross_val_predict(classifier, untied, y, cv=folds())).mean()),
            }
    return found


def iterations(data: DataSet, count: int) -> Found:
    """Algorithm 1's loop, every iteration attacked by ICA: what Figs 3 and 4 plot; then the product's own search.

    `lop` is as published, `naive` with the sign known and capped at guessing the mean; `raw` before rows are
    swapped. ICA is scored as published and as measured, on the same components.
    """
    X = data.unit()
    sample = sample_of(X, Moments.of(X), Encoding.unit(X.shape[1]))
    trace: dict[str, list[Any]] = {
        name: []
        for name in ("raw", "lop_min", "lop_avg", "naive", "ica_min", "ica_avg", "true_min", "true_avg", "converged")
    }
    best, rng = np.full(X.shape[1], np.inf), np.random.default_rng(11)
    for number in range(count):
        turn = haar_rotation(X.shape[1], rng)
        one = iteration(sample, turn, (np.random.default_rng([number, 13]), np.random.default_rng([number, 13])))
        published, measured = one["published"], one["measured"]
        signed = np.sqrt(vod_matrix(turn[one["order"]], sample.covariance)).diagonal()
        best = np.fmin(best, measured.sigma)
        row = {
            "raw": one["sigma"].diagonal().min(),
            "lop_min": one["lop_min"],
            "lop_avg": one["lop_avg"],
            "naive": unified_privacy(np.fmin(signed, sample.deviations)).minimum,
            "ica_min": published.privacy.minimum,
            "ica_avg": published.privacy.average,
            "true_min": measured.privacy.minimum,
            "true_avg": measured.privacy.average,
            "converged": published.converged,
        }
        for name, value in row.items():
            trace[name].append(bool(value) if name == "converged" else float(value))
    kept = search_rotation(sample, iterations=count, scoring="published", rng=np.random.default_rng(17))[1]
    deviations = sample.deviations
    varies = np.isfinite(deviations)
    return {
        "trace": trace,
        "lop": lop(sample.covariance),
        "search": {"lop_min": kept.naive.minimum, "ica_min": kept.ica.minimum if kept.ica else None},
        "mean_guess": list(unified_privacy(deviations)),
        "left": (best[varies] / deviations[varies]).tolist(),
    }


def lop(covariance: Matrix) -> dict[str, list[float]]:
    """Best locally optimised minimum and average of 50 rotations: mean and deviation over 20 such searches."""
    rng = np.random.default_rng(23)
    found = [lop_search(covariance, rng) for _ in range(SEARCHES)]
    means, deviations = np.mean(found, axis=0), np.std(found, axis=0)
    return {name: [float(means[i]), float(deviations[i])] for i, name in enumerate(("lop_min", "lop_avg"))}


def ica_searches(data: DataSet, searches: int) -> Found:
    """Lowest published ICA figures of 50 rotations: mean and deviation over so many such searches."""
    X = data.unit()
    sample, rng = sample_of(X, Moments.of(X), Encoding.unit(X.shape[1])), np.random.default_rng(31)
    found = np.array([ica_search(sample, rng) for _ in range(searches)])
    means, deviations = found.mean(axis=0), found.std(axis=0)
    return {name: [float(means[i]), float(deviations[i])] for i, name in enumerate(("ica_min", "ica_avg"))}


def condensation(data: DataSet, sizes: tuple[int, ...]) -> Found:
    """Privacy of condensed rows against the nearest original row, by group size."""
    X, found = data.unit(), {}
    for k in sizes:
        drawn = []
        for seed in range(REPEATS):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of small groups: the paper takes them as they are
                block = Condensation(k).fit(X, data.y).perturb(X, data.y, np.random.default_rng([seed, k]))
            drawn.append(nearest_row_privacy(X, block.X))
        found[str(k)] = np.mean(drawn, axis=0).tolist()
    return {"by size": found}


def attacks(data: DataSet) -> Found:
    """What the paper does not try: known rows; ICA matched by distributions alone, with no look at the truth."""
    X = data.unit()
    n, d = X.shape
    Z, encoding = rotated(X, 0), Encoding.unit(d)
    order = np.random.default_rng(19).permutation(n)
    counts = tuple(sorted({1, d // 2, d, d + 1, 2 * (d + 1), 3 * (d + 1)} & set(range(1, n // 2))))
    moments = ColumnMoments(X.mean(axis=0), np.cov(X.T, ddof=0))
    known = Knowledge(
        Z,
        encoding,
        columnwise=False,
        column_moments=moments,
        column_distributions=tuple(np.sort(X, axis=0).T),
        known_rows=RowPairs(X[order[: max(counts)]], order[: max(counts)]),
    )
    curve = recovery_curve(known, Truth(X, encoding, rows=X), counts)
    index = independent_rows(X, order)
    pairs = Knowledge(Z, encoding, columnwise=False, column_moments=moments, known_rows=RowPairs(X[index], index))
    guess = KnownRows().run(pairs).X  # type: ignore[attr-defined]
    ica = IndependentComponents().run(known)
    blind = None
    if not isinstance(ica, Abstain):
        blind = list(unified_privacy(np.sqrt(column_privacy(X, ica.X, encoding))))  # type: ignore[attr-defined]
    return {
        "curve": {str(count): share for count, share in curve.items()},
        "rows": len(index),
        "d": d,
        "error": float(np.abs(guess - X).max()),
        "blind": blind,
    }


def independent_rows(X: Matrix, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first rows in this order of which each adds a direction: d + 1 of them, fewer if columns depend."""
    chosen, basis = [order[0]], np.empty((0, X.shape[1]))
    for row in order[1:]:
        rest = X[row] - X[chosen[0]]
        rest = rest - basis.T @ (basis @ rest)
        rest = rest - basis.T @ (basis @ rest)
        if np.linalg.norm(rest) > 1e-3:
            basis = np.vstack([basis, rest / np.linalg.norm(rest)])
            chosen.append(row)
    return np.array(chosen)


def perfect_recovery(data: DataSet) -> Found:
    """The scores of components that *are* the columns, standardised: as published, and as measured."""
    X = data.unit()
    X = X[:, X.std(axis=0) > 0]
    deviation = X.std(axis=0)
    own = (X - X.mean(axis=0)) / deviation
    alone = [component_privacy(X[:, [j]], own[:, [j]], published=True).minimum for j in range(X.shape[1])]
    return {
        "largest difference from 1 - sd": float(np.abs(np.array(alone) - (1 - deviation)).max()),
        "published": component_privacy(X, own, published=True).minimum,
        "measured": component_privacy(X, own).minimum,
    }
