"""What is to be done, in pieces that can be done again alone: (experiment, data set, setting) -> figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import experiments
import numpy as np
from published import SETS
from threadpoolctl import threadpool_limits

SEEDS, FEWER, CHUNK, SEEDS_FAST = 100, {"svmguide1": 40}, 10, 6
"""SVMGuide1 has one split, large and given: 40 seeds of dealing, drawing and starting weights say as much."""
DENSITY_SEEDS, DENSITY_SEEDS_FAST = 20, 2
HALF_SEEDS = 30
MANY_SEEDS = 10
SIZES, SIZES_FAST = (50, 200, 1_000, 5_000, 20_000), (50, 1_000)
DIMENSIONS, DIMENSIONS_FAST = (1, 4, 8), (2,)
LEMMA_SETS = ("pima", "svmguide1")


@dataclass(frozen=True)
class Task:
    """One experiment on one data set (or with so many columns, where the truth is drawn)."""

    experiment: str
    data: Any
    setting: Any = None

    @property
    def key(self) -> str:
        """As it stands in the store."""
        return f"{self.experiment}|{self.data}|{self.setting}"

    def do(self) -> dict[str, Any]:
        """Its figures, computed in one thread."""
        with threadpool_limits(1):
            return dict(getattr(experiments, self.experiment)(self.data, self.setting))


def all_tasks(fast: bool) -> Iterator[Task]:
    """Everything; `fast` is what the tests run."""
    for data in ("iris",) if fast else SETS:
        seeds, chunk = (SEEDS_FAST, SEEDS_FAST) if fast else (FEWER.get(data, SEEDS), CHUNK)
        for start in range(0, seeds, chunk):
            yield Task("sites", data, (start, start + chunk))
        yield Task("density", data, DENSITY_SEEDS_FAST if fast else DENSITY_SEEDS)
        yield Task("half", data, 3 if fast else HALF_SEEDS)
        if data in LEMMA_SETS or fast:
            yield Task("lemmas", data, 20)
    if not fast:
        yield Task("many_sites", "svmguide1", MANY_SEEDS)
    for d in DIMENSIONS_FAST if fast else DIMENSIONS:
        yield Task("against_rows", d, SIZES_FAST if fast else SIZES)


class Results:
    """Finished tasks as the tables and figures ask for them."""

    def __init__(self, found: dict[Task, dict[str, Any]], skipped: dict[str, str], sources: dict[str, str]) -> None:
        self._found = found
        self.skipped, self.sources = skipped, sources
        self.data = [name for name in SETS if any(task.data == name for task in found)]
        self.dimensions = [task.data for task in found if task.experiment == "against_rows"]
        self.server: dict[str, Any] | None = None

    def get(self, experiment: str, data: Any) -> dict[str, Any] | None:
        """All figures of one experiment on one data set; None where it was not run."""
        return next((v for t, v in self._found.items() if (t.experiment, t.data) == (experiment, data)), None)

    def over_seeds(self, data: str, setting: str, key: str) -> np.ndarray:
        """One figure of the L-site experiment for every seed: setting "original", or "rule|L"."""
        parts = [v for t, v in self._found.items() if (t.experiment, t.data) == ("sites", data)]
        return np.concatenate([part[setting][key] for part in parts])

    def phi(self, data: str, rule: str, count: int, classifier: str) -> tuple[float, float]:
        """Mean over seeds of the error with randomized minus with original training rows (Eq. 20), and its error."""
        gaps = self.over_seeds(data, f"{rule}|{count}", classifier) - self.over_seeds(data, "original", classifier)
        return float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(gaps)))

    def dapl(self, data: str, rule: str, count: int, code: int, against: str = "apart") -> float:
        """Mean over seeds."""
        found = self.get("density", data)
        assert found is not None
        return float(np.mean(found[f"{rule}|{count}|{code}|{against}"]))

    def to_dict(self) -> dict[str, Any]:
        """All figures, for other programs."""
        return {task.key: value for task, value in self._found.items()}
