"""Training on a part of the pool and counting wrong answers: of queries, and of folds of the pool itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.classifiers.factory import make_classifier
from sfumato.classifiers.training import Codes, Matrix, Part, fit_on_parts
from sfumato.jobs.pooling.error_rate import ErrorRate

FOLDS = 5
Step = Callable[[], None]
"""Called after every training."""


@dataclass(frozen=True)
class Queries:
    """Rows to be classified, in the space of the releases, with the labels that answers are held against."""

    Z: Matrix
    y: Codes
    label_keep: float
    classes: int

    def error_rate(self, wrong: float) -> ErrorRate:
        return ErrorRate.of(wrong, len(self.y), keep=self.label_keep, classes=self.classes)

    def commonest(self) -> ErrorRate:
        """Always answering the class that is commonest here: the figure to beat."""
        return self.error_rate(len(self.y) - int(np.bincount(self.y).max()))


def wrong_answers(classifier: str, parts: Sequence[Part], queries: Queries) -> int:
    """Disagreements after training on `parts`. Where these know one class only, that one is always answered."""
    labels = np.unique(np.concatenate([part.y for part in parts]))
    if len(labels) == 1:
        return int(np.count_nonzero(queries.y != labels[0]))
    # So few rows are learned fastest by one thread: several would spend their time waiting for each other.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # a network that has not converged is still measured
        fitted = fit_on_parts(_smaller(classifier, sum(len(part.y) for part in parts)), parts)
        return int(np.count_nonzero(np.asarray(fitted.predict(queries.Z)) != queries.y))


def fitting_classifier(name: str, rows: int) -> Any:
    """The classifier for that many rows: neighbours are no more than there are rows to be one."""
    made = make_classifier(name)
    return made.set_params(n_neighbors=min(made.n_neighbors, rows)) if name == "knn" else made


def _smaller(name: str, rows: int) -> Any:
    """As the model itself is made, but with a smaller forest: it is trained many times here."""
    made = fitting_classifier(name, rows)
    return made.set_params(n_estimators=50) if name == "forest" else made


def dealt(part: Part, folds: int, rng: np.random.Generator) -> Codes:
    """A fold for every row, the rows of each class dealt evenly."""
    fold = np.empty(len(part.y), dtype=np.int64)
    start = 0
    for code in np.unique(part.y):
        rows = rng.permutation(np.flatnonzero(part.y == code))
        fold[rows] = (start + np.arange(len(rows))) % folds
        start += len(rows)
    return fold


def split(parts: Sequence[Part], folds: Sequence[Codes], out: int, classes: int) -> tuple[list[Part], Queries]:
    """Everything but the fold `out` to learn from, and that fold to be classified."""
    left = [_picked(part, fold != out) for part, fold in zip(parts, folds, strict=True)]
    held = [_picked(part, fold == out) for part, fold in zip(parts, folds, strict=True)]
    return left, pooled_queries(held, classes)


def _picked(part: Part, rows: Any) -> Part:
    return Part(part.Z[rows], part.y[rows], part.noise, part.label_keep)


def pooled_queries(parts: Sequence[Part], classes: int) -> Queries:
    """Rows of several releases as queries; the labels were kept with the average probability."""
    sizes = [len(part.y) for part in parts]
    keep = float(np.average([part.label_keep for part in parts], weights=sizes)) if sum(sizes) else 1.0
    return Queries(np.concatenate([p.Z for p in parts]), np.concatenate([p.y for p in parts]), keep, classes)


def cross_validation(
    classifier: str, parts: Sequence[Part], classes: int, rng: np.random.Generator, step: Step
) -> tuple[ErrorRate, ErrorRate]:
    """Error of the rows of each fold after training on the others; and of always answering the commonest class."""
    rows = pooled_queries(parts, classes)
    dealings = [dealt(part, FOLDS, rng) for part in parts]
    wrong = 0
    for fold in range(FOLDS):
        left, held = split(parts, dealings, fold, classes)
        if len(held.y):
            wrong += wrong_answers(classifier, _inhabited(left), held)
        step()
    return rows.error_rate(wrong), rows.commonest()


def _inhabited(parts: Sequence[Part]) -> list[Part]:
    """Radii are computed part by part, and no radius follows from no rows."""
    return [part for part in parts if len(part.y)]
