"""Training on a part of the pool and counting wrong answers: of queries, and of folds of the pool itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.array_types import Codes
from sfumato.classifiers.factory import choose_classifier, make_classifier
from sfumato.classifiers.training import Part, answers_plain_rows, fit_on_parts
from sfumato.jobs.pooling.error_rate import ErrorRate

FOLDS = 5
SWEPT_TREES = 50
Step = Callable[[], None]
"""Called after every training."""


@dataclass(frozen=True)
class Queries:
    """Rows to be classified, and labels that answers are held against; a part without `source` holds plain rows."""

    parts: Sequence[Part]
    classes: int

    @property
    def y(self) -> Codes:
        return np.concatenate([part.y for part in self.parts])

    @property
    def rows(self) -> int:
        return sum(len(part.y) for part in self.parts)

    def error_rate(self, wrong: float) -> ErrorRate:
        """Labels of several parts were kept with the average probability."""
        keep = float(np.average([part.label_keep for part in self.parts], weights=[len(part.y) for part in self.parts]))
        return ErrorRate.of(wrong, self.rows, keep=keep, classes=self.classes)

    def commonest(self) -> ErrorRate:
        """Always answering the class that is commonest here: the figure to beat."""
        return self.error_rate(self.rows - int(np.bincount(self.y).max()))

    def answers(self, fitted: Any) -> Codes:
        """Of a trained classifier; learners that answer for plain rows are told when these are not."""
        if answers_plain_rows(fitted) and any(part.source is not None for part in self.parts):
            found = [fitted.predict_released(part.Z, part.source) for part in self.parts if len(part.y)]
        else:
            found = [fitted.predict(np.concatenate([part.Z for part in self.parts]))]
        return np.concatenate(found)

    def wrong_of(self, answers: Codes) -> int:
        """How many answers disagree with the labels."""
        return int(np.count_nonzero(answers != self.y))

    def wrong(self, fitted: Any) -> int:
        """Disagreements of a trained classifier."""
        return self.wrong_of(self.answers(fitted))


def joined(queries: Iterable[Queries]) -> Queries:
    """The rows of all of them."""
    found = list(queries)
    return Queries([part for one in found for part in one.parts], found[0].classes)


def answers_released(name: str, parts: Sequence[Part]) -> bool:
    """Whether the classifier can be held against perturbed rows, and not only against plain ones."""
    made = make_classifier(name)
    corrected_outside = any(part.label_keep < 1.0 for part in parts) and not getattr(made, "corrects_labels", False)
    return not answers_plain_rows(made) or (hasattr(made, "predict_released") and not corrected_outside)


def wrong_answers(classifier: str, parts: Sequence[Part], queries: Queries) -> int:
    """Disagreements after training on `parts`."""
    return queries.wrong_of(answering(classifier, parts)(queries))


def answering(classifier: str, parts: Sequence[Part]) -> Callable[[Queries], Codes]:
    """What a classifier trained on `parts` answers. Where these know one class only, that one is always answered."""
    labels = np.unique(np.concatenate([part.y for part in parts]))
    if len(labels) == 1:
        return lambda queries: np.full(queries.rows, labels[0])
    # So few rows are learned fastest by one thread: several would spend their time waiting for each other.
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # a network that has not converged is still measured
        fitted = fit_on_parts(_smaller(classifier), parts)

    def answers(queries: Queries) -> Codes:
        with threadpool_limits(1):
            return queries.answers(fitted)

    return answers


def _smaller(name: str) -> Any:
    """As the model itself is made, but with a smaller forest: it is trained many times here."""
    chosen = choose_classifier(name)
    if chosen.name == "forest":
        chosen = choose_classifier(chosen, {"trees": min(chosen.get_params()["trees"], SWEPT_TREES)})
    return make_classifier(chosen)


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
    return left, Queries(_inhabited(held), classes)


def _picked(part: Part, rows: Any) -> Part:
    return replace(part, Z=part.Z[rows], y=part.y[rows])


def cross_validation(
    classifier: str, parts: Sequence[Part], classes: int, rng: np.random.Generator, step: Step
) -> tuple[ErrorRate, ErrorRate]:
    """Error of the rows of each fold after training on the others; and of always answering the commonest class."""
    rows = Queries(parts, classes)
    dealings = [dealt(part, FOLDS, rng) for part in parts]
    wrong = 0
    for fold in range(FOLDS):
        left, held = split(parts, dealings, fold, classes)
        if held.rows:
            wrong += wrong_answers(classifier, _inhabited(left), held)
        step()
    return rows.error_rate(wrong), rows.commonest()


def _inhabited(parts: Sequence[Part]) -> list[Part]:
    """Radii are computed part by part, and no radius follows from no rows."""
    return [part for part in parts if len(part.y)]
