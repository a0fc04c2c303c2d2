"""What is to be done, in pieces that can be done again alone: (experiment, data set, setting) -> means over runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from splits import SYNTHETIC, TITLES, table
from threadpoolctl import threadpool_limits
from trials import TRIALS

from sfumato.auditing.figures.principal_laplace import mining_times, sanitize_times
from sfumato.guarantee import amplification, posterior_bound

B = (0.1, 0.2, 0.3)
B_FINE = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
DEVIATIONS = (0.1, 0.25, 0.5)
COLUMNS = ("m/4", "m/2", "m-1")
SETTINGS: dict[str, tuple[Any, ...]] = {
    "original": (0,),
    "pca-radius": B,
    "laplace": B,
    "rand-p": COLUMNS,
    "rand-u": DEVIATIONS,
    "rand-n": DEVIATIONS,
    "epsilons": B,
    "product": ("b", "epsilon"),
}
SIZES = tuple((100_000, columns) for columns in (20, 40, 60, 80, 100)) + tuple(
    (rows, 100) for rows in (20_000, 40_000, 60_000, 80_000)
)
RUNS, RUNS_SYNTHETIC, RUNS_FAST = 20, 5, 3
RHO_1 = 0.001


@dataclass(frozen=True)
class Task:
    """One cell of the paper's figures."""

    experiment: str
    data: str
    setting: Any
    runs: int = 1

    @property
    def key(self) -> str:
        """As it stands in the store."""
        return f"{self.experiment}|{self.data}|{self.setting}|{self.runs} runs"

    @property
    def timed(self) -> bool:
        """Whether it must have the machine for itself."""
        return self.experiment == "time"

    def do(self, online: bool = False) -> dict[str, Any]:
        """Mean and standard deviation over the runs, in one thread unless it is timed."""
        if self.timed:
            return {"mean": sanitize_times(*self.setting) | mining_times(*self.setting), "runs": 1}
        if self.experiment == "amplification":
            epsilon = 1 / self.setting
            gamma, rho_2 = amplification(epsilon), posterior_bound(RHO_1, epsilon)
            return {"mean": {"amplification": gamma, "rho_2": rho_2}, "runs": 1}
        with threadpool_limits(1):
            found = [TRIALS[self.experiment](table(self.data, online), self.setting, run) for run in range(self.runs)]
        columns = {name: np.array([one[name] for one in found]) for name in found[0]}
        return {
            "mean": {name: float(values.mean()) for name, values in columns.items()},
            "sd": {name: float(values.std(ddof=1)) if len(values) > 1 else 0.0 for name, values in columns.items()},
            "runs": self.runs,
        }


def all_tasks(fast: bool) -> Iterator[Task]:
    """Everything, the small sets first; `fast` is what the tests run."""
    yield from (Task("amplification", "all", b) for b in B_FINE)
    for data in ("iris", "wine") if fast else sorted(TITLES, key=lambda name: name in SYNTHETIC):
        runs = RUNS_FAST if fast else RUNS_SYNTHETIC if data in SYNTHETIC else RUNS
        for experiment, settings in SETTINGS.items():
            yield from (Task(experiment, data, s, 1 if experiment == "epsilons" else runs) for s in settings)
    yield from (Task("time", "clusters", size) for size in (((2000, 10), (2000, 20)) if fast else SIZES))


class Results:
    """Finished tasks as the tables and figures ask for them."""

    def __init__(self, found: dict[Task, dict[str, Any]], skipped: dict[str, str], sources: dict[str, Any]) -> None:
        self._found = {(task.experiment, task.data, task.setting): value for task, value in found.items()}
        self.skipped, self.sources = skipped, sources
        self.data = [name for name in TITLES if ("pca-radius", name, B[0]) in self._found]
        self.sizes = sorted(setting for experiment, _, setting in self._found if experiment == "time")

    def get(self, experiment: str, data: str, setting: Any, name: str) -> float:
        """A mean; NaN where there is none."""
        return float(self._found[experiment, data, setting]["mean"].get(name, math.nan))

    def error(self, experiment: str, data: str, setting: Any, name: str) -> float:
        """Standard error of that mean."""
        cell = self._found[experiment, data, setting]
        return float(cell["sd"][name] / math.sqrt(cell["runs"]))

    def runs(self, data: str) -> int:
        """How many runs the means of a data set are over."""
        return int(self._found["pca-radius", data, B[0]]["runs"])

    def to_dict(self) -> dict[str, Any]:
        """All means, for other programs."""
        return {"|".join(map(str, key)): value for key, value in self._found.items()}
