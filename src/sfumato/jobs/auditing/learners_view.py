"""What learners make of a release: can one tell its rows from real ones, and does it teach what real rows teach?"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import StratifiedKFold

from sfumato.array_types import Codes, Matrix
from sfumato.jobs.auditing.evidence import People
from sfumato.metrics import auc, auc_interval
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
    release: Matrix,
    original: Matrix,
    holdout: People,
    labels: tuple[Codes | None, Codes | None],
    encoding: Encoding,
    seed: int,
) -> list[dict[str, Any]]:
    """How well the label, or some columns, are predicted for the holdout after learning from either table."""
    label = encoding.schema.label
    if label is not None and labels[0] is not None and labels[1] is not None and holdout.y is not None:
        tasks = [(label.name, True, (release, labels[0]), (original, labels[1]), (holdout.X, holdout.y))]
    else:
        tasks = [_of_column(group, release, original, holdout.X) for group in _some(encoding)]
    return [found for task in tasks if (found := _compared(*task, seed)) is not None]


def _some(encoding: Encoding) -> list[Group]:
    groups = encoding.groups if len(encoding.groups) > 1 else ()
    places = np.unique(np.linspace(0, len(groups) - 1, min(MOST_TARGETS, len(groups))).astype(int)) if groups else ()
    return [groups[place] for place in places]


def _of_column(group: Group, *tables: Matrix) -> tuple[Any, ...]:
    """The column of each table as what is to be predicted, from the others."""
    others = np.ones(tables[0].shape[1], dtype=bool)
    others[group.slice] = False
    parts = [(X[:, others], X[:, group.slice].argmax(axis=1) if group.is_onehot else X[:, group.start]) for X in tables]
    return group.column.name, group.is_onehot, *parts


def _compared(name: str, classes: bool, release: Any, original: Any, test: Any, seed: int) -> dict[str, Any] | None:
    if min(len(part[0]) for part in (release, original, test)) < LEAST_ROWS or np.ptp(test[1]) == 0:
        return None
    return {
        "name": name,
        "measure": "accuracy" if classes else "R2",
        "release": _score(release, test, classes, seed),
        "original": _score(original, test, classes, seed),
        "usual": float(np.bincount(test[1]).max() / len(test[1])) if classes else 0.0,
    }


def _score(train: tuple[Matrix, Any], test: tuple[Matrix, Any], classes: bool, seed: int) -> float:
    """Share of right answers, or share of the variance explained (below 0: worse than the mean)."""
    if np.ptp(train[1]) == 0:
        return float(np.mean(test[1] == train[1][0])) if classes else 0.0
    kind = HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor
    model = kind(random_state=seed, **SETTINGS).fit(*train)
    return float(model.score(*test))
