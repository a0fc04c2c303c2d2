"""What is to be done, in pieces that can be done again alone: (experiment, data set) -> figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dependence
import experiments
from experiments import SIMULATED
from published import RUNS, TABLE_1
from threadpoolctl import threadpool_limits

COUNTY = "county_income"
FEWER = 100
"""Runs of Table 1 on simulated values, and on other numbers of cells."""
FEW = 30
"""Runs of everything but Table 1."""
FEW_FAST = 3
LEVELS = {COUNTY: (0.2, 0.25, 0.33, 0.45, 0.6, 0.75, 0.9), SIMULATED: (0.28, 0.33, 0.45, 0.6, 0.75, 0.9)}
"""Privacy losses of Fig. 3. Uniform factors cannot go below .19 (county income) and .26 (two lumps)."""
TITLES = {COUNTY: "county income", SIMULATED: "two lumps"}


@dataclass(frozen=True)
class Task:
    """One experiment on one data set."""

    experiment: str
    data: str
    setting: tuple[Any, ...] = ()

    @property
    def key(self) -> str:
        """As it stands in the store."""
        return "|".join(map(str, (self.experiment, self.data, *self.setting)))

    def do(self) -> dict[str, Any]:
        """Its figures, computed in one thread."""
        module = experiments if hasattr(experiments, self.experiment) else dependence
        with threadpool_limits(1):
            return dict(getattr(module, self.experiment)(self.data, *self.setting))


def all_tasks(fast: bool, county: bool = True) -> Iterator[Task]:
    """Everything; `fast` is what the tests run. Without county income the simulated values stand in for it."""
    few = FEW_FAST if fast else FEW
    yield Task("figure_1", SIMULATED)
    for data in (COUNTY, SIMULATED) if county else (SIMULATED,):
        yield Task("privacy", data)
        yield Task("table_1", data, (few if fast else RUNS if data == COUNTY else FEWER,))
        for level in LEVELS[data][1:2] if fast else LEVELS[data]:
            yield Task("figure_3", data, (level, few))
    main = COUNTY if county else SIMULATED
    yield Task("figure_4", main)
    for name in ("penalty", "stopping", "errata", "width", "branches", "large"):
        yield Task(name, main, (few,))
    yield Task("cells", main, (few if fast else FEWER,))
    if not fast:
        yield Task("other_readings", main, (few,))
        yield Task("grid", main, (few,))


class Results:
    """Finished tasks as the tables and figures ask for them."""

    def __init__(self, found: dict[Task, dict[str, Any]], skipped: dict[str, str]) -> None:
        self._found = found
        self.skipped = skipped
        self.data = list(dict.fromkeys(task.data for task in found if task.experiment == "table_1"))
        self.main = self.data[0]
        self.runs = next(task.setting[0] for task in found if task.experiment == "table_1")
        self.few = next(task.setting[0] for task in found if task.experiment == "errata")

    def has(self, experiment: str) -> bool:
        return any(task.experiment == experiment for task in self._found)

    def setting(self, experiment: str) -> int:
        """Runs of an experiment."""
        return int(next(task.setting[-1] for task in self._found if task.experiment == experiment))

    def get(self, experiment: str, data: str | None = None) -> dict[str, Any]:
        """The figures of one experiment; on the main data set unless another is named."""
        wanted = (task for task in self._found if task.experiment == experiment)
        return next(self._found[task] for task in wanted if data is None or task.data == data)

    def loss(self, noise: str, method: str, data: str | None = None) -> list[float]:
        """Mean, deviation, least and largest information loss of Table 1."""
        return list(self.get("table_1", data or self.main)[noise][method]["loss"])

    def by_cells(self) -> dict[int, dict[str, float]]:
        """The entries of Table 1 for each number of cells of x, EM after 100 rounds."""
        found = self.get("cells")
        kinds = {"Mul + PQP": ("Mul", "PQP"), "Add + PQP": ("Add", "PQP"), "Add + EM": ("Add", "EM, 100")}
        return {
            int(count): {key: found[noise][count][method]["loss"][0] for key, (noise, method) in kinds.items()}
            for count in found["Add"]
        }

    def nearest_cells(self) -> int:
        """The number of cells on which the three entries of Table 1 together come nearest to what was published."""
        table = self.by_cells()
        return min(table, key=lambda count: sum(abs(table[count][key] - TABLE_1[key]) for key in TABLE_1))

    def levels(self, data: str) -> dict[float, dict[str, Any]]:
        """Fig. 3: by privacy loss."""
        return {
            task.setting[0]: value
            for task, value in self._found.items()
            if task.experiment == "figure_3" and task.data == data
        }

    def to_dict(self) -> dict[str, Any]:
        return {task.key: value for task, value in self._found.items()}
