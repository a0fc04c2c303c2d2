"""Training on a part of the pool and counting wrong answers: of queries, and of folds of the pool itself."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from sfumato.attacks.metrics.privacy import proportion_interval
from sfumato.core.array_types import Codes
from sfumato.learn.classifiers.factory import choose_classifier, make_classifier
from sfumato.learn.classifiers.reads_noise import Part
from sfumato.learn.classifiers.training import answers_plain_rows, fit_on_parts

# How often a classifier is wrong, with an interval, also where the labels it is held against were randomized.


@dataclass(frozen=True)
class ErrorRate:
    """Share of wrong answers among `rows`; lower is better. The interval is Wilson's, of 95%."""

    error: float
    low: float
    high: float
    rows: int

    @classmethod
    def of(cls, wrong: float, rows: int, *, keep: float = 1.0, classes: int = 2) -> ErrorRate:
        """From `wrong` disagreements among `rows` (a mean over repeats need not be whole).

        A label that randomized response kept with probability p, and else replaced by one of the k - 1 others,
        disagrees with a right answer with probability 1 - p, and with a wrong one with 1 - (1 - p)/(k - 1). So

            seen = (1 - p) + c error,    c = p - (1 - p)/(k - 1),

        which is solved for the error, and for both ends of the interval.
        """
        if rows < 1:
            raise ValueError(f"The 'rows' parameter of ErrorRate.of must be at least 1. Got {rows!r} instead.")
        seen = wrong / rows
        figures = (seen, *proportion_interval(wrong, rows))
        contrast = keep - (1.0 - keep) / max(classes - 1, 1)
        if contrast <= 0.0:  # labels that tell nothing of the truth
            return cls(math.nan, 0.0, 1.0, rows)
        error, low, high = ((min(1.0, max(0.0, (figure - (1.0 - keep)) / contrast))) for figure in figures)
        return cls(error, low, high, rows)

    def to_dict(self) -> dict[str, Any]:
        known = not math.isnan(self.error)
        return {"error": self.error if known else None, "interval": [self.low, self.high], "rows": self.rows}


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
    chosen = choose_classifier(classifier)
    if chosen.name == "forest":  # as the model itself is made, but smaller: it is trained many times here
        chosen = choose_classifier(chosen, {"trees": min(chosen.get_params()["trees"], SWEPT_TREES)})
    # So few rows are learned fastest by one thread: several would spend their time waiting for each other. A network
    # that has not converged is still measured.
    with warnings.catch_warnings(action="ignore"), threadpool_limits(1):
        fitted = fit_on_parts(make_classifier(chosen), parts)

    def answers(queries: Queries) -> Codes:
        with threadpool_limits(1):
            return queries.answers(fitted)

    return answers


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
    """Everything but the fold `out` to learn from, and that fold to be classified; parts without rows are left out,
    since radii are computed part by part."""

    def picked(chosen: Callable[[Codes], Any]) -> list[Part]:
        rows = ((part, chosen(fold)) for part, fold in zip(parts, folds, strict=True))
        return [replace(part, Z=part.Z[mine], y=part.y[mine]) for part, mine in rows if mine.any()]

    return picked(lambda fold: fold != out), Queries(picked(lambda fold: fold == out), classes)


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
            wrong += wrong_answers(classifier, left, held)
        step()
    return rows.error_rate(wrong), rows.commonest()


# What another site adds: error against the number of sites that take part, and of each site alone.

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
    names, alone = list(sites), {}
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
    lowest, highest = (queries.error_rate(end).to_dict()["error"] for end in (min(wrong), max(wrong)))
    mean = queries.error_rate(float(np.mean(wrong))).to_dict()
    return {"sites": count, **mean, "lowest": lowest, "highest": highest, "choices": len(wrong)}
