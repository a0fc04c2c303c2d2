"""What is to be done, in pieces that can be done again alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import adversaries
import functions
import votes
from published import FUNCTIONS
from threadpoolctl import threadpool_limits

RUNS, RUNS_FAST = 20, 2
PEOPLE, PEOPLE_FAST = 100_000, 3_000
FIG_4 = ("published", "magnitude", "repaired", "floor 0.1", "default")
FIG_5 = (
    ("published", 0.15, "real"),
    ("published", 0.025, "real"),
    ("published", 0.15, "random"),
    ("repaired", 0.15, "real"),
    ("default", 0.15, "real"),
)
FIG_3 = (
    ("quartiles", "published", 9),
    ("quartiles", "magnitude", 9),
    ("quartiles", "repaired", 9),
    ("quartiles", "repaired", 300),
    ("supervised", "repaired", 300),
    ("supervised", "floor 0.1", 300),
    ("supervised", "default", 300),
)
"""Binning, scheme, start-up rows."""
MIXED = (("repaired", 1, 4), ("repaired", 2, 5), ("floor 0.1", 2, 5), ("default", 2, 5))
THETAS = (0.6, 0.7, 0.8, 0.9)
DEFINITION_2 = tuple((k, floor) for floor in (0.0, 0.1, 0.25) for k in (1, 2, 4))
MODULES = {"votes": votes, "functions": functions, "adversaries": adversaries}


@dataclass(frozen=True)
class Task:
    """One experiment of a module, with its arguments."""

    module: str
    experiment: str
    setting: tuple[Any, ...] = ()

    @property
    def key(self) -> str:
        """As it stands in the store."""
        return "|".join(map(str, (self.module, self.experiment, *self.setting)))

    @property
    def needs_votes(self) -> bool:
        return self.module == "votes"

    def do(self) -> dict[str, Any]:
        """Its figures, computed in one thread."""
        with threadpool_limits(1):
            return dict(getattr(MODULES[self.module], self.experiment)(*self.setting))


def all_tasks(fast: bool) -> Iterator[Task]:
    """Everything; `fast` is what the tests run."""
    runs, people = (RUNS_FAST, PEOPLE_FAST) if fast else (RUNS, PEOPLE)
    yield Task("adversaries", "theorem_2")
    yield Task("adversaries", "miners", (400 if fast else 4_000,))
    yield Task("votes", "original", (runs,))
    yield Task("votes", "theorem_1", (runs,))
    yield from (Task("votes", "definition_2", setting) for setting in DEFINITION_2)
    yield from (Task("votes", "levels", (scheme, runs)) for scheme in FIG_4)
    yield from (Task("votes", "whole_tuple", (theta, runs)) for theta in THETAS)
    yield from (Task("votes", "arriving", (*setting, runs)) for setting in FIG_5)
    yield from (Task("votes", "mixed", (*setting, 10 * people // 100 if fast else 10_000, 0.15)) for setting in MIXED)
    for function in (1,) if fast else FUNCTIONS:
        yield from (Task("functions", "ceiling", (function, kind, people)) for kind in ("quartiles", "supervised"))
        yield from (Task("functions", "guided", (function, *setting, people)) for setting in FIG_3[:: 4 if fast else 1])
        yield Task("functions", "by_class", (function, people))


class Results:
    """Finished tasks as the tables and figures ask for them: by experiment and the first of its settings."""

    def __init__(self, found: dict[Task, dict[str, Any]], skipped: str | None, server: dict[str, Any] | None) -> None:
        self._found = {(task.experiment, *task.setting): value for task, value in found.items()}
        self.skipped, self.server = skipped, server

    def get(self, experiment: str, *setting: Any) -> dict[str, Any] | None:
        """The figures of an experiment whose settings begin with these, or None."""
        for key, value in self._found.items():
            if key[0] == experiment and key[1 : 1 + len(setting)] == setting:
                return value
        return None

    def to_dict(self) -> dict[str, Any]:
        return {"|".join(map(str, key)): value for key, value in self._found.items()}
