"""Finished tasks as the tables and figures ask for them: accuracies and shares of pairs, each with its error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from roads import EPSILONS, ROADS, RULE, Road, ruled, runs
from sets import GENERATED, HELD_OUT, MIXED, TEN
from tasks import PLAIN, Task

MAJORITY, CEILING = "majority", "ceiling"
Way = Road | str
"""A road, or "the rule", "majority", "ceiling"."""


class Figure(NamedTuple):
    """A mean and its standard error."""

    mean: float
    error: float

    @property
    def interval(self) -> tuple[float, float]:
        """95%, by twice the standard error."""
        return self.mean - 2 * self.error, self.mean + 2 * self.error


class Results:
    """By set, way and epsilon, over the splits that are done."""

    def __init__(self, found: dict[Task, dict[str, Any]], skipped: dict[str, str], sources: dict[str, str]) -> None:
        self._found = found
        self.skipped, self.sources = skipped, sources
        order = (GENERATED, *TEN, *HELD_OUT, *MIXED)
        self.data = [name for name in order if any(task.data == name for task in found)]

    def known(self) -> list[str]:
        """Sets that everything was made on."""
        return [name for name in self.data if name in (GENERATED, *TEN)]

    def complete(self) -> list[str]:
        """Those of them that are done by the rule, at least once: what means are of."""
        return [n for n in self.known() if all(self.accuracy(n, RULE, one) is not None for one in self.epsilons())]

    def unfinished(self) -> list[str]:
        """Roads of which something is missing."""
        asked = [(road, epsilon) for road in ROADS for epsilon in self.epsilons() if runs(road.mechanism, epsilon)]
        found = [road.title for road, at in asked if any(self.accuracy(n, road, at) is None for n in self.complete())]
        return list(dict.fromkeys(found))

    def splits(self, data: str) -> int:
        """How many of the set are done, at least in part."""
        return len({task.split for task in self._found if task.data == data})

    def epsilons(self) -> list[float]:
        """Those that something was done at."""
        return [epsilon for epsilon in EPSILONS if any(task.epsilon == epsilon for task in self._found)]

    def _tasks(self, data: str, way: Way, epsilon: float) -> tuple[list[dict[str, Any]], str]:
        road = ruled(epsilon) if way == RULE else way
        mechanism, key = (road.mechanism, road.learner) if isinstance(road, Road) else (PLAIN, road)
        at = epsilon if mechanism != PLAIN else 0.0
        wanted = [v for t, v in self._found.items() if (t.data, t.mechanism, t.epsilon) == (data, mechanism, at)]
        return wanted, key

    def accuracy(self, data: str, way: Way, epsilon: float) -> Figure | None:
        """Mean over splits. Its error is the larger of two: that of so many test rows, that between splits."""
        found, key = self._tasks(data, way, epsilon)
        parts = [one[key] for one in found]
        return _over_splits(
            [part["right"] / part["rows"] for part in parts],
            [_binomial(part["right"], part["rows"]) for part in parts],
        )

    def above_majority(self, data: str, way: Way, epsilon: float) -> Figure | None:
        """Accuracy minus that of the commonest class, on the same test rows."""
        found, key = self._tasks(data, way, epsilon)
        parts = [one[key] for one in found]
        gaps = [(part["only"] - part["only_majority"]) / part["rows"] for part in parts]
        variances = [
            ((part["only"] + part["only_majority"]) / part["rows"] - gap**2) / part["rows"]
            for part, gap in zip(parts, gaps, strict=True)
        ]
        return _over_splits(gaps, variances)

    def pair(self, data: str, way: Way, epsilon: float) -> Figure | None:
        """The share of pairs that the adversary tells apart."""
        found, _ = self._tasks(data, way, epsilon)
        parts = [one["pair"] for one in found if "pair" in one]
        return _over_splits(
            [part["right"] / part["pairs"] for part in parts],
            [_binomial(part["right"], part["pairs"]) for part in parts],
        )

    def chosen(self, data: str, way: Way, epsilon: float) -> list[str]:
        """What `auto` chose, split by split."""
        found, key = self._tasks(data, way, epsilon)
        return [one[key]["chosen"] for one in found]

    def mean(self, figures: Sequence[Figure | None]) -> Figure | None:
        """Over sets; None where one is missing."""
        there = [one for one in figures if one is not None]
        if not there or len(there) < len(figures):
            return None
        error = math.sqrt(sum(one.error**2 for one in there)) / len(there)
        return Figure(float(np.mean([one.mean for one in there])), error)

    def to_dict(self) -> dict[str, Any]:
        """All figures, for other programs."""
        return {task.key: value for task, value in self._found.items()}


def _binomial(right: float, of: int) -> float:
    share = (right + 1) / (of + 2)  # so that all right is not certain
    return share * (1 - share) / of


def _over_splits(values: list[float], variances: list[float]) -> Figure | None:
    if not values:
        return None
    count = len(values)
    between = float(np.var(values, ddof=1)) / count if count > 1 else 0.0
    return Figure(float(np.mean(values)), math.sqrt(max(between, sum(variances) / count**2)))
