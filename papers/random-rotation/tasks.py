"""What is to be done, in pieces that can be done again alone: (experiment, data set) -> figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import experiments
import numpy as np
from papers.data import load
from published import TABLE_1
from threadpoolctl import threadpool_limits

from sfumato.auditing.figures.random_rotation import SIZE, SIZES

ITERATIONS, ITERATIONS_FAST = 50, 12
ROTATIONS, ROTATIONS_FAST = 10, 3
ICA_SEARCHES, ICA_SEARCHES_FAST = 20, 2

SWEPT = ("ecoli", "pima")


@dataclass(frozen=True)
class Task:
    """One experiment on one data set."""

    experiment: str
    data: str
    setting: Any = None

    @property
    def key(self) -> str:
        """As it stands in the store."""
        return f"{self.experiment}|{self.data}|{self.setting}"

    def do(self, online: bool = False) -> dict[str, Any]:
        """Its figures, computed in one thread."""
        data = load(self.data, online=online)
        arguments = () if self.setting is None else (self.setting,)
        with threadpool_limits(1):
            return dict(getattr(experiments, self.experiment)(data, *arguments))


def all_tasks(fast: bool) -> Iterator[Task]:
    """Everything; `fast` is what the tests run."""
    for data in ("iris", "wine") if fast else TABLE_1:
        yield Task("accuracy", data, ROTATIONS_FAST if fast else ROTATIONS)
        yield Task("iterations", data, ITERATIONS_FAST if fast else ITERATIONS)
        yield Task("ica_searches", data, ICA_SEARCHES_FAST if fast else ICA_SEARCHES)
        yield Task("condensation", data, SIZES if data in SWEPT else (2, SIZE, 50))
        yield Task("attacks", data)
        yield Task("perfect_recovery", data)


class Results:
    """Finished tasks as the tables and figures ask for them."""

    def __init__(self, found: dict[Task, dict[str, Any]], skipped: dict[str, str], sources: dict[str, str]) -> None:
        self._found = {(task.experiment, task.data): value for task, value in found.items()}
        self.skipped, self.sources = skipped, sources
        self.data = [name for name in TABLE_1 if ("iterations", name) in self._found]

    def get(self, experiment: str, data: str) -> dict[str, Any]:
        """All figures of one experiment on one data set."""
        return self._found[experiment, data]

    def trace(self, data: str, name: str) -> np.ndarray:
        """One figure over the iterations."""
        return np.array(self._found["iterations", data]["trace"][name])

    def privacy(self, data: str) -> dict[str, float]:
        """The right side of Table 1: best locally optimised figures, lowest of ICA, as published and as measured."""
        searches = self._found["iterations", data]["lop"] | self._found["ica_searches", data]
        found = {name: searches[name][0] for name in ("lop_min", "lop_avg", "ica_min", "ica_avg")}
        found["naive"] = float(self.trace(data, "naive").max())
        found |= {name: float(self.trace(data, name).min()) for name in ("true_min", "true_avg")}
        found["not_converged"] = float(1 - self.trace(data, "converged").mean())
        # What the paper's Algorithm 1 would keep: the best of min(LOP, ICA) over the iterations.
        found["kept"] = float(np.minimum(self.trace(data, "lop_min"), self.trace(data, "ica_min")).max())
        found["kept_avg"] = float(np.minimum(self.trace(data, "lop_avg"), self.trace(data, "ica_avg")).max())
        found["left"] = float(min(self._found["iterations", data]["left"]))
        return found

    def condensed(self, data: str, size: int = SIZE) -> tuple[float, float]:
        """Minimum and average privacy of condensation."""
        minimum, average = self._found["condensation", data]["by size"][str(size)]
        return float(minimum), float(average)

    def to_dict(self) -> dict[str, Any]:
        """All figures, for other programs."""
        return {"|".join(key): value for key, value in self._found.items()} | {
            f"privacy|{data}": self.privacy(data) for data in self.data
        }
